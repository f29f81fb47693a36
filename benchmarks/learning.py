"""What a step of a learned ranking costs: budget, soft mask, forward, backward and Adam, on a batch that is ready."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import torch

import headcount as hc
from headcount.edit import Filler
from headcount.meters import HeadMeter
from headcount.rank.learned import SoftTopK, edge_examples
from headcount.rank.method import Request
from headcount.rank.training import Examples

SHARE = 0.1


class Steps:
    """Over heads, over all edges, and over the tenth of them that EAP puts first."""

    def __init__(self, model: hc.Model, pairs: Sequence[hc.Pair]) -> None:
        self.model, self.pairs = model, list(pairs)
        filler = Filler.prepare(model, "counterfactual", examples=pairs, reference=pairs)
        self.request = Request("logit_diff", filler, "all", 5, 0, 2048, lambda n: None)

    def _step(self, examples: Examples, chosen: torch.Tensor) -> Callable[[], object]:
        training = SoftTopK(self.model, examples, self.request, hc.Learning(batch=len(self.pairs)), chosen)
        theta = (-torch.arange(1.0, len(chosen) + 1).log()[None]).requires_grad_()
        adam = torch.optim.Adam([theta])
        updates = iter(range(10**9))
        return lambda: training.update(theta, adam, next(updates), [0])

    @cached_property
    def heads(self) -> Callable[[], object]:
        real = torch.ones(self.model.n_layers, self.model.n_heads, dtype=torch.bool)
        examples = Examples(self.pairs, len(self.pairs), self._head_meter, "logit_diff", real)
        return self._step(examples, torch.arange(real.numel()))

    def _head_meter(self, some: Sequence[hc.Pair]) -> HeadMeter:
        return HeadMeter(self.model, some, self.request.filler)

    def _edges(self, share: float) -> Callable[[], object]:
        examples = edge_examples(self.model, self.pairs, self.request, hc.Learning(batch=len(self.pairs)))
        task = hc.Task("bench", "Bench", "logit_diff", tuple(self.pairs), tuple(self.pairs))
        order = torch.from_numpy(hc.score(self.model, task, "eap").values).abs().flatten().argsort(descending=True)
        return self._step(examples, order[: round(share * int(examples.real.sum()))])

    @cached_property
    def edges(self) -> Callable[[], object]:
        return self._edges(1.0)

    @cached_property
    def some_edges(self) -> Callable[[], object]:
        return self._edges(SHARE)


def jobs_of(model: hc.Model, pairs: Sequence[hc.Pair]) -> Iterator[tuple[str, str, str, float, Callable[[], object]]]:
    steps = Steps(model, pairs)
    yield "learn-heads", "a step of a learned ranking of heads", "3", 1, lambda: steps.heads()
    yield "learn-edges", "a step of a learned ranking of all edges", "6", 1, lambda: steps.edges()
    yield "learn-tenth", "a step of a learned ranking of 10% of the edges", "3", 1, lambda: steps.some_edges()
