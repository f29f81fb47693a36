"""`headcount export KIND RESULT`: a command for every kind of export, with its own options and no others."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..core.exports import EXPORTS, NAMES, Export
from ..core.progress import waiting
from ..view.tables import say
from .app import JsonOption, export_app, print_json, print_rows, wake
from .options import Command, given, options_of, own_options, with_options


@export_app.callback(invoke_without_command=True)
def exports(context: typer.Context, as_json: JsonOption = False) -> None:
    """Write results for other tools."""
    if context.invoked_subcommand is None:
        rows = [(name, NAMES[each.takes], each.writes, each.summary) for name, each in EXPORTS.sound().items()]
        print_rows(("export", "takes", "writes", "what it is"), rows, as_json)
        if as_json:
            return
        say("Usage: headcount export KIND RESULT --out PATH. For its options: headcount export KIND --help")


def add_export_commands() -> None:
    """Plugins included; one that cannot be loaded is left out here. Those of an earlier call are replaced."""
    export_app.registered_commands.clear()
    for name, each in EXPORTS.sound().items():
        export_app.command(name)(_command(name, each))


def _command(name: str, chosen: Export) -> Command:
    def export(
        result: Annotated[
            Path | None, typer.Argument(help="The output folder of a study, a folder of scores, or a circuit's JSON.")
        ] = None,
        out: Annotated[Path | None, typer.Option(help=f"The {chosen.writes} to write.")] = None,
        as_json: JsonOption = False,
        **values: Any,
    ) -> None:
        from ..core.errors import HeadcountError

        if out is None:
            raise HeadcountError(f"Say where to write the {chosen.writes}: --out.")
        asked = {**given(chosen.choice, values), **given(chosen.options, values)}
        wake("studies.exporting")
        from ..studies.exporting import export_result

        with waiting(f"writing {out}"):
            written = export_result(name, result, out, **asked)  # type: ignore[arg-type]
        if as_json:
            return print_json({"export": name, "written": str(written)})
        print(f"Written: {written}")

    export.__doc__ = f"{chosen.summary[:1].upper()}{chosen.summary[1:]}. It takes {NAMES[chosen.takes]}."
    both = [*options_of(chosen.choice, {}, {}), *options_of(chosen.options, {}, {})]
    options = {option.name: option for option in both}
    return with_options(export, [*own_options(export), *options.values()])
