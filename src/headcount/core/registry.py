"""Things known by a name: those of the package, those that a program adds, and those of other installed packages.

A package of anybody's declares an entry point, and the command line sees it:

    [project.entry-points."headcount.methods"]
    mine = "my_package:METHOD"
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar, cast

from .errors import HeadcountError, in_short, require_known

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """Name -> thing, in the order in which they became known."""

    def __init__(self, what: str, group: str, built_in: Mapping[str, T], kind: type | None = None) -> None:
        """`kind`: what an entry point has to name; anything where it is None."""
        self.what, self.group, self._kind = what, group, kind
        self._own = dict(built_in)

    def add(self, name: str, thing: T) -> T:
        self._own[name] = thing
        return thing

    def named(self, name: str) -> T:
        """The thing of a name, or an error with the nearest one."""
        require_known(name, self, self.what)
        return self[name]

    def sound(self) -> dict[str, T]:
        """All that can be loaded: a broken plugin is told when it is asked for, and is nobody else's trouble."""
        found = {}
        for name in self:
            with suppress(HeadcountError):
                found[name] = self[name]
        return found

    def __getitem__(self, name: str) -> T:
        if name not in self._own:
            self._own[name] = self._loaded(self._plugins[name])
        return self._own[name]

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self._plugins

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._own, *self._plugins]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    @cached_property
    def _plugins(self) -> dict[str, EntryPoint]:
        """What installed packages offer, looked up once and imported only when asked for."""
        return {point.name: point for point in entry_points(group=self.group)}

    def _loaded(self, point: EntryPoint) -> T:
        try:
            found = point.load()
            if self._kind is not None and not isinstance(found, self._kind):
                raise TypeError(f"it is no {self._kind.__name__}")
            return cast(T, found)
        except Exception as error:  # somebody else's module may raise anything
            raise HeadcountError(
                f"The {self.what} {point.name!r} of the package {point.dist.name if point.dist else '?'} cannot be"
                f" loaded ({point.value}): {in_short(error)}"
            ) from error


def resolve(target: str) -> object:
    """The object behind 'package.module:name', imported now."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)
