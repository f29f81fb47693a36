"""A task of one's own, wherever its lines stand: JSONL, JSON, CSV, Parquet, or a set of Hugging Face `datasets`.

    capitals.jsonl, capitals.csv …     a file, one line per example
    dataset:path/to/folder             a folder that `save_to_disk` wrote
    dataset:owner/name                 a set on the hub; dataset:owner/name:config for one of its configs

The fields are those of JSONL (`jsonl.py`); other columns of a CSV or a set are left alone. A list in a cell of a CSV is
written as JSON. Splits called train stay so, and the others are test; a set of one split is shared out at random.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from ..core.errors import HeadcountError
from ..core.reading import local_path
from .jsonl import COMPLETION, OPTIONAL, PAIR, Entry, read_lines
from .records import Record, from_disk, whole_set

PREFIX = "dataset:"
FILES = (".jsonl", ".json", ".csv", ".parquet")
FIELDS = {*PAIR, *COMPLETION, *(field for optional in OPTIONAL.values() for field in optional)}


def is_own(name: str) -> bool:
    """Whether a task is called by where its lines are."""
    return name.startswith(PREFIX) or name.endswith(FILES)


def read_entries(name: str) -> dict[int, Entry]:
    """Lines by their numbers; of a CSV counted with its header."""
    if not name.startswith(PREFIX):
        path = local_path(name)
        if path.suffix == ".jsonl":
            return read_lines(path)
        first = 2 if path.suffix == ".csv" else 1
        return entries_of(from_disk(path)["all"], first)
    place = name.removeprefix(PREFIX)
    splits = from_disk(Path(place)) if Path(place).exists() else whole_set(*place.partition(":")[::2])
    sides = {split: "train" if "train" in split else "test" for split in splits} if len(splits) > 1 else {}
    told = [{**record, **({"split": sides[split]} if sides else {})} for split in splits for record in splits[split]]
    return entries_of(told)


def glued(name: str) -> str:
    """A sentence where answers of a file stand right behind the last letter of their prompts, as in "toMary": a model
    that writes words with a space in front hardly ever gives them. Empty where they do not, or are few."""
    entries = read_entries(name)
    count = sum(map(_is_glued, entries.values()))
    if 2 * count < max(len(entries), 1):
        return ""
    return (
        f"answers in {name} have no space in front, where a model writes one ({count} of {len(entries)} lines)."
        f" 'headcount tasks check {name} --fix-space' writes the file again with it."
    )


def _is_glued(entry: Entry) -> bool:
    prompt, answer = entry.get("clean", entry.get("prompt")), entry.get("answer", entry.get("target"))
    answer = answer[0] if isinstance(answer, list) and answer else answer
    return _letter_at(prompt, -1) and _letter_at(answer, 0)


def _letter_at(text: object, place: int) -> bool:
    """In ASCII: other scripts may have no spaces."""
    return isinstance(text, str) and text != "" and text[place].isascii() and text[place].isalpha()


def entries_of(records: Iterable[Record], first: int = 1) -> dict[int, Entry]:
    """Records with the fields that a task knows, by their numbers; what is empty is not there."""
    found: dict[int, Entry] = {}
    for number, record in enumerate(records, start=first):
        if not isinstance(record, Mapping):
            raise HeadcountError(f"Record {number} must have named fields; got a {type(record).__name__}.")
        found[number] = {key: _plain(value) for key, value in record.items() if key in FIELDS and _there(value)}
    return found


def _there(value: object) -> bool:
    return value is not None and value != "" and not (isinstance(value, list) and not value)


def _plain(value: object) -> object:
    return value.tolist() if hasattr(value, "tolist") else value
