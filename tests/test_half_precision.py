"""Half precision: what float16 and bfloat16 give is what float32 gives with the same (rounded) weights, up to rounding.

Every tolerance is a factor times the type's eps (its spacing at 1) times the size of what is compared, which is also
how far a wrong result is to be told from a right one: each test says that what it looks for is larger than that.
"""

import copy
from collections import defaultdict
from functools import cache

import numpy as np
import pytest
import torch

import headcount as hc
from families import FAMILIES, prompts, random_task, tiny
from headcount.edit import Filling, cut_heads, head_values
from headcount.models.wiring import find_wiring, has_edges

TASK = random_task(lengths=(10, 8, 9))
HALVES = (torch.float16, torch.bfloat16)
STEPS = 2
"""Of integrated gradients."""
NEW = 4

LOGIT_EPS = 6
"""A logit is wrong by at most so many eps of the largest logit. Three layers round a few dozen times, half an eps each,
in directions of their own; 4.2 at most over all families, cuts and both types, 0.5 in root mean square. An uncut model
is wrong by up to 3.2, so cuts add next to nothing, and every head that is removed moves a logit by more than 18."""
METRIC_EPS = 8
"""A metric, the difference of two logits or of a logit and the logarithm of a sum over them, is wrong by at most so
many eps of the largest logit; 6.3 at most in sweeps, 2.3 in circuits. Removing all heads moves it by more than 27, half
of the edges by more than 14."""
SCORE_EPS = 16
"""A score is wrong by at most so many eps of the largest score. It is a sum over positions of differences (z - fill)
times gradients, which cancel; 12.2 at most (Qwen2), 5.5 of edges. In root mean square, of errors against scores, half
of it: 6.1 at most."""
SCORE_EPS_RELU = 32
"""The same where the MLP is a ReLU (OPT): its derivative jumps, and a unit that rounding moves across zero takes its
whole share of the gradient with it; 15.4 at most, in root mean square 11.8."""

every_half = pytest.mark.parametrize("dtype", HALVES, ids=["float16", "bfloat16"])
every_family = pytest.mark.parametrize("family", FAMILIES)


@cache
def models(family, dtype):
    """(half, float32) with the same weights."""
    half = tiny(family, dtype)
    return half, hc.load(copy.deepcopy(half.hf).to(torch.float32), name=family)


@cache
def head_scores(family, dtype):
    """Of the float32 model, so that both models keep the same heads."""
    return hc.score(models(family, dtype)[1], TASK, "attribution")


@cache
@torch.no_grad()
def largest_logit(family, dtype):
    """Over all prompts of the task, those of one length together."""
    full, by_length = models(family, dtype)[1], defaultdict(list)
    for ids in (ids for pair in (*TASK.train, *TASK.test) for ids in (pair.clean, pair.corrupt)):
        by_length[len(ids)].append(ids)
    return max(float(full.logits(torch.tensor(rows))[:, -1].abs().max()) for rows in by_length.values())


def eps(dtype):
    return torch.finfo(dtype).eps


def assert_close(found, wanted, tolerance):
    np.testing.assert_allclose(np.asarray(found, float), np.asarray(wanted, float), atol=tolerance, rtol=0)


# ---------------------------------------------------------------------------------------------------------------------
# Cuts


def each_head_and_all(model):
    """[cut, layer, head]: every head alone removed, and in the last cut all of them."""
    alone = ~torch.eye(model.head_count, dtype=torch.bool).view(-1, model.n_layers, model.n_heads)
    return torch.cat([alone, torch.zeros_like(alone[:1])])


