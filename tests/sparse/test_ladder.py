"""Twins of one run at several densities."""

import csv
import math

import pytest

import headcount as hc
from headcount.models.gates import gates_of
from headcount.sparse import training
from headcount.sparse.ladder import draw_ladder, evaluation_of, rungs
from headcount.sparse.objective import OPEN, bounds_of
from headcount.sparse.training import log_ceiling, schedule
from short_runs import changed, run

LADDER = changed(steps=6, target_open=(0.5, 0.2, 0.05), tail=0.0, cooldown=0.5)


def test_steps_are_shared_out_and_every_twin_has_its_own_warm_up_and_cool_down():
    recipe = changed(steps=11, target_open=(0.5, 0.2, 0.05), warmup=1, cooldown=0.5)
    assert recipe.rung_ends == [3, 6, 11]
    assert [recipe.rung_at(step)[0] for step in range(11)] == [0] * 3 + [1] * 3 + [2] * 5
    assert [schedule(step, recipe) for step in (0, 3, 6)] == [1.0] * 3
    assert [schedule(step, recipe) < 1 for step in (2, 5, 10)] == [True] * 3


def test_the_ceiling_comes_down_to_each_target_and_stays_there():
    recipe, rows = changed(steps=20, target_open=(0.5, 0.1)), [{"log_hard_open_share": math.log(0.8)}]
    assert log_ceiling(0, recipe, []) == 0  # nothing is known yet, so nothing is asked for
    shares = [math.exp(log_ceiling(step, recipe, rows)) for step in range(20)]
    assert shares == sorted(shares, reverse=True)
    assert [shares[step] for step in (0, 6, 9, 10, 16, 19)] == pytest.approx([0.8, 0.5, 0.5, 0.5, 0.1, 0.1])
    sparse_already = [{"log_hard_open_share": math.log(0.3)}]
    assert log_ceiling(1, recipe, sparse_already) == pytest.approx(math.log(0.5))


def test_the_bound_is_on_the_share_of_open_edges():
    (bound,) = bounds_of(LADDER, ["books"])
    assert bound.name == OPEN
    first = bound.multiplier
    for _ in range(10):
        bound.update(bound.tolerance + 0.7)  # twice as many edges as wanted
    assert bound.multiplier > first
    assert bound.violation == pytest.approx(0.7)
    for _ in range(100):
        bound.update(bound.tolerance - 0.2)
    assert bound.multiplier == 0


@pytest.mark.parametrize("lora", [2, None])
def test_every_rung_is_a_twin_of_its_own_and_a_kill_changes_none_of_them(folder, text, tmp_path, monkeypatch, lora):
    recipe = LADDER.changed(lora=lora)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    last = run(folder, text, whole, recipe)
    places = rungs(whole, recipe)
    assert [place.name for place in places.values()] == ["open-0.5", "open-0.2", "whole"]
    assert evaluation_of(whole) == last
    for place, steps in zip(places.values(), recipe.rung_ends, strict=True):
        assert len(gates_of(hc.load(place))) > 0
        assert f" {steps} steps of" in (place / "README.md").read_text()
    with (whole / "ladder.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["target"]) for row in rows] == [0.5, 0.2, 0.05]
    assert float(rows[-1]["loss"]) == pytest.approx(last.loss)
    assert (whole / "ladder.png").read_bytes().startswith(b"\x89PNG")

    step = training._step

    def interrupted(*args):
        if args[-1] == 5:
            raise KeyboardInterrupt
        return step(*args)

    with monkeypatch.context() as patch:
        patch.setattr(training, "_step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(folder, text, killed, recipe)
    run(folder, text, killed, recipe)
    for name, place in zip(("open-0.5", "open-0.2", "."), places.values(), strict=True):
        for file in ("gates.safetensors", "adapter_model.safetensors" if lora else "model.safetensors"):
            assert (killed / name / file).read_bytes() == (place / file).read_bytes()


def test_edges_are_shut_until_the_share_is_at_its_target(text, tmp_path):
    """In a model that needs its edges: nothing holds back those of a random one."""
    recipe = changed(
        target_open=(0.1,), steps=60, length=32, lora=None, kl=1.0, tail=0.0, lr=1e-4, sharpness=2.0, start=-5.0,
        gate_lr=0.05, multiplier_speed=0.1, checkpoint_every=1000,
    )  # fmt: skip
    assert 0.06 < run("tiny", text, tmp_path / "twin", recipe).open_share < 0.12


def test_it_is_drawn_with_what_each_task_needs(folder, text, tmp_path):
    found = run(folder, text, tmp_path / "twin", LADDER)
    figure = draw_ladder([found, found], {"ioi": (100.0, 20.0, 10.0)})
    assert [axes.get_title() for axes in figure.axes] == ["Loss on held-out text", "Needed edges"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target_open": (0.1, 0.2)}, "target_open must fall from each to the next"),
        ({"target_open": (1.5,)}, "target_open must be"),
        ({"target_open": (0.2, 0.1), "control": True}, "A control has no gates"),
        ({"target_open": (0.3, 0.2, 0.1), "steps": 2}, "needs a step of its own"),
        ({"target_open": (0.2, 0.1), "tail": 0.1}, "--target-open bounds the share of open edges"),
        ({"target_open": (0.2, 0.1), "by_source": True}, "Give one or the other"),
    ],
)
def test_what_makes_no_ladder_is_refused(folder, text, tmp_path, settings, message):
    with pytest.raises(hc.HeadcountError, match=message):
        run(folder, text, tmp_path / "out", changed(**settings))
