"""Causal head gating: planted roles are found, gradients are exact, a fit can be killed, a wrong loss is named."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest
import torch

import headcount as hc
from campaigns.damage import TO_FILES
from families import FAMILIES, prompts, random_task, tiny
from golden_folders import PLANTED
from headcount.edit import Filler, Filling, cut_heads
from headcount.rank import descent
from headcount.rank.checkpoint import Checkpoint, FitState
from headcount.rank.fit import Fit
from headcount.rank.gate_fit import Fitter, Objective, Stage, minibatch
from headcount.rank.method import Request

LONG = hc.QUICK  # a few seconds on the planted model
SHORT = Fit(seeds=2, updates=6, batch=4, patience=0)


@pytest.fixture(scope="module")
def planted():
    return hc.load(str(PLANTED))


@pytest.fixture(autouse=True)
def _own_cache(own_cache):
    """Checkpoints of a test are its own."""


def completions(n=6, target=3, seed=0):
    """Random prompts of mixed lengths with targets of several tokens."""
    rows = [prompts(1, 8 + index % 3 + target, seed=seed * 100 + index)[0].tolist() for index in range(n)]
    return tuple(hc.Completion(tuple(row[:-target]), tuple(row[-target:])) for row in rows)


def random_completions(n=6, target=3):
    return hc.Task("random", "Random", "log_prob", completions(n, target), completions(n, target, seed=1))


# ---------------------------------------------------------------------------------------------------------------------
# The planted model


@pytest.mark.parametrize(("fit", "n"), [(hc.QUICK.changed(seeds=10), 8), (Fit(), 4)], ids=["quick", "paper"])
def test_every_seed_of_ten_gives_every_planted_head_its_role(planted, planted_task, fit, n):
    """From the first n of 64 prompts, which would take ten times as long; many updates need fewer."""
    few = replace(planted_task, train=planted_task.train[:n])
    roles = hc.fit_roles(planted, few, fit, max_tokens=10**5)  # all seeds and prompts in one pass
    wanted = np.full((3, 4), "irrelevant", dtype="<U12")
    for entry in json.loads((PLANTED / "roles.json").read_text())["heads"]:
        wanted[entry["layer"], entry["head"]] = entry["role"]
    assert sorted(set(wanted.ravel())) == ["facilitating", "interfering", "irrelevant"]
    for labels in roles.labels():
        assert np.array_equal(labels, wanted)


def test_roles_are_found_with_the_mean_as_fill_too(planted, planted_task):
    labels = hc.fit_roles(planted, planted_task, LONG.changed(seeds=1), fill="mean").labels()[0]
    assert (labels[0, 1], labels[1, 3], labels[1, 0]) == ("facilitating", "facilitating", "interfering")


def test_a_seed_that_has_settled_stops_and_roles_stay(planted, planted_task):
    patient = LONG.changed(seeds=2, updates=200, patience=20)
    roles = hc.fit_roles(planted, planted_task, patient)
    assert np.isfinite(roles.losses).any(2).sum() < 3 * 200
    assert roles.labels()[0, 1, 0] == "interfering"


# ---------------------------------------------------------------------------------------------------------------------
# Gates


@pytest.mark.parametrize("family", FAMILIES)
def test_with_all_gates_open_logits_are_bit_identical(family):
    model, ids = tiny(family), prompts()
    with torch.no_grad():
        plain = model.logits(ids)
        means = Filling(tuple(torch.randn(1, model.n_heads, model.anatomy.head_size) for _ in range(model.n_layers)))
    for filling in (Filling(), means):
        gates = torch.ones(1, model.n_layers, model.n_heads, requires_grad=True)
        with cut_heads(model, gates, filling):
            assert torch.equal(model.logits(ids), plain)


@pytest.mark.parametrize("fill", ["zero", "mean"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_gradient_of_the_gates_equals_finite_differences(family, fill):
    model, task = tiny(family, torch.float64), random_completions()
    filler = Filler.prepare(model, fill, examples=task.train, reference=task.train)
    objective = Objective([(example,) for example in task.train], lambda log_probs: -log_probs[:, 0])
    request = Request("log_prob_per_token", filler, "all", 1, 0, 2048, lambda n: None, fit=SHORT)
    fitter = Fitter(model, objective, request)
    theta = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    part = [(seed, group) for seed in range(2) for group in range(len(task.train))]
    with model.frozen():
        fitter._group_losses(theta, part).sum().backward()
    for place in ((0, 0, 0), (0, 2, 3), (1, 1, 2)):
        slopes = (slope(lambda moved: fitter._group_losses(moved, part).sum(), theta, place, h) for h in STEPS)
        found = float(theta.grad[place])
        assert abs(found) > 1e-5
        assert any(abs(wanted - found) < 5e-3 * abs(found) for wanted in slopes)


STEPS = (0.01, 0.1, 1e-3, 1e-4)
"""Wide ones for families that compute norms in float32 whatever the model's type, narrow ones where ReLU or clipping
bends the loss; one of them must fit."""


def slope(function, theta, place, h):
    """f' = (f(-2h) - 8 f(-h) + 8 f(h) - f(2h)) / 12 h."""
    total = 0.0
    for distance, weight in ((-2, 1), (-1, -8), (1, 8), (2, -1)):
        moved = theta.detach().clone()
        moved[place] += distance * h
        with torch.no_grad():
            total += weight * float(function(moved)) / (12 * h)
    return total


