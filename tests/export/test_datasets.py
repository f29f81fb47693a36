"""Results as Parquet with a card, and a section for the model's own."""

import numpy as np
import pytest

import headcount as hc
from families import random_task, tiny
from headcount.core.saving import csv_text


@pytest.fixture(scope="module")
def curve():
    model, task = tiny("llama-gqa"), random_task()
    return hc.sweep(model, task, hc.score(model, task, "attribution"), ks=[0, 2, 12])


def test_every_row_is_in_the_parquet_files(scores, tmp_path):
    import pyarrow.parquet

    folder = hc.export_result("dataset", scores, tmp_path / "set")
    table = pyarrow.parquet.read_table(folder / "data" / "heads.parquet")
    assert csv_text(table.to_pylist()) == csv_text(scores.rows())
    assert b"headcount" in table.schema.metadata
    assert not (folder / "data" / "edges.parquet").exists()


def test_datasets_reads_the_folder(scores, tmp_path, monkeypatch):
    import datasets  # takes a second, and not every worker of pytest runs this

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf")
    folder = hc.export_result("dataset", scores, tmp_path / "set")
    found = datasets.load_dataset(str(folder), "heads", split="train", cache_dir=str(tmp_path / "hf"))
    assert found.num_rows == 12
    assert np.isclose(found[11]["score"], 1.1)


def test_the_section_names_the_first_heads_and_what_is_needed(scores, curve, tmp_path):
    saved = scores.save(tmp_path / "saved")
    curve.save(saved)
    card = (hc.export_result("dataset", saved, tmp_path / "set", top=2) / "model-card.md").read_text()
    assert "| a0.h1 | -2 |" in card
    assert card.count("| a") == 2
    assert f"random, attribution (absolute, fill counterfactual): {curve.units_needed(0.9)}" in card


def test_names_are_no_markup(scores, tmp_path):
    from dataclasses import replace

    odd = replace(scores, task="a|b<img>`", model="x")
    card = (hc.export_result("dataset", odd, tmp_path / "set") / "model-card.md").read_text()
    assert "a\\|b&lt;img>'" in card
