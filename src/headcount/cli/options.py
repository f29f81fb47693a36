"""Options of the command line, made from typed settings: names, types, defaults and help stand in the class alone."""

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature, signature
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from ..core.errors import HeadcountError
from ..core.plain import quoted
from ..core.settings import Settings, literals
from .app import in_words

Command = Callable[..., None]


def options_of(settings: type[Settings], defaults: Mapping[str, object], again: Mapping[str, str]) -> list[Parameter]:
    """An option for every key; `defaults` are said in the help. `again`: keys that are given one by one, and how each
    is called then."""
    made = []
    for key, field in settings.model_fields.items():
        name, kind = (again[key], list[str]) if key in again else (key, _kind(field))
        words = sorted(filter(None, set(literals(field.annotation))))
        told: Any = {
            "help": _help(field, words, in_words(defaults.get(key, field.get_default()))),
            "show_default": False,
        }
        told |= {"autocompletion": _told(words)} if words else {}
        option = typer.Option(*_flags(name, kind), **told)
        made.append(Parameter(key, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]))
    return made


def given(
    settings: type[Settings], values: Mapping[str, object], again: Mapping[str, str] | None = None
) -> dict[str, object]:
    """The options that were given, as the settings take them. What is wrong with one is told by its own name."""
    fields = settings.model_fields
    called = {key: _flags((again or {}).get(key, key), str)[-1] for key in fields}
    told = {key: value for key, value in values.items() if key in fields and value not in (None, [])}
    found = {key: _value(called[key], fields[key], value) for key, value in told.items()}
    settings.check_table(found, called=called)
    return found


def takes_list(settings: type[Settings], key: str) -> bool:
    return key in settings.model_fields and _element(settings.model_fields[key]) is not None


def own_options(function: Command) -> list[Parameter]:
    """Those that a function names itself."""
    named = [each for each in signature(function).parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
    return [each.replace(kind=Parameter.KEYWORD_ONLY) for each in named]


def with_options(function: Command, parameters: Sequence[Parameter]) -> Command:
    """The function, which Typer then reads as if its `**values` had been written out."""
    function.__signature__ = Signature(list(parameters))  # type: ignore[attr-defined]
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return function


def _told(words: list[str]) -> Callable[[], list[str]]:
    """What completes an option. Typer takes the signature of it, which is slow to find for a method such as `copy`."""
    return lambda: words


def _flags(name: str, kind: object) -> tuple[str, ...]:
    flag = name.replace("_", "-")
    if kind is bool:
        return (f"--{flag}/--no-{flag}",)
    return ("-n", "--n") if name == "n" else (f"--{flag}",)


def _plain(field: FieldInfo) -> list[object]:
    """The types that a key may have, without None and without what is said about them."""

    def parts(hint: object) -> list[object]:
        if get_origin(hint) is Annotated:
            return parts(get_args(hint)[0])
        if get_origin(hint) in (tuple, Literal) or not get_args(hint):
            return [] if hint is NoneType else [hint]
        return [part for inner in get_args(hint) for part in parts(inner)]

    return parts(field.annotation)


def _kind(field: FieldInfo) -> type:
    """What Typer reads: lists are written in one text, with commas."""
    (first, *rest) = _plain(field)
    return first if not rest and first in (int, float, bool) else str


def _value(flag: str, field: FieldInfo, value: object) -> object:
    kind = _element(field)
    if kind is None or (isinstance(value, str) and value in literals(field.annotation)):
        return value
    words = value if isinstance(value, list) else str(value).split(",")
    try:
        if not all(map(str.strip, words)):
            raise ValueError
        return [kind(word) for word in words]
    except ValueError as error:
        if isinstance(value, list):
            raise HeadcountError(f"{flag} must not be empty. Leave it out for the study's own.") from error
        what = "words" if kind is str else "numbers"
        raise HeadcountError(f"{flag} takes comma-separated {what}; got {quoted(value)}.") from error


def _number(word: str) -> float:
    """A number, or a share as a percentage."""
    return float(word.strip().removesuffix("%")) / (100 if word.strip().endswith("%") else 1)


def _element(field: FieldInfo) -> Callable[[str], object] | None:
    """What a list of a key holds, numbers or texts; None where it takes no list."""
    inner = next((get_args(part)[0] for part in _plain(field) if get_origin(part) is tuple), None)
    while get_origin(inner) is Annotated:
        inner = get_args(inner)[0]
    known: dict[object, Callable[[str], object] | None] = {None: None, int: int, float: _number}
    return known.get(inner, str)


def _help(field: FieldInfo, words: list[str], default: str) -> str:
    """What it means, what it may be, and what it is by default."""
    parts = [" ".join((field.description or "").replace("`", "").split())]
    if _element(field) in (int, _number):
        parts.append("Comma-separated numbers.")
    if words and not all(word in parts[0] for word in words):
        parts.append(f"One of {', '.join(words)}.")
    return " ".join([*parts, *([f"Default: {default}."] if default else [])])
