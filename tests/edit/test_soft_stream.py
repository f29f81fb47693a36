"""Soft masks on edges: hard ones give the circuit's own numbers, and gradients are exact, in every family."""

import pytest
import torch

import headcount as hc
from families import FAMILIES, random_task, tiny
from headcount.edit.edge_fills import EdgeFiller
from headcount.edit.soft_stream import soft_edges
from headcount.meters import CircuitMeter
from headcount.meters.metrics import logit_diff
from headcount.models.wiring import find_wiring, has_edges
from headcount.tasks.batches import batches

PAIRS = random_task().test


def masked_logit_diff(model, wiring, base, masks):
    """[mask, pair]."""
    copies = len(masks)
    past = None if base.prefix is None else model.repeated_prefix(base.prefix, copies)
    with torch.enable_grad(), model.frozen(), soft_edges(model, wiring, base, masks):
        logits = model.last_logits(base.ids.repeat(copies, 1), base.last.repeat(copies), past)
    return logit_diff(logits, base.batch.repeated(copies)).view(copies, -1)


def readied_bases(model, wiring, fill):
    filler = EdgeFiller.prepare(model, wiring, fill, PAIRS, PAIRS, 10**6)
    with torch.no_grad():
        return [(indices, filler.base_run(model, wiring, batch)) for indices, batch in batches(PAIRS, "cpu", 10**6)]


def random_masks(wiring, seed=0, copies=2):
    real = torch.from_numpy(wiring.graph.real)
    made = torch.rand(copies, *real.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return made, real


@pytest.mark.parametrize("readers", ["kv-heads", "query-heads"])
@pytest.mark.parametrize("fill", ["counterfactual", "mean", "zero"])
@pytest.mark.parametrize("family", [family for family in FAMILIES if has_edges(tiny(family))])
def test_hard_masks_give_what_the_circuit_gives(family, fill, readers):
    model = tiny(family, torch.float64)
    wiring = find_wiring(model, readers)
    made, real = random_masks(wiring)
    keeps = (made < 0.5) & real
    meter = CircuitMeter(model, PAIRS, fill=fill, reference=PAIRS, readers=readers)
    expected = torch.from_numpy(meter.measure(keeps)["logit_diff"])
    with wiring.readied():
        for indices, base in readied_bases(model, wiring, fill):
            found = masked_logit_diff(model, wiring, base, keeps.double())
            # Families that compute norms in float32 whatever the model's type agree to that.
            assert torch.allclose(found, expected[:, indices], atol=1e-5)


@pytest.mark.parametrize("family", [family for family in FAMILIES if has_edges(tiny(family))])
def test_gradients_of_masks_equal_finite_differences(family):
    model = tiny(family, torch.float64)
    wiring = find_wiring(model)
    made, real = random_masks(wiring)
    masks = (made * real).requires_grad_()
    with wiring.readied():
        _, base = readied_bases(model, wiring, "counterfactual")[0]
        masked_logit_diff(model, wiring, base, masks).sum().backward()
        largest = float(masks.grad.abs().max())
        shuffled = real.nonzero()[torch.randperm(int(real.sum()), generator=torch.Generator().manual_seed(1))]
        for writer, reader in shuffled[:6].tolist():
            slopes = [_slope(model, wiring, base, masks, (1, writer, reader), h) for h in (1e-2, 1e-3, 1e-4)]
            found = float(masks.grad[1, writer, reader])
            assert min(abs(slope - found) for slope in slopes) < 1e-3 * largest


def _slope(model, wiring, base, masks, place, h):
    ends = []
    for step in (h, -h):
        moved = masks.detach().clone()
        moved[place] += step
        ends.append(float(masked_logit_diff(model, wiring, base, moved).sum()))
    return (ends[0] - ends[1]) / (2 * h)


def test_blocks_of_tokens_change_nothing(monkeypatch):
    from headcount.edit import soft_stream

    model = tiny("llama-gqa", torch.float64)
    wiring = find_wiring(model)
    made, real = random_masks(wiring)
    found = []
    for room in (2**24, 1):
        monkeypatch.setattr(soft_stream, "SEEN_BYTES", room)
        masks = (made * real).requires_grad_()
        with wiring.readied():
            _, base = readied_bases(model, wiring, "counterfactual")[0]
            masked_logit_diff(model, wiring, base, masks).sum().backward()
        found.append(masks.grad)
    assert torch.allclose(*found, atol=1e-12)


def test_hooks_are_gone_afterwards():
    model = tiny("gpt2")
    wiring = find_wiring(model)
    ids = torch.tensor([pair.clean for pair in PAIRS[:1]])
    with torch.no_grad():
        plain = model.logits(ids)
        _, base = readied_bases(model, wiring, "counterfactual")[0]
        with pytest.raises(hc.HeadcountError), soft_edges(model, wiring, base, random_masks(wiring)[0]):
            raise hc.HeadcountError("stop")
        assert torch.equal(model.logits(ids), plain)