@torch.no_grad()
@every_family
@every_half
@pytest.mark.parametrize("fill", ["zero", "counterfactual"])
def test_logits_under_every_cut_are_those_of_float32(family, dtype, fill):
    ids, other = prompts(), prompts(seed=9)
    under_cuts, uncut = [], []
    for model in models(family, dtype):
        keeps = each_head_and_all(model)
        filling = Filling() if fill == "zero" else Filling(head_values(model, other))
        with cut_heads(model, keeps, filling):
            logits = model.logits(ids.repeat(len(keeps), 1))
        assert logits.dtype == model.hf.dtype
        under_cuts.append(logits.float().unflatten(0, (len(keeps), -1)))
        uncut.append(model.logits(ids).float())
    tolerance = LOGIT_EPS * eps(dtype) * float(uncut[1].abs().max())
    assert_close(uncut[0], uncut[1], tolerance)
    assert_close(under_cuts[0], under_cuts[1], tolerance)
    effects = (under_cuts[1] - uncut[1]).abs().flatten(1).amax(1)
    assert float(effects.min()) > 2 * tolerance, "a head that is not removed would not be seen"


@torch.no_grad()
@every_family
@every_half
@pytest.mark.parametrize("fill", ["zero", "counterfactual", "scale(0.5)"])
def test_a_cut_of_the_users_own_gives_the_logits_of_float32(family, dtype, fill):
    ids, other, heads = prompts(), prompts(seed=9), ["a0.h1", (1, 2), (2, 3)]
    found = []
    for model in models(family, dtype):
        with hc.cut(model, heads, fill, other=other):
            found.append(model.logits(ids).float())
    half, full = models(family, dtype)
    whole = full.logits(ids)
    tolerance = LOGIT_EPS * eps(dtype) * float(whole.abs().max())
    assert_close(*found, tolerance)
    assert float((found[1] - whole).abs().max()) > 2 * tolerance
    assert {value.dtype for value in head_values(half, ids)} == {dtype}


# ---------------------------------------------------------------------------------------------------------------------
# Scores


def assert_scores_close(family, dtype, found, wanted):
    assert np.isfinite(found).all()
    factor = SCORE_EPS_RELU if family == "opt" else SCORE_EPS
    assert_close(found, wanted, factor * eps(dtype) * np.abs(wanted).max())
    error = np.sqrt(np.square(found - wanted).mean() / np.square(wanted).mean())
    assert error <= factor / 2 * eps(dtype)


@every_family
@every_half
@pytest.mark.parametrize("method", ["attribution", "attribution-ig"])
def test_scores_of_heads_are_those_of_float32(family, dtype, method):
    found, wanted = (hc.score(model, TASK, method, steps=STEPS).by_pair for model in models(family, dtype))
    assert_scores_close(family, dtype, found, wanted)


@every_family
@every_half
@pytest.mark.parametrize("method", ["eap", "eap-ig"])
def test_scores_of_edges_are_those_of_float32(family, dtype, method):
    assert has_edges(models(family, dtype)[0])
    found, wanted = (hc.score(model, TASK, method, steps=STEPS).values for model in models(family, dtype))
    assert_scores_close(family, dtype, found, wanted)


@every_family
@every_half
def test_norms_are_taken_apart_as_in_float32(family, dtype):
    """Whether a norm centres decides how edges go through it; its gain and epsilon are those of the weights."""
    half, full = (find_wiring(model) for model in models(family, dtype))
    for found, wanted in zip(norms(half), norms(full), strict=True):
        assert found.centres == wanted.centres
        assert_close(found.gain.float(), wanted.gain, eps(dtype) * float(wanted.gain.abs().max()))
        assert_close(found.bias.float(), wanted.bias, eps(dtype) * float(wanted.gain.abs().max()))
        # Found from how much the norm shrinks ±1e-3, whose square is about as large.
        assert found.eps == pytest.approx(wanted.eps, rel=4 * eps(dtype))


def norms(wiring):
    layers = [(layer.attention_norm, layer.heads_norm, layer.mlp_norm) for layer in wiring.layers]
    return [norm for norm in (*(norm for layer in layers for norm in layer), wiring.final_norm) if norm is not None]


# ---------------------------------------------------------------------------------------------------------------------
# Sweeps and circuits


def assert_metrics_close(found, wanted, tolerance):
    """All metrics but accuracy, which has no size: a tie that rounding decides is a tie."""
    assert set(found) == set(wanted)
    for name in sorted(set(wanted) - {"accuracy"}):
        np.testing.assert_allclose(found[name], wanted[name], atol=tolerance, rtol=0, err_msg=name)


