"""What a step of sparse post-training costs, beside a step of plain LoRA on the same batch."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from accelerate import Accelerator
from transformers import GPT2Config, GPT2LMHeadModel

import headcount as hc
from headcount.sparse.allocator import keep_freed_memory
from headcount.sparse.objective import bounds_of
from headcount.sparse.text import Text
from headcount.sparse.trainee import make_trainee
from headcount.sparse.training import Training, _step

RECIPE = hc.Recipe(lora=16, batch=4, length=128, kl=0.5, tail=0.02, sharpness=2.0)


@dataclass(frozen=True, eq=False)
class TrainingBench:
    """Two copies of a model, so that neither trains the other's weights, and one batch."""

    load: Callable[[], hc.Model]
    ids: torch.Tensor
    baseline: str = "a step of plain LoRA (the same adapters, Hugging Face's own loss and attention)"
    prompts: str = "4 x 128 tokens"

    def __post_init__(self) -> None:
        keep_freed_memory()  # for both

    @cached_property
    def model(self) -> hc.Model:
        return self.load()

    @cached_property
    def _plain(self) -> Callable[[], None]:
        trainee = make_trainee(self.load(), RECIPE.changed(control=True))
        optimizer = torch.optim.AdamW(list(trainee.parameters.values()), lr=1e-4)

        def step() -> None:
            loss = trainee.model.hf(input_ids=self.ids, labels=self.ids, use_cache=False).loss
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(list(trainee.parameters.values()), 1.0)
            optimizer.step()

        return step

    def forward(self) -> None:
        self._plain()

    def step_of(self, recipe: hc.Recipe) -> Callable[[], object]:
        trainee = make_trainee(self.load(), recipe)
        accelerator, text = Accelerator(cpu=True), Text(self.ids, {}, torch.zeros(len(self.ids), dtype=torch.long))
        module = accelerator.prepare(trainee.model.hf)
        optimizer = torch.optim.AdamW(list(trainee.parameters.values()), lr=1e-4)
        training = Training(trainee.parameters, optimizer, bounds_of(recipe, []), [])
        return lambda: _step(trainee, module, text, recipe, training, accelerator, 0)


def gpt2_training() -> TrainingBench:
    def load() -> hc.Model:
        torch.manual_seed(0)
        return hc.load(GPT2LMHeadModel(GPT2Config()), name="GPT-2 small size")

    return TrainingBench(load, torch.randint(50_000, (4, 128)))


def smollm2_training() -> TrainingBench:
    return TrainingBench(lambda: hc.load("smollm2"), torch.randint(3, 49_000, (4, 128)))


def jobs_of(bench: TrainingBench) -> Iterator[tuple[str, str, str, float, Callable[[], object]]]:
    yield "step", "a step of sparse post-training, with its dense forward, KL and tail", "2", 1, bench.step_of(RECIPE)
    control = RECIPE.changed(control=True)
    yield "control", "a step of its dense control, with the same", "–", 1, bench.step_of(control)
