"""What results can be written as for other tools, by name: one file a format below `export/`, and one line here."""

from collections.abc import Callable

from .registry import Registry, resolve

Exporter = Callable[..., str]  # (circuit, options) -> the text of a file


def _lazy(target: str) -> Exporter:
    def export(*args: object, **options: object) -> str:
        function = resolve(f"headcount.export.{target}")
        assert callable(function)
        return str(function(*args, **options))

    return export


def register_export(name: str, exporter: Exporter) -> None:
    """Make an export of your own known by a name, for `Circuit.export`."""
    EXPORTS.add(name, exporter)


EXPORTS: Registry[Exporter] = Registry(
    "export",
    "headcount.exports",
    {"mib": _lazy("mib:mib"), "graphml": _lazy("graphml:graphml"), "svg": _lazy("svg:svg")},
)
