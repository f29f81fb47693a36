"""Files of the user, read strictly. What two readers would read differently (a key that stands twice in an object, half
of a surrogate pair) is refused where it stands, and whatever is wrong costs a sentence."""

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import HeadcountError
from .plain import quoted
from .provenance import Facts

MOST_PATH, MOST_NAME = 4096, 255
"""Bytes of a path, and of a name in it, that file systems take."""
STUMBLED: tuple[type[Exception], ...] = (ArithmeticError, AttributeError, LookupError, OSError, RecursionError)
STUMBLED += (StopIteration, TypeError, ValueError, csv.Error)
"""What code stumbles over in facts that are not as it expects them."""
RUN_AGAIN = "Run the study again; finished steps are taken from the cache."


def local_path(source: str | Path) -> Path:
    """What the user calls a file or folder as a path, or why it can be none."""
    text = str(source)
    try:
        path = Path(text).expanduser()
    except RuntimeError as error:
        raise HeadcountError(f"{quoted(text)} begins with a user's home that is not known here.") from error
    try:
        whole = str(path).encode()
    except UnicodeEncodeError as error:
        raise HeadcountError(f"The name {quoted(text)} is not UTF-8. Rename it.") from error
    if "\0" in text:
        raise HeadcountError(f"The name {quoted(text)} holds a zero byte, which no file's name can.")
    if len(whole) > MOST_PATH or any(len(part.encode()) > MOST_NAME for part in path.parts):
        raise HeadcountError(f"The name {quoted(text)} is longer than the name of a file can be.")
    return path


def read_text(path: Path, what: str, encoding: str = "utf-8-sig") -> str:
    """The text of a file; `what` begins the sentence: The task file, The questions."""
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise HeadcountError(f"{what} {path} must be a file; got a device or a pipe.")
        return path.read_text(encoding=encoding)
    except OSError as error:
        raise HeadcountError(f"{what} {path} cannot be read: {error.strerror}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise HeadcountError(
            f"{what} {path} must be UTF-8 text, but byte {error.start} is none. Save the file as UTF-8."
        ) from error


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """Numbers and lines that are not blank. A line ends where JSONL ends it, and not at the other marks that end one in
    prose, which may stand inside a JSON string."""
    return ((number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip())


def parse_json(text: str, **how: Callable[[str], object]) -> object:
    """A JSON value, or a `ValueError` that `json_words` puts into words. `how`: see `json.loads`."""
    try:
        found: object = json.loads(text, object_pairs_hook=_object, **how)  # type: ignore[arg-type]
        if "\\ud" in text or "\\uD" in text:
            json.dumps(found, ensure_ascii=False).encode()
        return found
    except UnicodeEncodeError as error:
        raise ValueError(f"a text holds {error.object[error.start]!r}, half of a surrogate pair") from error
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def json_words(error: ValueError) -> str:
    """What is wrong with a JSON text, to read on from a place: this is not JSON (Expecting value at column 3)."""
    if isinstance(error, json.JSONDecodeError):
        return f"this is not JSON ({error.msg.removesuffix(' at')} at column {error.colno})"
    words = "a number in it has too many digits" if "integer string conversion" in str(error) else str(error)
    return f"this cannot be read as JSON ({words})"


def read_json_lines(path: Path, what: str) -> Iterator[tuple[int, object]]:
    """The value on each line of a file, with the number of the line."""
    for number, line in lines_of(read_text(path, what)):
        try:
            yield number, parse_json(line)
        except ValueError as error:
            raise HeadcountError(f"{path}, line {number}: {json_words(error)}.") from error


@contextmanager
def reading_result(folder: Path) -> Iterator[None]:
    """Files that headcount wrote, and that somebody may have changed since: what the block stumbles over is told."""
    try:
        yield
    except STUMBLED as error:
        raise HeadcountError(
            f"The files in {folder} are not as a study left them: {stumble_words(error)}. {RUN_AGAIN}"
        ) from error


def stumble_words(error: Exception) -> str:
    """What code stumbled over, without the words of Python."""
    match error:
        case UnicodeDecodeError():
            return f"byte {error.start} is not UTF-8"
        case UnicodeEncodeError():
            return f"a text holds {error.object[error.start]!r}, half of a surrogate pair"
        case json.JSONDecodeError():
            return json_words(error)
        case OSError():
            return (
                f"{Path(str(error.filename)).name} cannot be read ({error.strerror})" if error.filename else str(error)
            )
        case KeyError():
            return f"there is no {error}"
        case RecursionError():
            return "they are nested too deep"
    return "a value in them is not what it must be"


def read_facts(path: Path) -> Facts:
    """The JSON object in a file of a result."""
    try:
        found = parse_json(path.read_text(encoding="utf-8"))
        words = "" if isinstance(found, dict) else "it must hold a JSON object"
    except (OSError, UnicodeDecodeError) as error:
        found, words = None, stumble_words(error)
    except ValueError as error:
        found, words = None, json_words(error)
    if not isinstance(found, dict):
        raise HeadcountError(f"{path} is not as a study left it: {words}. {RUN_AGAIN}")
    return found


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {quoted(twice)} stands twice in an object")
    return found
