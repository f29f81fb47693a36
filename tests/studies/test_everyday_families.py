"""What people reach for after a run, on every family: repeats, the run opened again, its map of heads, shared heads."""

import json

import numpy as np
import pytest

import headcount as hc
from families import FAMILIES, pairs, with_words

SMALL = {"n": 8, "points": 3, "repeats": 2, "orders": ["absolute"], "threshold": 0.5, "method": "attribution"}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_repeated_study_opens_again_with_its_map_and_its_heads(family, tmp_path, no_figures):
    model, file = with_words(family), tmp_path / "own.jsonl"
    named = [{"clean": p.clean, "corrupt": p.corrupt, "answer": p.answers, "wrong": p.wrongs} for p in pairs(8)]
    file.write_text("\n".join(map(json.dumps, named)))
    told = {"overrides": SMALL, "loader": lambda name, **options: model, "cache": False, "quiet": True}
    hc.run("heads-kept", models=[family], tasks=[str(file)], out=tmp_path / "out", **told)
    run = hc.open(tmp_path / "out")
    (curve,), (scores,) = run.curves, run.scores
    repeats = run.repeats(curve)
    assert len(repeats.curves) == 2, "another seed is another split"
    assert sorted(repeats.ranking) == sorted(curve.ranking) == sorted(run.again[0].ranking)
    assert repeats.stability(3).rankings == 2
    assert curve.ranking == scores.top(12)
    heat, bar = hc.plot(scores).axes
    assert np.array_equal(np.asarray(heat.images[0].get_array()), scores.values)
    assert bar.get_ylabel() == scores.metric
    shared = hc.overlap({"first": curve, "again": run.again[0], "scores": scores}, k=4)
    assert set(shared.shared()) == set(curve.ranking[:4]) & set(run.again[0].ranking[:4])