def test_a_shut_gate_is_a_removed_head(planted, planted_task):
    examples = planted_task.test[:8]
    for fill in ("zero", "mean"):
        filler = Filler.prepare(planted, fill, examples=examples, reference=planted_task.train)
        keep = torch.rand(2, 3, 4, generator=torch.Generator().manual_seed(0)) > 0.5
        meter = hc_meter(planted, examples, filler)
        as_cut, as_gates = (meter.measure(masks)["log_prob"] for masks in (keep, keep.double()))
        assert as_gates == pytest.approx(as_cut, rel=1e-5)


def hc_meter(model, examples, filler):
    from headcount.meters import HeadMeter

    return HeadMeter(model, examples, filler)


@pytest.mark.parametrize(("pull", "wanted"), [(0.1, 1), (-0.1, -1)])
def test_without_the_task_loss_the_pull_moves_every_gate_its_way(planted, planted_task, pull, wanted):
    fitter = fitter_of(planted, planted_task, SHORT.changed(loss=0.0, pulled_rate=(0.5, 0.5)))
    start = fitter.first_gates()
    theta, _ = fitter.run(Stage("alone", pull), start)
    assert bool(((theta - start) * wanted > 0).all())


def fitter_of(model, task, fit, seed=0, checkpoint=None):
    filler = Filler.prepare(model, "zero", examples=task.train, reference=task.train)
    objective = Objective([(example,) for example in task.train], lambda log_probs: -log_probs[:, 0])
    request = Request("log_prob_per_token", filler, "all", 1, seed, 2048, lambda n: None, fit=fit)
    return Fitter(model, objective, request, checkpoint)


def test_the_pull_ends_at_the_clamp(planted, planted_task):
    reached = []
    for updates in (60, 90):
        fit = SHORT.changed(loss=0.0, updates=updates, pulled_rate=(0.5, 0.5))
        reached.append(fitter_of(planted, planted_task, fit).run(Stage("alone", 0.1), torch.zeros(2, 3, 4))[0])
    assert float(reached[0].min()) > 4
    assert reached[1] == pytest.approx(reached[0], abs=0.05), "past the clamp by Adam's momentum, and no further"


# ---------------------------------------------------------------------------------------------------------------------
# The fit


def test_a_seed_gives_the_same_gates_alone_and_among_others(planted, planted_task):
    together = hc.fit_roles(planted, planted_task, SHORT.changed(seeds=3), seed=0)
    alone = hc.fit_roles(planted, planted_task, SHORT.changed(seeds=1), seed=2)
    assert alone.plus[0] == pytest.approx(together.plus[2], abs=1e-5)
    assert alone.minus[0] == pytest.approx(together.minus[2], abs=1e-5)
    assert abs(together.plus[0] - together.plus[2]).max() > 0.01, "another seed is another fit"


