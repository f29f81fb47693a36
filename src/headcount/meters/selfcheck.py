"""`headcount check MODEL`: does headcount do on this model what it says? One verdict per line."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from ..edit import Branches, Filling, cut_heads, head_values, visit_heads
from ..models import Model
from ..models.wiring import has_edges
from ..tasks.examples import Pair
from .circuits import CircuitMeter

LENGTH = 12
PLAIN_TEXT = (
    "The train left the station a little after nine. It was raining, and most of the people in the carriage were"
    " reading or looking out of the window. A boy asked his mother how long the journey would take, and she told him"
    " that they would be home before dinner."
)


@dataclass(frozen=True)
class Verdict:
    name: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class Runs:
    """What all tests compare with: prompts and counterfactuals, and Hugging Face's own logits of both, run once."""

    model: Model
    clean: Tensor
    corrupt: Tensor

    @cached_property
    def of_clean(self) -> Tensor:
        return self._logits(self.clean)

    @cached_property
    def of_corrupt(self) -> Tensor:
        return self._logits(self.corrupt)

    def _logits(self, ids: Tensor) -> Tensor:
        logits: Tensor = self.model.hf(input_ids=ids, use_cache=False).logits
        return logits


def check(model: Model) -> Iterator[Verdict]:
    """Try headcount out on a model, on random tokens: verdicts as they come. Needs no tokenizer and leaves the model as
    it was."""
    # Prompts and counterfactuals differ in the middle, so that both ends can be compared.
    generator, size = torch.Generator().manual_seed(0), model.hf.config.get_text_config().vocab_size
    clean = torch.randint(size, (3, LENGTH), generator=generator)
    corrupt = clean.clone()
    corrupt[:, 4:7] = torch.randint(size, (3, 3), generator=generator)
    hooks, runs = _hook_count(model.hf), Runs(model, clean.to(model.device), corrupt.to(model.device))
    of_cuts = (_all_from_other_run, _zero_is_zeroed_weight, _layers_are_shared)
    checks = (_same_logits, _same_last_logits, *of_cuts, _prefix_is_reused)
    of_edges = (_edges_end_where_they_should,) if has_edges(model) else ()
    of_text = (_tokens_are_known,) if model.tokenizer is not None else ()
    for test in checks + of_edges + of_text:
        try:
            with torch.no_grad():
                passed, detail = test(model, runs)
        except Exception as error:  # A self-test reports whatever goes wrong, as a verdict.
            passed, detail = False, f"{type(error).__name__}: {error}"
        yield Verdict(test.__doc__ or "", passed, detail)
    left = _hook_count(model.hf) - hooks
    yield Verdict("no hook is left behind", left == 0, f"{left} left")


def _same_logits(model: Model, runs: Runs) -> tuple[bool, str]:
    """with no cut, logits are bit-identical to Hugging Face"""
    with visit_heads(model, lambda layer, z: z):
        seen = model.logits(runs.clean)
    return torch.equal(runs.of_clean, seen), f"largest difference {_gap(runs.of_clean, seen):.1e}"


def _same_last_logits(model: Model, runs: Runs) -> tuple[bool, str]:
    """logits of the answer position alone equal those of the whole pass"""
    last = torch.tensor([LENGTH - 1, LENGTH - 3, LENGTH - 1], device=model.device)
    plain = runs.of_clean[torch.arange(3, device=model.device), last]
    return _close(plain, model.last_logits(runs.clean, last))


def _all_from_other_run(model: Model, runs: Runs) -> tuple[bool, str]:
    """with every head from the counterfactual run, positions with the same token give that run's logits"""
    nothing_kept = torch.zeros(1, model.n_layers, model.n_heads, dtype=torch.bool)
    with cut_heads(model, nothing_kept, Filling(head_values(model, runs.corrupt))):
        mixed = model.logits(runs.clean)
    same = runs.clean == runs.corrupt
    return _close(runs.of_corrupt[same], mixed[same])


def _tokens_are_known(model: Model, runs: Runs) -> tuple[bool, str]:
    """the tokenizer makes tokens that the model knows"""
    return True, f"{len(model.encode(PLAIN_TEXT))} of a plain text"


def _zero_is_zeroed_weight(model: Model, runs: Runs) -> tuple[bool, str]:
    """a head removed with zeros equals the model with that head's output weights set to zero"""
    layer, head = model.n_layers // 2, model.n_heads - 1
    keep = torch.ones(1, model.n_layers, model.n_heads, dtype=torch.bool)
    keep[0, layer, head] = False
    with cut_heads(model, keep, Filling()):
        cut = model.logits(runs.clean)
    weight = model.anatomy.out_weight(layer)[head]  # a view, so that writing to it writes to the model
    before = weight.clone()
    weight.zero_()
    try:
        zeroed = model.logits(runs.clean)
    finally:
        weight.copy_(before)
    return _close(zeroed, cut)


def _layers_are_shared(model: Model, runs: Runs) -> tuple[bool, str]:
    """cuts that run together, and share the layers before they part, give the logits of each alone"""
    keep = torch.ones(2, model.n_layers, model.n_heads, dtype=torch.bool)
    keep[:, 0, 0] = keep[1, -1, 0] = False
    last = torch.full((3,), LENGTH - 1, device=model.device)
    with cut_heads(model, keep, Filling(), branches=Branches(keep)):
        together = model.last_logits(runs.clean.repeat(2, 1), last.repeat(2))
    alone = []
    for one in keep.split(1):
        with cut_heads(model, one, Filling()):
            alone.append(model.last_logits(runs.clean, last))
    return _close(torch.cat(alone), together)


def _prefix_is_reused(model: Model, runs: Runs) -> tuple[bool, str]:
    """a run behind a shared prefix gives the logits of the whole run"""
    last = torch.full((3,), LENGTH - 1, device=model.device)
    prefix = model.repeated_prefix(model.read_prefix(runs.clean[:, :4]), 1)
    return _close(model.last_logits(runs.clean, last), model.last_logits(runs.clean[:, 4:], last - 4, prefix))


def _edges_end_where_they_should(model: Model, runs: Runs) -> tuple[bool, str]:
    """with all edges kept the clean run is back, with none the counterfactual run"""
    sides = zip(runs.clean.tolist(), runs.corrupt.tolist(), strict=True)
    meter = CircuitMeter(model, [Pair(tuple(one), tuple(other), (1,), (2,)) for one, other in sides])
    every = torch.from_numpy(meter.wiring.graph.real)
    found = torch.from_numpy(meter.measure(torch.stack([every, torch.zeros_like(every)]))["logit_diff"])
    logits = torch.stack([logits[:, -1] for logits in (runs.of_clean, runs.of_corrupt)])
    return _close((logits[..., 1] - logits[..., 2]).cpu(), found.to(logits.dtype))


def _close(wanted: Tensor, got: Tensor) -> tuple[bool, str]:
    """Equal up to rounding: relative to the largest logit, a few hundred units in the last place."""
    gap = _gap(wanted, got)
    allowed = 300 * torch.finfo(wanted.dtype).eps * max(float(wanted.abs().max()), 1.0)
    return gap <= allowed, f"largest difference {gap:.1e}, allowed {allowed:.1e}"


def _gap(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())


def _hook_count(hf: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in hf.modules())
