"""How results are kept: arrays as safetensors, facts as JSON, tables as CSV. Nothing that runs code when it is read."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load as parse_arrays
from safetensors.numpy import save as serialise_arrays

from .checksums import BLANK, is_as_stamped, stamped
from .errors import HeadcountError, in_short
from .files import writable_folder, write_file
from .plain import quoted
from .provenance import Facts
from .reading import STUMBLED

if TYPE_CHECKING:
    import pandas

UNREADABLE: tuple[type[Exception], ...] = (*STUMBLED, SafetensorError, ValidationError)
STAMP = "sha256"
Cell = str | int | float | None
Row = dict[str, Cell]
Floats = NDArray[np.float64]


class Saved:
    """A dataclass that can be saved into a folder and loaded again. Fields that hold an array, or a dict of arrays, go
    to `FILE.safetensors`, all others to `FILE.json`, with a hash of both; what is read is checked against it, the types
    of the fields, to the leaves, and `AXES`."""

    FILE: ClassVar[str]
    AXES: ClassVar[dict[str, tuple[str, ...]]] = {}
    """Of fields with arrays, or lists, what their axes are; those of one name have the same length, and not 0."""
    FINITE: ClassVar[tuple[str, ...]] = ()
    """Fields that units are ranked by, where a number that is none would take a place."""

    def save(self, folder: str | Path) -> Path:
        """Write two files into a folder, the JSON last, so that its presence says that both are whole."""
        place = writable_folder(Path(folder))
        arrays: dict[str, NDArray[Any]] = {}
        facts: dict[str, Any] = {}
        for name, (kind, adapter) in _plan(cast(Any, type(self))).items():
            value = getattr(self, name)
            if kind == "array":
                arrays[name] = np.ascontiguousarray(value)
            elif kind == "arrays":
                arrays |= {f"{name}/{key}": np.ascontiguousarray(array) for key, array in value.items()}
                facts[name] = list(value)
            else:
                facts[name] = adapter.dump_python(value, mode="json")
        facts |= {**self.beside(), STAMP: BLANK.decode()}
        tensors, text = serialise_arrays(arrays), json.dumps(facts, indent=1, sort_keys=True) + "\n"
        write_file(place / f"{self.FILE}.safetensors", tensors)
        write_file(place / f"{self.FILE}.json", stamped(text.encode(), tensors))
        return place

    def beside(self) -> Facts:
        """What the JSON says for its readers beside the fields."""
        return {}

    def require_sound(self) -> None:
        """A `ValueError` where fields that were read contradict each other."""

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """What `save` wrote, or an error that says what is wrong with it."""
        place, found = Path(folder), dict[str, Any]()
        try:
            text, tensors = ((place / f"{cls.FILE}.{kind}").read_bytes() for kind in ("json", "safetensors"))
            facts, arrays = json.loads(text), parse_arrays(tensors)
            # Without a hash: of an older headcount, or changed on purpose.
            if STAMP in facts and not is_as_stamped(text, str(facts[STAMP]), tensors):
                raise ValueError(f"they are not as they were written. If you changed them, remove {STAMP!r} there.")
            for name, (kind, adapter) in _plan(cast(Any, cls)).items():
                if kind == "array":
                    found[name] = arrays[name]
                elif kind == "arrays":
                    found[name] = {key: arrays[f"{name}/{key}"] for key in adapter.validate_python(facts[name])}
                else:
                    found[name] = adapter.validate_python(facts[name])
            made = cls(**found)
            _require_axes(made)
            if wrong := [name for name in cls.FINITE if not np.isfinite(getattr(made, name)).all()]:
                raise ValueError(f"{wrong[0]} holds numbers that are not finite, which rank nothing")
            made.require_sound()
            return made
        except UNREADABLE as error:
            missing = isinstance(error, FileNotFoundError | NotADirectoryError)
            files, told = f"{cls.FILE}.json and {cls.FILE}.safetensors", in_short(_first(error)).rstrip(".")
            why = f"holds no {files}" if missing else f"holds no whole {files}: {told}"
            raise HeadcountError(f"The folder {place} {why}.") from error


def _first(error: Exception) -> Exception:
    """Of what pydantic says, in many lines, the first field and what is wrong with it."""
    if not isinstance(error, ValidationError):
        return error
    (first, *_) = error.errors(include_url=False)
    return ValueError(f"{first['msg']}, and it is {quoted(first['input'])}")


def _require_axes(made: Saved) -> None:
    lengths = dict[str, int]()
    for name, axes in made.AXES.items():
        value = getattr(made, name)
        for array in value.values() if isinstance(value, dict) else (value,):
            shape = array.shape if isinstance(array, np.ndarray) else (len(array),)
            if isinstance(array, np.ndarray) and array.dtype.kind not in "fiub":
                raise ValueError(f"{name} holds {array.dtype}, not numbers")
            if len(shape) != len(axes) or any(
                lengths.setdefault(a, n) != n or n == 0 for a, n in zip(axes, shape, strict=True)
            ):
                raise ValueError(f"{name} has the shape {list(shape)}, which does not fit [{', '.join(axes)}]")


@cache
def _plan(cls: Any) -> dict[str, tuple[str, TypeAdapter[Any]]]:
    """Field -> how it is kept."""
    hints, plan = get_type_hints(cls), {}
    for field in fields(cls):
        hint = hints[field.name]
        if get_origin(hint) is np.ndarray:
            plan[field.name] = "array", TypeAdapter(Any)
        elif get_origin(hint) is dict and get_origin(get_args(hint)[1]) is np.ndarray:
            plan[field.name] = "arrays", TypeAdapter(list[get_args(hint)[0]])  # type: ignore[misc, arg-type]
        else:
            plan[field.name] = "facts", TypeAdapter(hint)
    return plan


class Tabled:
    """A result with `rows`."""

    def rows(self) -> list[Row]:
        raise NotImplementedError

    def to_frame(self) -> "pandas.DataFrame":
        """A pandas DataFrame of `rows`."""
        try:
            import pandas
        except ImportError as error:
            raise HeadcountError("A frame needs pandas: pip install 'headcount[frames]'") from error
        return pandas.DataFrame(self.rows())


def csv_text(rows: Sequence[Mapping[str, Cell]], columns: Sequence[str] = ()) -> str:
    """The keys of the first row as header, unless columns are named; numbers to 6 digits, stable to compare."""
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(columns or rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:  # adding 0.0 turns -0.0 into 0
        writer.writerow({key: f"{v + 0.0:.6g}" if isinstance(v, float) else v for key, v in row.items()})
    return out.getvalue()