def test_gates_do_not_depend_on_how_prompts_share_a_pass(planted, planted_task):
    one, many = (hc.fit_roles(planted, planted_task, SHORT, max_tokens=tokens) for tokens in (40, 4000))
    assert one.plus == pytest.approx(many.plus, abs=1e-5)


def test_both_pulled_stages_start_from_the_gates_without_a_pull(planted, planted_task):
    still = SHORT.changed(pulled_rate=(1e-9, 1e-9))
    roles = hc.fit_roles(planted, planted_task, still)
    assert roles.plus == pytest.approx(roles.free, abs=1e-6)
    assert roles.minus == pytest.approx(roles.free, abs=1e-6)


def test_minibatches_hold_every_example_once_before_one_comes_again():
    drawn = [index for update in range(4) for index in minibatch(10, 5, seed=3, stage="free", update=update)]
    assert sorted(drawn[:10]) == sorted(drawn[10:]) == list(range(10))
    assert drawn[:10] != drawn[10:]
    assert drawn[:5] != minibatch(10, 5, seed=4, stage="free", update=0)


def test_learning_rates_fall_in_a_straight_line():
    fit = Fit()
    assert [fit.learning_rate(False, update) for update in (0, 499)] == [0.1, pytest.approx(0.01)]
    assert [fit.learning_rate(True, update) for update in (0, 499)] == [0.5, pytest.approx(0.1)]


def test_the_defaults_are_the_papers():
    assert Fit() == Fit(
        seeds=10, updates=500, batch=64, free_rate=(0.1, 0.01), pulled_rate=(0.5, 0.1), pull=0.1, clamp=4.0
    )


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("seeds", 0, "seeds must be at least 1"),
        ("seeds", 1.5, "a whole number; got 1.5"),
        ("updates", 0, "updates must be at least 1"),
        ("batch", 0, "batch must be at least 1"),
        ("patience", -1, "patience must be at least 0"),
        ("free_rate", (0.1,), "free_rate must be two learning rates"),
        ("pulled_rate", 0.1, "pulled_rate must be a list of numbers"),
        ("free_rate", (-1, 0.1), "free_rate must be above 0"),
        ("pull", float("nan"), "pull must be a number"),
        ("clamp", -4.0, "above 0"),
    ],
)
def test_a_fit_of_nothing_is_refused(field, value, words):
    with pytest.raises(hc.HeadcountError, match=words):
        Fit(**{field: value})


def test_what_is_no_fit_is_refused(planted, planted_task):
    with pytest.raises(hc.HeadcountError, match="fit must be a headcount.Fit"):
        hc.fit_roles(planted, planted_task, "quick")


class StopError(Exception):
    """Stands for a kill."""


@pytest.mark.parametrize("at", ["free 4/6", "keeping 1/6", "removing 6/6"])
def test_a_killed_fit_goes_on_to_the_same_bits(planted, planted_task, tmp_path, monkeypatch, at):
    monkeypatch.setattr(descent, "SAVE_EVERY", 0.0)
    whole = hc.fit_roles(planted, planted_task, SHORT)
    file = tmp_path / "fit.safetensors"

    def kill(words):
        if words.startswith(at):
            raise StopError

    with pytest.raises(StopError):
        hc.fit_roles(planted, planted_task, SHORT, checkpoint=file, note=kill, advance=lambda n: None)
    assert file.exists()
    told = []
    again = hc.fit_roles(planted, planted_task, SHORT, checkpoint=file, note=told.append, advance=lambda n: None)
    assert len(told) < 18, "finished updates were not run again"
    for name in ("free", "plus", "minus", "losses"):
        assert np.array_equal(getattr(again, name), getattr(whole, name), equal_nan=True)
    assert not file.exists()


