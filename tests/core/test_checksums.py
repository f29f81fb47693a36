"""What was damaged on disk is noticed, said in a sentence, and made again; what is whole is taken as it is."""

import json
import os
import random
import shutil
import stat
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from safetensors.numpy import save as serialise

from campaigns.damage import TO_FILES, TO_FOLDERS, files
from headcount.core.cache import Store
from headcount.core.checksums import SUMS, damage, sealed, unsealed
from headcount.core.errors import HeadcountError
from headcount.core.saving import Floats, Saved

KEYS = ("a" * 24, "b" * 24, "c" * 24)
TIMES = 12  # of each kind of damage


@dataclass(frozen=True, eq=False)
class Numbers(Saved):
    FILE: ClassVar[str] = "numbers"

    name: str
    values: Floats

    def __eq__(self, other):
        return self.name == other.name and self.values.tobytes() == other.values.tobytes()


def result(key):
    return Numbers(f"of {key[0]}", np.random.default_rng(ord(key[0])).random(16))


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path / "steps")
    for key in KEYS:
        made.keep(key, result(key), {"label": f"step {key[0]}", "settings": {"k": 1}, "seconds": 0.5})
    return made


def kept(folder):
    return {path.relative_to(folder): path.read_bytes() for path in files(folder)}


@pytest.mark.parametrize("hurt", TO_FOLDERS, ids=lambda hurt: hurt.__name__)
def test_every_damaged_step_is_noticed_said_and_made_again(store, hurt, capsys, tmp_path):
    whole, rng = kept(store.folder), random.Random(hurt.__name__)
    copy = shutil.copytree(store.folder, tmp_path / "copy")
    for _ in range(TIMES):
        hurt(store.folder, rng)
        touched = {path.parts[0] for path, data in kept(store.folder).items() if whole.get(path) != data}
        touched |= {path.parts[0] for path in whole.keys() - kept(store.folder).keys()}
        for key in KEYS:
            found = store.find(key, Numbers, f"step {key[0]}")
            told = " ".join(capsys.readouterr().err.split())
            if key in touched:
                assert found is None
                assert told.startswith(f"The finished step step {key[0]} in the cache is damaged: ")
                assert told.endswith("It is computed again.")
                assert store.keep(key, result(key), {"label": "again"}) == result(key)
                assert store.find(key, Numbers) == result(key)
            else:
                assert found == result(key)
                assert not told
        shutil.rmtree(store.folder)
        shutil.copytree(copy, store.folder)


def test_coreutils_read_the_checksums_too(store):
    listed = (store.folder / KEYS[0] / SUMS).read_text().splitlines()
    assert [line.split("  ")[1] for line in listed] == [
        f"{KEYS[0]}/{name}" for name in ("numbers.json", "numbers.safetensors", "step.json")
    ]
    assert os.system(f"cd {store.folder} && sha256sum --check --status {KEYS[0]}/{SUMS}") == 0


def test_a_damaged_step_is_listed_not_shown_and_removed(store):
    (store.folder / KEYS[1] / "step.json").write_text("[1]")
    assert [entry.label for entry in store.entries()] == ["step a", "damaged", "step c"]
    with pytest.raises(HeadcountError, match="is damaged: b+/step.json is not as it was written"):
        store.description(KEYS[1])
    assert not store.has(KEYS[1])
    assert store.clean()[0] == 3
    assert list(store.folder.iterdir()) == []


def test_damaged_steps_are_removed_however_young_they_are(store):
    (store.folder / KEYS[1] / "step.json").write_text("[1]")
    assert store.clean(older_than=3600.0, agree=lambda found: [entry.key for entry in found] != [KEYS[1]]) == (0, 0)
    assert len(list(store.entries())) == 3, "not where that is not wanted"
    assert store.clean(older_than=3600.0)[0] == 1
    assert sorted(path.name for path in store.folder.iterdir()) == [KEYS[0], KEYS[2]]