@every_family
@every_half
@pytest.mark.parametrize("fill", ["mean", "counterfactual"])
def test_sweeps_of_heads_are_those_of_float32(family, dtype, fill):
    scores = head_scores(family, dtype)
    half, full = (
        hc.sweep(model, TASK, scores, keep="absolute", ks=[6], threshold=0, fill=fill)
        for model in models(family, dtype)
    )
    tolerance = METRIC_EPS * eps(dtype) * largest_logit(family, dtype)
    assert_metrics_close(half.values, full.values, tolerance)
    none, whole = full.values["logit_diff"][0, [0, -1]]
    assert np.abs(whole - none).max() > 2 * tolerance, "heads that are not removed would not be seen"
    explained = half.band().value
    assert (explained[0], explained[-1]) == (0, 1)


@torch.no_grad()
@every_family
@every_half
def test_circuits_of_no_half_and_all_edges_are_those_of_float32(family, dtype):
    found = []
    for model in models(family, dtype):
        meter = hc.CircuitMeter(model, TASK.test)
        real = torch.from_numpy(meter.wiring.graph.real)
        half = real & (torch.rand(real.shape, generator=torch.Generator().manual_seed(0)) < 0.5)
        found.append(meter.measure(torch.stack([torch.zeros_like(real), half, real])))
    tolerance = METRIC_EPS * eps(dtype) * largest_logit(family, dtype)
    assert_metrics_close(*found, tolerance)
    by_circuit = found[1]["logit_diff"]
    assert np.abs(np.diff(by_circuit, axis=0)).max(1).min() > tolerance, "edges that stay would not be seen"
    model = models(family, dtype)[0]
    for index, pair in enumerate(TASK.test):
        for circuit, ids in ((0, pair.corrupt), (-1, pair.clean)):
            logits = model.logits(torch.tensor([ids]))[0, -1].double()
            plain = float(logits[pair.answers[0]] - logits[pair.wrongs[0]])
            assert found[0]["logit_diff"][circuit, index] == pytest.approx(plain, abs=tolerance)


# ---------------------------------------------------------------------------------------------------------------------
# Generation


def hf_answers(model, ids):
    """`generate` by itself, up to the token that ends a text."""
    with torch.no_grad():
        made = model.hf.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW, do_sample=False, pad_token_id=2
        )
    rows = made[:, ids.shape[1] :].tolist()
    return [row[: row.index(1)] if 1 in row else row for row in rows]


@every_family
@every_half
def test_greedy_answers_are_those_of_hugging_face_in_the_same_type(family, dtype):
    half, ids = models(family, dtype)[0], prompts()
    removed = [(0, 1), (1, 2), (2, 3)]
    keep = torch.ones(1, half.n_layers, half.n_heads, dtype=torch.bool)
    keep[0, *zip(*removed, strict=True)] = False
    assert hc.generate(half, ids.tolist(), max_new_tokens=NEW)[0] == hf_answers(half, ids)
    with hc.cut(half, removed, positions="generated"):
        wanted = hf_answers(half, ids)
    assert hc.generate(half, ids.tolist(), hc.Cuts(keep), max_new_tokens=NEW)[0] == wanted


@torch.no_grad()
@every_family
@every_half
def test_the_first_token_is_chosen_from_the_logits_of_float32(family, dtype):
    half, full = models(family, dtype)
    ids = prompts()
    last = torch.full((len(ids),), ids.shape[1] - 1)
    found, wanted = half.last_logits(ids, last).float(), full.last_logits(ids, last)
    tolerance = LOGIT_EPS * eps(dtype) * float(wanted.abs().max())
    assert_close(found, wanted, tolerance)
    first = torch.tensor(
        [answer[0] if answer else 1 for answer in hc.generate(half, ids.tolist(), max_new_tokens=1)[0]]
    )
    chosen = wanted.gather(1, first[:, None])[:, 0]
    assert (chosen >= wanted.amax(1) - 2 * tolerance).all()
