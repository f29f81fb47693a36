"""What answers under a cut cost, beside Hugging Face's `generate` on the same batch with the same number of tokens."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import headcount as hc
from headcount.meters.generation import Cuts, generate
from headcount.tasks.questions import questions
from headcount.tasks.questions.prompts import question_prompts

NEW_TOKENS = 16
CUTS = 8


@dataclass(frozen=True)
class AnswersBench:
    """A model and prompts of several lengths. The model knows no token that ends a text, so that both sides write the
    same number of tokens."""

    model: hc.Model
    asked: list[list[int]]
    prompts: str
    baseline: str = "Hugging Face's generate"

    def forward(self) -> None:
        width = max(map(len, self.asked))
        ids = torch.tensor([[0] * (width - len(row)) + row for row in self.asked])
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in self.asked])
        self.model.hf.generate(
            input_ids=ids, attention_mask=mask, max_new_tokens=NEW_TOKENS, do_sample=False, pad_token_id=0
        )

    def cut(self, count: int) -> Callable[[], object]:
        shape = (count, self.model.n_layers, self.model.n_heads)
        keeps = torch.rand(shape, generator=torch.Generator().manual_seed(0)) > 0.1
        return lambda: generate(self.model, self.asked, Cuts(keeps), max_new_tokens=NEW_TOKENS)


def gpt2_answers() -> AnswersBench:
    torch.manual_seed(0)
    model = hc.load(GPT2LMHeadModel(GPT2Config()), name="GPT-2 small size")
    rows = [torch.randint(50_000, (length,)).tolist() for length in range(24, 40)]
    return AnswersBench(_endless(model), rows, f"{len(rows)} prompts of 24 to 39 tokens, {NEW_TOKENS} new ones")


def smollm2_answers() -> AnswersBench:
    model = hc.load("smollm2")
    rows = question_prompts(model, questions().test[:16])
    return AnswersBench(_endless(model), rows, f"{len(rows)} questions, {NEW_TOKENS} new tokens")


def _endless(model: hc.Model) -> hc.Model:
    model.hf.generation_config.eos_token_id = None
    return replace(model, tokenizer=None)


def jobs_of(bench: AnswersBench) -> Iterator[tuple[str, str, str, float, Callable[[], object]]]:
    yield "one-cut", "answers under one cut", "1.11", 1, bench.cut(1)
    yield "many-cuts", f"answers under {CUTS} cuts in one batch, for each cut", "1.11", CUTS, bench.cut(CUTS)
