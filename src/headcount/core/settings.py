"""Settings, declared once as typed classes: a TOML's checks, the command's options and the schema come from them."""

from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Annotated, Literal, Self, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from .errors import MOST_SEED, HeadcountError, did_you_mean
from .plain import quoted
from .provenance import Facts

T = TypeVar("T")
Listed = Annotated[tuple[T, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)]
"""A list of a TOML."""
Count = Annotated[int, Field(ge=1, le=10**6)]
"""Of what is only counted. How long it takes is looked at when the plan is made (`meters/speed.py`)."""
Few = Annotated[int, Field(ge=1, le=10_000)]
"""Of what takes memory or time before a plan is made, or that no plan knows."""
Rate = Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]
"""A learning rate."""
Seed = Annotated[int, Field(ge=0, le=MOST_SEED)]
BOUNDS = {"gt": "above {}", "ge": "at least {}", "lt": "below {}", "le": "not above {}"}


class Settings(BaseModel):
    """Frozen, strict about types, and closed: a key that is not known is refused with the nearest one."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)

    def __init__(self, **values: object) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise HeadcountError(sentence(type(self), error.errors()[0])) from error

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Self:
        """From what JSON or a TOML says."""
        return cls(**values)

    @classmethod
    def check_table(
        cls, values: Mapping[str, object], place: str = "", called: Mapping[str, str] | None = None
    ) -> None:
        """Refuse what is wrong with one table of a TOML, and say where it stands; other keys may be given elsewhere.
        `called`: what the user calls keys, where that is not their names."""
        place = f"{place}: " if place else ""
        try:
            cls(**values)
        except HeadcountError as error:
            cause = error.__cause__
            if not isinstance(cause, ValidationError):
                raise HeadcountError(f"{place}{error}") from error
            for each in cause.errors():
                if each["type"] != "missing":
                    raise HeadcountError(f"{place}{sentence(cls, each, called)}") from error

    def changed(self, **values: object) -> Self:
        """A copy with other values, checked again."""
        return type(self)(**{**dict(self), **values})

    def facts(self) -> Facts:
        """For JSON."""
        return self.model_dump(mode="json")


def sentence(cls: type[BaseModel], error: ErrorDetails, called: Mapping[str, str] | None = None) -> str:
    """What was wanted of a key, and what came."""
    key = str(error["loc"][0]) if error["loc"] else ""
    field, came = cls.model_fields.get(key), error["input"]
    key = (called or {}).get(key, key)
    hint = field.annotation if field else None
    match error["type"]:
        case "extra_forbidden":
            return f"unknown key {quoted(key)}.{did_you_mean(key, cls.model_fields)}"
        case "missing":
            return f"{key} is missing."
        case "literal_error" if isinstance(came, str):
            return f"{key} cannot be {quoted(came)}.{did_you_mean(came, filter(None, literals(hint)))}"
        case "greater_than" | "greater_than_equal" | "less_than" | "less_than_equal":
            return f"{key} must be {_range(field, error)}; got {quoted(came)}."
        case "value_error":
            words = str(error["ctx"]["error"]) if "ctx" in error else error["msg"]
            return f"{key} {words}" if key and not words[:1].isupper() else words
        case _:
            return f"{key} must be {wanted(hint)}; got {quoted(came)}."


def wanted(hint: object) -> str:
    """A type as a user would say it."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return wanted(inner[0])
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(wanted(part) for part in inner if part is not NoneType))
    if origin is tuple:
        many = {"a text": "texts", "a whole number": "whole numbers", "a number": "numbers"}
        return f"a list of {many.get(wanted(inner[0]), 'texts')}"
    if origin is Literal:
        return "one of " + ", ".join(map(str, inner))
    plain = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    return plain.get(hint, str(hint))  # type: ignore[call-overload, no-any-return]


def literals(hint: object) -> list[str]:
    """All words that a type allows, wherever they stand in it."""
    if get_origin(hint) is Literal:
        return [str(word) for word in get_args(hint)]
    return [word for part in get_args(hint) for word in literals(part)]


def _range(field: FieldInfo | None, error: ErrorDetails) -> str:
    """All bounds of a key; of one that may also be nothing, the bound that was broken."""
    rules: list[object] = [*(field.metadata if field else ())]
    found = {name: getattr(rule, name) for rule in rules for name in BOUNDS if getattr(rule, name, None) is not None}
    found = found or {name: bound for name, bound in error.get("ctx", {}).items() if name in BOUNDS}
    return " and ".join(
        BOUNDS[name].format(f"{bound:,}" if isinstance(bound, int) else f"{bound:g}") for name, bound in found.items()
    )


def check(rule: Callable[[T], bool], words: str) -> Callable[[T], T]:
    """A rule of one's own for `AfterValidator`; `words` read on from the name of the key."""

    def checked(value: T) -> T:
        if not rule(value):
            raise ValueError(f"{words}; got {quoted(value)}.")
        return value

    return checked