def test_the_checkpoint_of_another_fit_is_not_gone_on_from(planted, planted_task, tmp_path, monkeypatch):
    monkeypatch.setattr(descent, "SAVE_EVERY", 0.0)
    file = tmp_path / "fit.safetensors"

    def kill(words):
        raise StopError

    with pytest.raises(StopError):
        hc.fit_roles(planted, planted_task, SHORT, checkpoint=file, note=kill, advance=lambda n: None)
    other = hc.fit_roles(planted, planted_task, SHORT, seed=5, checkpoint=file)
    assert np.array_equal(other.plus, hc.fit_roles(planted, planted_task, SHORT, seed=5).plus)


def test_a_damaged_checkpoint_is_said_and_counts_as_none(tmp_path, capsys):
    file = tmp_path / "fits" / "fit.safetensors"
    Checkpoint.at(file, "key").save("free", FitState.fresh(torch.zeros(2, 3, 4), 6))
    whole, rng = file.read_bytes(), random.Random(0)
    assert list(Checkpoint.at(file, "key").stages) == ["free"]
    assert not capsys.readouterr().err
    for hurt in TO_FILES * 5:
        hurt(file.parent, rng)
        assert Checkpoint.at(file, "key").stages == {}
        told = " ".join(capsys.readouterr().err.split())
        assert "is damaged" in told
        assert told.endswith("The fit starts over.")
        file.write_bytes(whole)


def test_a_loss_that_is_not_a_number_names_its_example_and_keeps_the_last_good_gates(planted_task, tmp_path):
    model = hc.load(str(PLANTED))
    with torch.no_grad():
        model.hf.get_input_embeddings().weight[47] = torch.nan
    healthy = [e for e in planted_task.train if 47 not in e.prompt and e.target != (47,)]
    ill = next(e for e in planted_task.train if 47 in e.prompt)
    task = hc.Task("ill", "Ill", "log_prob", (*healthy[:15], ill), planted_task.test)
    file = tmp_path / "fit.safetensors"
    model.hf.lm_head.weight = torch.nn.Parameter(hc.load(str(PLANTED)).hf.lm_head.weight.detach().clone())
    with pytest.raises(hc.HeadcountError, match="not a finite number at update") as caught:
        hc.fit_roles(model, task, SHORT, checkpoint=file)
    assert "train example 15" in str(caught.value)
    assert str(file) in str(caught.value)
    kept = Checkpoint.at(file, _key_of(file)).stages["free"]
    assert bool(kept.theta.isfinite().all())
    assert kept.update == int(str(caught.value).split("at update ")[1].split()[0]) - 1


def _key_of(file):
    from safetensors import safe_open

    with safe_open(file, framework="pt") as opened:
        return opened.metadata()["key"]


def test_a_pull_without_a_size_is_refused(planted, planted_task):
    with pytest.raises(hc.HeadcountError, match="The pull must be above 0"):
        hc.fit_roles(planted, planted_task, SHORT.changed(pull=-0.1))


def test_resample_cannot_fill_gates():
    model = tiny("llama")
    with pytest.raises(hc.HeadcountError, match="cannot be filled by 'resample'"):
        hc.fit_roles(model, random_task(), SHORT, fill="resample")


@pytest.mark.parametrize("fill", ["zero", "mean", "counterfactual"])
def test_pairs_can_be_gated_too(fill):
    roles = hc.fit_roles(tiny("llama-gqa"), random_task(), SHORT, fill=fill)
    assert roles.plus.shape == (2, 3, 4)


def test_the_scoring_method_is_facilitation_minus_interference(planted, planted_task):
    scores = hc.score(planted, planted_task, "gating", fit=SHORT)
    roles = hc.fit_roles(planted, planted_task, SHORT)
    assert (scores.samples, scores.metric) == ("seeds", "log_prob_per_token")
    assert scores.by_pair == pytest.approx(roles.score("facilitation") - roles.score("interference"))
    assert np.array_equal(roles.scores().by_pair, scores.by_pair)


def test_the_scoring_method_knows_one_metric(planted, planted_task):
    with pytest.raises(hc.HeadcountError, match="knows the metric log_prob_per_token alone"):
        hc.score(planted, planted_task, "gating", metric="accuracy")
