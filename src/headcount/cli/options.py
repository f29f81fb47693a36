"""Options of the command line, made from typed settings: names, types, defaults and help stand in the class alone."""

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from types import NoneType
from typing import Annotated, Literal, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from ..core.errors import HeadcountError
from ..core.settings import Settings, literals

Command = Callable[..., None]


def options_of(
    settings: type[Settings],
    defaults: Mapping[str, object],
    *,
    again: Mapping[str, str] | None = None,
    leave_out: Sequence[str] = (),
) -> list[Parameter]:
    """An option for every key; `defaults` are said in the help. `again`: keys that are given one by one, and how each
    is called then."""
    made = []
    for key, field in settings.model_fields.items():
        if key not in leave_out:
            name = (again or {}).get(key, key)
            flag = "-n" if name == "n" else f"--{name.replace('_', '-')}"
            shown = _in_words(defaults.get(key, field.get_default()))
            kind = _kind(field) if key not in (again or {}) else list[str]
            words = sorted(set(literals(field.annotation)))
            option = typer.Option(
                *_flags(flag, kind),
                help=_help(field),
                show_default=shown or False,
                metavar="|".join(words) if words and kind is not bool else None,
                autocompletion=_completion(words) if words else None,
            )
            made.append(Parameter(key, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]))
    return made


def given(settings: type[Settings], values: Mapping[str, object]) -> dict[str, object]:
    """The options that were given, as the settings take them."""
    found = {key: value for key, value in values.items() if key in settings.model_fields and value not in (None, [])}
    return {key: _value(key, settings.model_fields[key], value) for key, value in found.items()}


def with_options(function: Command, parameters: Sequence[Parameter], doc: str) -> Command:
    """A function that Typer reads as if its keywords had been written out."""

    def command(**values: object) -> None:
        function(**values)

    command.__signature__ = Signature(list(parameters))  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__doc__ = doc
    return command


def _completion(words: list[str]) -> Callable[[], list[str]]:
    return lambda: words


def _flags(flag: str, kind: object) -> tuple[str, ...]:
    if flag == "-n":
        return "-n", "--n"
    return (f"{flag}/--no-{flag[2:]}",) if kind is bool else (flag,)


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


def _value(key: str, field: FieldInfo, value: object) -> object:
    lists = [part for part in _plain(field) if get_origin(part) is tuple]
    if not lists or (isinstance(value, str) and value in literals(field.annotation)):
        return value
    words = value if isinstance(value, list) else [word for word in str(value).split(",") if word.strip()]
    kind = _element(lists[0])
    try:
        return [kind(word) for word in words]
    except ValueError as error:
        raise HeadcountError(f"--{key} takes numbers with commas between them; this is {value!r}.") from error


def _element(hint: object) -> Callable[[str], object]:
    inner = get_args(hint)[0]
    while get_origin(inner) is Annotated:
        inner = get_args(inner)[0]
    return inner if inner in (int, float) else str


def _help(field: FieldInfo) -> str:
    text = " ".join((field.description or "").replace("`", "").split())
    lists = [part for part in _plain(field) if get_origin(part) is tuple and _element(part) is not str]
    return f"{text} Numbers with commas between them." if lists else text


def _in_words(default: object) -> str:
    if default in (None, "", (), []) or str(default) == "PydanticUndefined":
        return ""
    if isinstance(default, list | tuple):
        return ", ".join(map(str, default))
    return str(default).lower() if isinstance(default, bool) else str(default)
