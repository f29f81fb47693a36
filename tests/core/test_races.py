"""Many at once: processes that run the same study, and that write the same result."""

import json
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import headcount as hc
from forked import FORKED, ended, start
from headcount.core.cache import Store
from headcount.core.saving import Floats, Saved

RUNNERS, WRITERS, TIMES, SIZE = 4, 4, 25, 2000
SMALL = ("-n", 8, "--points", 5, "--draws", 4, "--repeats", 1, "--method", "one-pass")


# ---------------------------------------------------------------------------------------------------------------------
# Studies


def hidden(*places):
    """What a writer calls a file or folder that is not finished."""
    return [path for place in places for path in Path(place).rglob(".*")]


def files(place):
    return {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("plain_figures")
def test_processes_that_start_the_same_study_at_once_leave_one_whole_result(folder, own_cache, tmp_path):
    """With nothing in the cache that they share, and into the same folder; against an undisturbed run elsewhere."""
    shared, out = tmp_path / "shared", tmp_path / "out"
    asked = ("run", "heads-kept", "--model", folder, "--task", "ioi", *SMALL, "--out", out)
    said = [tmp_path / f"said-{number}" for number in range(RUNNERS)]
    started = [start(*asked, cache=shared, said=place) for place in said]
    assert [ended(one) for one in started] == [0] * RUNNERS, "\n".join(place.read_text() for place in said)

    alone = tmp_path / "alone"
    small = {"n": 8, "points": 5, "draws": 4, "repeats": 1, "method": "one-pass"}
    hc.run("heads-kept", models=[folder], tasks=["ioi"], overrides=small, out=alone, quiet=True)
    assert files(out) == files(alone)
    for name in ("curves.csv", "scores.csv", "study.toml", "figure.svg"):
        assert (out / name).read_bytes() == (alone / name).read_bytes(), name
    assert json.loads((out / "summary.json").read_text()) == json.loads((alone / "summary.json").read_text())
    steps = {step["key"] for step in json.loads((out / "provenance.json").read_text())["steps"]}
    entries = list(Store(shared / "steps").entries())
    assert {entry.key for entry in entries} == steps
    assert files(shared) == files(own_cache)
    assert hidden(out, shared) == []


# ---------------------------------------------------------------------------------------------------------------------
# The store


@dataclass(frozen=True, eq=False)
class Numbers(Saved):
    """A result of which every part says the same, in two files."""

    FILE: ClassVar[str] = "numbers"

    names: tuple[str, ...]
    values: Floats

    @classmethod
    def of(cls, number):
        return cls((str(number),) * SIZE, np.full(SIZE, float(number)))

    @property
    def is_whole(self):
        return len(self.values) == len(self.names) == SIZE and set(map(float, self.names)) == set(self.values)


def test_threads_that_write_one_key_at_once_all_get_a_whole_result_and_so_does_every_reader(tmp_path):
    """What is once there stays there: a reader finds it at any time, and never a part of it."""
    store, wrong, seen = Store(tmp_path / "steps"), [], []
    store.keep("key", Numbers.of(7), {"label": "first"})
    done = threading.Event()

    def write():
        try:
            for _ in range(TIMES):
                if not store.keep("key", Numbers.of(7), {"label": "again"}).is_whole:
                    wrong.append("a writer got a part")
        except Exception as error:
            wrong.append(repr(error))

    def read():
        try:
            while not done.is_set():
                found = store.find("key", Numbers)
                seen.append(found is not None)
                if found is not None and not found.is_whole:
                    wrong.append("a reader got a part")
        except Exception as error:
            wrong.append(repr(error))

    writers, readers = ([threading.Thread(target=what) for _ in range(WRITERS)] for what in (write, read))
    for thread in (*writers, *readers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert wrong == []
    assert seen
    assert all(seen), f"{seen.count(False)} of {len(seen)} readers found nothing"
    assert store.find("key", Numbers).is_whole
    assert hidden(tmp_path) == []


def write_often(place, together):
    store = Store(place)
    together.wait(60)
    for _ in range(TIMES):
        assert store.keep("key", Numbers.of(7), {"label": "step"}).is_whole
        found = store.find("key", Numbers)
        assert found is None or found.is_whole


def test_processes_that_write_one_key_at_once_all_get_a_whole_result(tmp_path):
    place, together = tmp_path / "steps", FORKED.Barrier(WRITERS)
    writers = [FORKED.Process(target=write_often, args=(place, together)) for _ in range(WRITERS)]
    for writer in writers:
        writer.start()
    assert [ended(writer) for writer in writers] == [0] * WRITERS
    assert Store(place).find("key", Numbers).is_whole
    assert [entry.label for entry in Store(place).entries()] == ["step"]
    assert hidden(tmp_path) == []


def test_results_can_be_listed_while_others_are_written(tmp_path):
    store, writing = Store(tmp_path / "steps"), threading.Event()
    store.keep("other", Numbers.of(1), {"label": "other"})

    def write():
        for _ in range(TIMES):
            store.keep("key", Numbers.of(7), {"label": "step"})
        writing.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while not writing.is_set():
            assert {"other"} <= {entry.key for entry in store.entries()} <= {"other", "key"}
            assert store.description("other") == {"label": "other"}
    finally:
        writer.join()


@pytest.mark.parametrize("missing", ["numbers.safetensors", "numbers.json", "step.json"])
def test_a_result_takes_the_place_of_one_that_has_lost_a_file(tmp_path, missing):
    store = Store(tmp_path / "steps")
    store.keep("key", Numbers.of(3), {"label": "older"})
    (tmp_path / "steps" / "key" / missing).unlink()
    assert store.find("key", Numbers) is None
    assert store.keep("key", Numbers.of(5), {"label": "newer"}).names[0] == "5"
    assert store.find("key", Numbers).names[0] == "5"
    assert store.description("key")["label"] == "newer"
    assert hidden(tmp_path) == []
