"""Damage to finished steps and checkpoints: bits flipped, fields changed, dropped or added, files cut, lost or added,
folders swapped. Everything that is damaged has to be noticed, and nothing else."""

import json
import shutil


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def flip_a_bit(folder, rng):
    path = rng.choice([path for path in files(folder) if path.stat().st_size])
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def overwrite_some_bytes(folder, rng):
    path = rng.choice([path for path in files(folder) if path.stat().st_size > 8])
    data = bytearray(path.read_bytes())
    start = rng.randrange(len(data) - 8)
    data[start : start + 8] = bytes(byte ^ 0x5A for byte in data[start : start + 8])
    path.write_bytes(data)


def cut_off(folder, rng):
    path = rng.choice([path for path in files(folder) if path.stat().st_size])
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data))])


def add_bytes(folder, rng):
    path = rng.choice(files(folder))
    path.write_bytes(path.read_bytes() + rng.choice([b"\0", b" ", b"\n", b"}"]))


def lose_a_file(folder, rng):
    rng.choice(files(folder)).unlink()


def add_a_file(folder, rng):
    (rng.choice(files(folder)).parent / "extra.json").write_text("{}")


def change_a_field(folder, rng):
    path = rng.choice([path for path in files(folder) if path.suffix == ".json"])
    facts = json.loads(path.read_text())
    key = rng.choice(sorted(facts))
    facts[key] = {str: "another", int: 12345, float: 0.125}.get(type(facts[key]))
    path.write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")


def drop_a_field(folder, rng):
    path = rng.choice([path for path in files(folder) if path.suffix == ".json"])
    facts = json.loads(path.read_text())
    del facts[rng.choice(sorted(facts))]
    path.write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")


def add_a_field(folder, rng):
    path = rng.choice([path for path in files(folder) if path.suffix == ".json"])
    path.write_text(json.dumps({**json.loads(path.read_text()), "extra": 1}, indent=1, sort_keys=True) + "\n")


def swap_two_folders(folder, rng):
    """Each then lies under the key of the other."""
    one, other = rng.sample(sorted(path for path in folder.iterdir() if path.is_dir()), 2)
    aside = folder / "aside"
    for old, new in ((one, aside), (other, one), (aside, other)):
        shutil.move(old, new)


def swap_two_files(folder, rng):
    """Of the same name, between two folders."""
    one = rng.choice(files(folder))
    others = [p for p in files(folder) if p.name == one.name and p != one and p.read_bytes() != one.read_bytes()]
    if not others:
        return flip_a_bit(folder, rng)
    other = rng.choice(others)
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    return None


TO_FILES = (flip_a_bit, overwrite_some_bytes, cut_off, add_bytes)
TO_FOLDERS = (
    *TO_FILES, lose_a_file, add_a_file, change_a_field, drop_a_field, add_a_field, swap_two_folders, swap_two_files,
)  # fmt: skip
