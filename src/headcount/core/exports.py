"""What results can be written as for other tools, by name: one file a format below `export/`, and one line here."""

from collections.abc import Callable
from typing import cast

from .registry import Registry, resolve

Exporter = Callable[..., str]  # (circuit, options) -> the text of a file


def _own(name: str) -> Exporter:
    def export(*args: object, **options: object) -> str:
        return cast(Exporter, resolve(f"headcount.export.{name}:{name}"))(*args, **options)

    return export


def register_export(name: str, exporter: Exporter) -> None:
    """Make an export of your own known by a name, for `Circuit.export`."""
    EXPORTS.add(name, exporter)


OWN = {name: _own(name) for name in ("mib", "graphml", "svg")}
EXPORTS: Registry[Exporter] = Registry("export", "headcount.exports", OWN)
