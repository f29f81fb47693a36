"""What an update of gates costs, beside a plain Hugging Face forward and backward of the same batch."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import headcount as hc
from headcount.edit import Filler
from headcount.rank.fit import Fit
from headcount.rank.gate_fit import Fitter, Objective, Stage
from headcount.rank.method import Request
from headcount.tasks.batches import collate

SEEDS = 4


@dataclass(frozen=True)
class GateBench:
    """A model and one batch of prompts with targets."""

    model: hc.Model
    examples: list[hc.Completion]
    prompts: str
    baseline: str = "a forward and an activation-only backward"

    def forward(self) -> None:
        """The same batch through Hugging Face: all logits, the loss of the targets, and the gradient of the embeddings,
        with the weights frozen."""
        batch = collate(self.examples, self.model.device)
        with self.model.frozen(), torch.enable_grad():
            inputs = self.model.hf.get_input_embeddings()(batch.clean).detach().requires_grad_()
            log_probs = self.model.hf(inputs_embeds=inputs, use_cache=False).logits.log_softmax(-1)
            log_probs[batch.rows, batch.spots].gather(-1, batch.answers).mean().backward()

    @cached_property
    def one_seed(self) -> Callable[[], None]:
        return self._update(1)

    @cached_property
    def many_seeds(self) -> Callable[[], None]:
        return self._update(SEEDS)

    def _update(self, seeds: int) -> Callable[[], None]:
        filler = Filler.prepare(self.model, "zero", examples=self.examples, reference=self.examples)
        objective = Objective([(example,) for example in self.examples], lambda log_probs: -log_probs[:, 0])
        fit = Fit(seeds=seeds, updates=1, batch=len(self.examples), patience=0)
        request = Request("log_prob_per_token", filler, "all", 1, 0, 2048, lambda n: None, fit=fit)
        fitter = Fitter(self.model, objective, request, Path("unused.safetensors"))
        theta = fitter.first_gates().requires_grad_()
        adam = torch.optim.Adam([theta])
        return lambda: fitter.update(Stage("keeping", 0.1), theta, adam, 0, list(range(seeds)))


def gpt2_gates() -> GateBench:
    torch.manual_seed(0)
    model = hc.load(GPT2LMHeadModel(GPT2Config()), name="GPT-2 small size")
    rows = torch.randint(50_000, (8, 40)).tolist()
    return GateBench(model, [hc.Completion(tuple(r[:32]), tuple(r[32:])) for r in rows], "8 x 32 + 8 tokens")


def smollm2_gates() -> GateBench:
    model = hc.load("smollm2")
    return GateBench(model, list(hc.task("syntax", model, n=16).train), "8 prompts of syntax")


def jobs_of(bench: GateBench) -> Iterator[tuple[str, str, str, float, Callable[[], object]]]:
    yield "update", "an update of gates, one seed", "1.15", 1, bench.one_seed
    yield "seeds", f"an update of gates, {SEEDS} seeds in one batch, for each seed", "1.15", SEEDS, bench.many_seeds
