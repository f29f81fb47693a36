"""What a click on the switchboard costs, from the request to the answer over its own server, beside one Hugging Face
forward of the same prompt."""

import http.client
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import headcount as hc
from headcount.view.server import TOKEN_HEADER

CUT = 20
"""Heads that the second kind of click has cut, wherever they are."""


@dataclass(frozen=True)
class ClicksBench:
    """A model and one prompt."""

    model: hc.Model
    ids: list[int]
    prompts: str
    baseline: str = "one forward of the prompt"
    draws: random.Random = field(default_factory=lambda: random.Random(0))

    @torch.no_grad()
    def forward(self) -> None:
        self.model.hf(input_ids=torch.tensor([self.ids]), logits_to_keep=1, use_cache=False)

    @cached_property
    def _address(self) -> list[str]:
        return hc.play(self.model, results=None).url.removeprefix("http://").split("/?token=")

    def click(self, layers: range, heads: int, **state: object) -> None:
        """Another set of heads every time, so that no answer is known already; one at least is in the first layer."""
        everything = [(layer, head) for layer in layers for head in range(self.model.n_heads)]
        cut = {(layers[0], self.draws.randrange(self.model.n_heads)), *self.draws.sample(everything, heads)}
        state = {"prompt": self.ids, "cut": [f"a{layer}.h{head}" for layer, head in sorted(cut)], **state}
        address, token = self._address
        line = http.client.HTTPConnection(address)
        line.request("POST", "/api/answer", json.dumps({"state": state}), {TOKEN_HEADER: token})
        answer = json.loads(line.getresponse().read())
        line.close()
        assert answer["heads"] == len(cut), answer


def gpt2_clicks() -> ClicksBench:
    torch.manual_seed(0)
    model = hc.load(GPT2LMHeadModel(GPT2Config()), name="GPT-2 small size")
    return ClicksBench(model, torch.randint(50_000, (16,)).tolist(), "1 x 16 tokens")


def smollm2_clicks() -> ClicksBench:
    model = hc.load("smollm2")
    pair = hc.task("ioi", model, n=20).test[0]
    return ClicksBench(model, list(pair.clean), f"1 x {len(pair.clean)} tokens of ioi")


def jobs_of(bench: ClicksBench) -> Iterator[tuple[str, str, str, float, Callable[[], object]]]:
    layers = bench.model.n_layers
    later, scaled = range(layers // 2, layers), {"fill": "scale(0.5)"}
    yield "click-first", "a click, a head of the first layer", "1.2", 1, lambda: bench.click(range(layers), 1)
    yield (
        "click-many",
        f"a click, {CUT} heads of all layers",
        "1.2",
        1,
        lambda: bench.click(range(layers), CUT, **scaled),
    )
    yield "click-later", "a click, heads of the second half", "1.2", 1, lambda: bench.click(later, 4)
