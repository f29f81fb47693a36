"""Where the records of a published set come from: a file, a folder, or the hub. Each gives them by split."""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from ..core.errors import HeadcountError, in_short
from ..core.plain import quoted
from ..core.reading import json_words, lines_of, parse_json

Record = Mapping[str, object]
Splits = dict[str, Iterable[Record]]

FILES = (".json", ".jsonl", ".csv", ".parquet")
HUB_SECONDS = 5.0
"""How long the hub may take to answer at all. `datasets` itself would try again for a minute."""


def from_disk(path: Path) -> Splits:
    readers = dict(zip(FILES, (_read_json, _read_json, _read_csv, _read_parquet), strict=True))
    if not path.exists():
        raise HeadcountError(f"There is no file or folder {path}. Check the path.")
    if path.is_dir():
        return _read_folder(path)
    if path.suffix not in readers:
        raise HeadcountError(
            f"A set can be read from {', '.join(readers)} or a folder of save_to_disk; {path} is none. Convert it."
        )
    try:
        return {"all": readers[path.suffix](path)}
    except HeadcountError:
        raise
    except Exception as error:  # of csv, pyarrow or the file system: no common class
        raise HeadcountError(f"{path} cannot be read as {path.suffix[1:]}: {_first_line(error)}") from error


def _read_json(path: Path) -> list[Record]:
    """A list of records, or one record a line."""
    text = path.read_text(encoding="utf-8-sig").strip()
    place = ""
    try:
        if text.startswith("["):
            found = cast(list[object], parse_json(text))
        else:
            found = []
            for number, line in lines_of(text):
                place = f"line {number}: "
                found.append(parse_json(line))
    except ValueError as error:
        raise ValueError(f"{place}{json_words(error)}.") from error
    for number, record in enumerate(found, start=1):
        if not isinstance(record, dict):
            raise ValueError(f"record {number} must be a JSON object; got a {type(record).__name__}.")
    return cast(list[Record], found)


def _read_csv(path: Path) -> list[Record]:
    """Cells that hold a JSON list or object are read as such: CSV has no other way to write one."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file)
        if twice := [name for name, count in Counter(rows.fieldnames or ()).items() if count > 1]:
            raise ValueError(f"its header names the column {quoted(twice[0])} twice.")
        return [_row(row, rows.line_num) for row in rows]


def _row(row: Mapping[str | None, str], line: int) -> Record:
    """Where a line has more cells than the header, `csv` gives the rest no name; where it has fewer, no value."""
    if None in row or None in row.values():
        raise ValueError(f"line {line} has {'more' if None in row else 'fewer'} cells than the header.")
    return {str(key): _cell(value) for key, value in row.items()}


def _cell(text: str) -> object:
    try:
        return parse_json(text) if text[:1] in ("[", "{") else text
    except ValueError:
        return text


def _read_parquet(path: Path) -> list[Record]:
    _library()
    from pyarrow import parquet

    table = parquet.ParquetFile(path).read()
    table.validate(full=True)
    return list(table.to_pylist())


def _read_folder(path: Path) -> Splits:
    datasets = _library()
    try:
        saved = datasets.load_from_disk(str(path))
        for part in saved.values() if isinstance(saved, datasets.DatasetDict) else [saved]:
            part.data.validate(full=True)  # a damaged file has offsets that lead out of the process' memory
    except Exception as error:  # the library's errors have no common class
        raise HeadcountError(
            f"The folder {path} must be one that `save_to_disk` wrote, but it cannot be read so: {_first_line(error)}"
        ) from error
    return dict(saved) if isinstance(saved, datasets.DatasetDict) else {"all": saved}


def from_hub(base: str, hub: str, configs: Sequence[str], wanted: Sequence[str], config: str) -> Splits:
    """All splits that are wanted, of the configs named; of the one that the user names, or of all, where none are."""
    datasets = _library()
    splits: dict[str, list[Record]] = {split: [] for split in wanted}
    try:
        with hub_or_cache(datasets):
            for part in configs or ([config] if config else datasets.get_dataset_config_names(hub)):
                for split, records in splits.items():
                    records.extend(datasets.load_dataset(hub, part, split=split))
    except Exception as error:  # of datasets, huggingface_hub, its HTTP client or pyarrow: no common class
        named = f"{hub} ({config})" if config else hub
        raise HeadcountError(
            f"The set {base} is {named} on the Hugging Face hub, which cannot be read: {_first_line(error)}"
            f" Check the name and the network, or give a file that you have: {base}:path/to/file.jsonl"
        ) from error
    return dict(splits)


def hub_parts(base: str, hub: str) -> list[str]:
    """The names of the parts of a set on the hub, in their order."""
    datasets = _library()
    try:
        with hub_or_cache(datasets):
            return sorted(datasets.get_dataset_config_names(hub))
    except Exception as error:  # as above
        raise HeadcountError(
            f"The parts of {base} are listed on the Hugging Face hub ({hub}), which cannot be read:"
            f" {_first_line(error)} Check the network, or give a folder that you have: '{base}:FOLDER/*'"
        ) from error


def whole_set(hub: str, config: str) -> Splits:
    """All splits of a set on the hub."""
    datasets = _library()
    try:
        with hub_or_cache(datasets):
            found = datasets.load_dataset(hub, config or None)
    except Exception as error:  # as above
        raise HeadcountError(
            f"The set {hub} is no local folder, and the Hugging Face hub cannot be read: {_first_line(error)} Check the"
            " name and the network, or give a file."
        ) from error
    return dict(found)


@contextmanager
def hub_or_cache(datasets: ModuleType) -> Iterator[None]:
    """Ask the hub once whether it is there; if not, let `datasets` look in its own cache only, and fail at once."""
    import huggingface_hub

    before = datasets.config.HF_HUB_OFFLINE
    try:
        huggingface_hub.get_session().head(huggingface_hub.constants.ENDPOINT, timeout=HUB_SECONDS)
    except Exception:  # offline mode, no route, no answer in time: whatever the HTTP client calls it
        datasets.config.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE = before


def _library() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise HeadcountError(
            "Published sets need the package `datasets`, which is not installed (json and csv files do not need it)."
            " Install it: pip install 'headcount[datasets]'"
        ) from error
    return datasets


def _first_line(error: Exception) -> str:
    line = in_short(Exception((str(error).strip() or type(error).__name__).splitlines()[0]))
    return line if line.endswith(".") else f"{line}."