def test_a_step_that_another_user_keeps_to_himself_is_computed_and_left_alone(store, capsys, monkeypatch):
    place = store.folder / KEYS[0]
    before = kept(place)
    monkeypatch.setattr(os, "access", lambda path, mode: path != place)
    monkeypatch.setattr("headcount.core.checksums._sums", lambda *_: (_ for _ in ()).throw(PermissionError(13, "No")))
    assert store.find(KEYS[0], Numbers) is None
    assert "cannot be read (No)" in " ".join(capsys.readouterr().err.split())
    assert store.keep(KEYS[0], result(KEYS[1]), {}) == result(KEYS[1])
    assert kept(place) == before


def test_who_shares_a_cache_may_read_what_others_put_there(tmp_path):
    before = os.umask(0o022)
    try:
        store = Store(tmp_path / "shared")
        store.keep("k", result("k"), {})
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "shared").rglob("*")}
    assert modes == {0o755, 0o644}


def test_a_file_in_the_place_of_a_step_makes_room(store, capsys):
    shutil.rmtree(store.folder / KEYS[0])
    (store.folder / KEYS[0]).write_text("no folder")
    assert store.find(KEYS[0], Numbers) is None
    store.keep(KEYS[0], result(KEYS[0]), {})
    assert store.find(KEYS[0], Numbers) == result(KEYS[0])


def test_checksums_that_are_none_are_named_themselves(store):
    sums = store.folder / KEYS[0] / SUMS
    sums.write_bytes(b"\xff" + sums.read_bytes()[1:])
    assert damage(sums.parent) == f"{SUMS} is not as it was written"


# ---------------------------------------------------------------------------------------------------------------------
# A result that lies elsewhere, such as scores in a folder of the user's


def flipped(data, bit):
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@pytest.mark.parametrize("name", ["numbers.json", "numbers.safetensors"])
def test_no_flipped_bit_of_a_saved_result_gives_another_one(tmp_path, name):
    made, path = result("a"), tmp_path / name
    made.save(tmp_path)
    data, noticed = path.read_bytes(), 0
    for bit in range(8 * len(data)):
        path.write_bytes(flipped(data, bit))
        try:
            found = Numbers.load(tmp_path)
        except HeadcountError:
            noticed += 1
        else:
            assert found == made, "the name of the hash was hit, and nothing else"
    assert noticed > 0.9 * 8 * len(data)


def test_who_changes_a_result_on_purpose_takes_its_hash_away(tmp_path):
    path = result("a").save(tmp_path) / "numbers.json"
    facts = json.loads(path.read_text()) | {"name": "another"}
    path.write_text(json.dumps(facts))
    with pytest.raises(HeadcountError, match="not as they were written. If you changed them, remove 'sha256' there"):
        Numbers.load(tmp_path)
    path.write_text(json.dumps({key: value for key, value in facts.items() if key != "sha256"}))
    assert Numbers.load(tmp_path).name == "another"


# ---------------------------------------------------------------------------------------------------------------------
# One file


@pytest.fixture
def file(tmp_path):
    arrays = {"weight": np.random.default_rng(0).random(32)}
    path = tmp_path / "some" / "checkpoint.safetensors"
    path.parent.mkdir()
    path.write_bytes(sealed(partial(serialise, arrays), {"key": "k", "rows": "[1, 2]"}))
    return path


def test_a_sealed_file_is_safetensors_and_comes_back_as_it_was(file):
    from safetensors.numpy import load_file

    data, facts = unsealed(file)
    assert (facts["key"], facts["rows"]) == ("k", "[1, 2]")
    assert data == file.read_bytes()
    assert load_file(file)["weight"].shape == (32,)


@pytest.mark.parametrize("hurt", TO_FILES, ids=lambda hurt: hurt.__name__)
def test_every_damaged_file_is_noticed(file, hurt):
    whole, rng = file.read_bytes(), random.Random(hurt.__name__)
    for _ in range(10 * TIMES):
        hurt(file.parent, rng)
        if file.read_bytes() != whole:
            with pytest.raises(HeadcountError, match="is damaged"):
                unsealed(file)
        file.write_bytes(whole)
        assert unsealed(file)[1]["key"] == "k"


def test_a_folder_that_is_not_there_or_has_no_checksums_is_not_whole(tmp_path):
    assert damage(tmp_path / "none")
    assert damage(Path(tmp_path)) == f"{SUMS} is missing"
