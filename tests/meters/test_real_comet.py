"""The real COMET, with a model of a few kilobytes, against what it says in Python."""

import json
import math
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import headcount as hc
from headcount import HeadcountError
from headcount.meters import comet
from headcount.studies.masked_heads import comet as masked_comet
from planted_copying import records, save_planted

HERE = Path(__file__).parent.parent


@pytest.fixture
def real(own_cache, monkeypatch):
    """The environment that `make test` has set up beside the tests' own; else one is made, which takes minutes."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("HEADCOUNT_COMET", raising=False)
    made = Path(sys.prefix) / "cache" / "comet"
    if made.is_dir():
        own_cache.mkdir()
        (own_cache / "comet").symlink_to(made)
    yield comet.setup_comet(note=lambda words: None)
    shutil.rmtree(own_cache)  # more than a gigabyte where it was made here


def a_study(tmp_path, model):
    """masked-heads finds the command by itself. Gives what it asks COMET for one set of heads, and what it was told."""
    file = tmp_path / "parts.json"
    file.write_text(json.dumps(records()))
    few = {"n": 60, "seeds": 1, "shuffles": 1, "epochs": 60, "ks": [2], "draws": 2, "new_tokens": 3, "alphas": []}
    result = hc.run(
        "masked-heads", models=[save_planted(tmp_path / "planted")], tasks=["retrieval"], out=tmp_path / "out",
        overrides={**few, "questions": str(file), "comet_model": model}, quiet=True,
    )  # fmt: skip
    assert result.summary["similarity"] == "comet"
    cell, top = result.cells[0], result.curves[0]
    rights = [question.answer for question in cell.asked]
    answers = list(cell.masked["absolute"].texts[0][0])
    return (rights, answers, list(cell.whole)), top.values["comet"][0, 0].tolist()


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_the_real_comet_gives_every_item_the_score_that_it_has_in_python(real, tmp_path, monkeypatch):
    """Those of a study, and beside them, in the same call, some that are hard to carry over."""
    assert comet.find_comet() == real == comet.setup_comet()
    script = [real.with_name("python"), HERE / "make_tiny_comet.py", tmp_path / "tiny"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    no_hub = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hub")}
    in_python = subprocess.Popen(script, **pipes, text=True, cwd=tmp_path, env=no_hub)
    assert "made\n" in iter(in_python.stdout.readline, ""), in_python.communicate()[1]

    chance = random.Random(0)
    words = "the dog sleeps under a tree and dreams of bones".split()
    texts = [" ".join(chance.choices(words, k=chance.randint(1, 14))) for _ in range(36)]
    hard = [texts[i::3] for i in range(3)]
    sources, answers, _ = hard
    answers[3], answers[-1], sources[5], answers[7] = "", "", "", "one\nline, and\r\nanother"
    scores = []

    def with_hard_ones(*own, **options):
        mixed = [texts * 2 + theirs for texts, theirs in zip(hard, own, strict=True)]
        scores.extend(comet.comet_scores(*mixed, **options, batch=5))
        return scores[24:]

    monkeypatch.setattr(masked_comet, "comet_scores", with_hard_ones)
    asked, told = a_study(tmp_path, str(tmp_path / "tiny"))
    items = [
        {"src": source, "mt": " ".join(answer.split()), "ref": reference}
        for source, answer, reference in (*zip(*hard, strict=True), *zip(*asked, strict=True))
    ]
    in_python.stdin.write(f"{json.dumps(items)}\n")
    in_python.stdin.flush()
    listed = next((line for line in iter(in_python.stdout.readline, "") if line.startswith("[")), None)
    assert listed is not None, in_python.communicate()[1]
    expected = json.loads(listed)
    assert max(expected[:12]) - min(expected[:12]) > 0.1, "scores that differ, or their order would not show"
    assert all(map(math.isfinite, scores))
    assert scores[:12] == scores[12:24]
    assert scores[:12] == pytest.approx(expected[:12], abs=0.002)  # half precision, as comet-score computes
    assert told == pytest.approx(expected[12:], abs=0.002)

    def as_the_same_process(command, place, seconds):
        """It is comet-score as much as a process of its own would be, and has COMET imported."""
        said, errors = in_python.communicate(json.dumps([place, *command]))
        return subprocess.CompletedProcess(command, in_python.returncode, said, errors)

    monkeypatch.setattr(comet, "_call", as_the_same_process)
    with pytest.raises(HeadcountError, match="gave no scores with Unbabel/wmt22-comet-da: LocalEntryNotFoundError: "):
        comet.comet_scores(["a"], ["b"], ["c"], command=real)
