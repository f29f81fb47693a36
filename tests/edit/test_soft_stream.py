"""Soft masks on edges: hard ones give the circuit's own numbers, and gradients are exact, in every family."""

import gc
import weakref

import pytest
import torch

import headcount as hc
from families import FAMILIES, random_task, tiny
from headcount.edit import soft_stream
from headcount.meters import CircuitMeter
from headcount.models.wiring import has_edges

PAIRS = random_task().test
WITH_EDGES = [family for family in FAMILIES if has_edges(tiny(family))]


def random_masks(meter, seed=0, copies=2):
    real = torch.from_numpy(meter.graph.real)
    made = torch.rand(copies, *real.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return made * real


def graded(meter, masks):
    """[mask, pair]."""
    with torch.enable_grad(), meter.model.frozen():
        return meter.graded(masks, "logit_diff")


@pytest.mark.parametrize(
    ("fill", "readers"),
    [("counterfactual", "kv-heads"), ("counterfactual", "query-heads"), ("counterfactual", "components"),
     ("mean", "kv-heads"), ("zero", "kv-heads")],
)  # fmt: skip
@pytest.mark.parametrize("family", WITH_EDGES)
def test_hard_masks_give_what_the_circuit_gives(family, fill, readers):
    meter = CircuitMeter(tiny(family, torch.float64, layers=2), PAIRS, fill=fill, reference=PAIRS, readers=readers)
    keeps = random_masks(meter) > 0.5
    expected = torch.from_numpy(meter.measure(keeps)["logit_diff"])
    # Families that compute norms in float32 whatever the model's type agree to that.
    assert torch.allclose(graded(meter, keeps.double()), expected, atol=1e-5)


@pytest.mark.parametrize("absent", [0.0, 0.6], ids=["all-edges", "some-edges"])
@pytest.mark.parametrize("family", WITH_EDGES)
def test_gradients_of_masks_equal_finite_differences(family, absent):
    """Of the edges that are there at all: the others are not computed."""
    meter = CircuitMeter(tiny(family, torch.float64, layers=2), PAIRS)
    masks = random_masks(meter)
    masks = (masks * (masks > absent)).requires_grad_()
    graded(meter, masks).sum().backward()
    largest = float(masks.grad.abs().max())
    edges = (masks[1] > 0).nonzero()
    some = edges[torch.randperm(len(edges), generator=torch.Generator().manual_seed(1))][:3]
    slopes = _slopes(meter, masks[1].detach(), some, torch.tensor([1e-2, 1e-3], dtype=torch.float64))
    found = masks.grad[1][tuple(some.T)]
    assert slopes.shape == (2, 3)
    # Norms in float32 blur small steps, so one of two has to fit.
    assert ((slopes - found).abs() < 1e-3 * largest).any(0).all()


def _slopes(meter, mask, edges, steps):
    """Of the metric along each edge of one mask, [step, edge]; all that is moved is run at once."""
    moved = mask.repeat(2, len(steps), len(edges), 1, 1)
    for sign, side in zip((1, -1), moved, strict=True):
        for step, by_edge in zip(steps, side, strict=True):
            for own, (writer, reader) in zip(by_edge, edges.tolist(), strict=True):
                own[writer, reader] += sign * step
    with torch.no_grad(), meter.model.frozen():
        up, down = meter.graded(moved.flatten(0, 2), "logit_diff").sum(1).view(2, len(steps), len(edges))
    return (up - down) / (2 * steps[:, None])


def test_blocks_of_tokens_change_nothing(monkeypatch):
    meter = CircuitMeter(tiny("llama-gqa", torch.float64), PAIRS)
    found = []
    for room in (2**24, 1):
        monkeypatch.setattr(soft_stream, "SEEN_BYTES", room)
        masks = random_masks(meter).requires_grad_()
        graded(meter, masks).sum().backward()
        found.append(masks.grad)
    assert torch.allclose(*found, atol=1e-12)


def test_a_mask_gives_the_same_alone_and_among_others():
    meter = CircuitMeter(tiny("gpt2", torch.float64), PAIRS)
    masks = random_masks(meter, copies=3)
    together = graded(meter, masks)
    for number in range(3):
        assert torch.allclose(graded(meter, masks[number : number + 1])[0], together[number], atol=1e-12)


def test_hooks_are_gone_afterwards():
    model = tiny("gpt2")
    meter = CircuitMeter(model, PAIRS)
    ids = torch.tensor([pair.clean for pair in PAIRS[:1]])
    with torch.no_grad():
        plain = model.logits(ids)
        meter.measure(torch.zeros(1, *meter.wiring.graph.real.shape, dtype=torch.bool))
        _, base, _ = meter._kept[0]
        masks = random_masks(meter).float()
        with (
            pytest.raises(hc.HeadcountError),
            soft_stream.soft_edges(model, meter.wiring, base, masks, meter.room.buffers),
        ):
            raise hc.HeadcountError("stop")
        assert torch.equal(model.logits(ids), plain)


def test_nothing_of_a_run_is_kept_after_its_gradient(monkeypatch):
    """Its buffers hold what every writer wrote: hundreds of updates would fill any memory."""
    streams, made = weakref.WeakSet(), soft_stream.SoftStream.__init__

    def noted(stream, *args):
        streams.add(stream)
        made(stream, *args)

    monkeypatch.setattr(soft_stream.SoftStream, "__init__", noted)
    meter = CircuitMeter(tiny("gpt2", torch.float64), PAIRS)
    masks = random_masks(meter).requires_grad_()
    found = graded(meter, masks).sum()
    assert streams
    found.backward()
    del found
    gc.collect()
    assert not streams


def test_two_runs_with_gradients_at_once_have_buffers_of_their_own_and_the_next_has_one_of_theirs():
    model = tiny("llama-gqa", torch.float64)
    masks = random_masks(CircuitMeter(model, PAIRS)).requires_grad_()

    def gradient(meter, *which):
        return torch.autograd.grad(sum(graded(meter, masks[[one]]).sum() for one in which), masks)[0]

    meter, alone = CircuitMeter(model, PAIRS), [gradient(CircuitMeter(model, PAIRS), one) for one in (0, 1)]
    assert torch.equal(gradient(meter, 0, 1), sum(alone)), "neither has written over the other"
    lent = {buffer.data_ptr() for buffer in meter.room.buffers._free}
    assert lent
    assert torch.equal(gradient(meter, 1), alone[1])
    assert {buffer.data_ptr() for buffer in meter.room.buffers._free} == lent, "nothing new was needed"
