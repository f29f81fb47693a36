"""Commands about the cache: what lies there, what it was made from, and how to clear it."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from ..core.cache import Entry, Store, cache_folder, folder_bytes
from ..core.errors import HeadcountError
from ..core.plain import plain, plain_lines
from ..core.reading import read_facts, reading_result
from ..view.tables import print_table
from .app import JsonOption, cache_app, print_json, print_rows

if TYPE_CHECKING:
    from ..studies.outputs import Provenance

HOUR, DAY = 3_600, 86_400


def _size(held: int) -> str:
    return f"{held / 1e6:,.1f} MB" if held >= 1e6 else f"{held / 1e3:.0f} kB"


def _age(seconds: float) -> str:
    if seconds < 2 * HOUR:
        return f"{seconds:.0f} s" if seconds < 60 else f"{seconds / 60:.0f} min"
    return f"{seconds / HOUR:.0f} h" if seconds < 2 * DAY else f"{seconds / DAY:.0f} days"


@cache_app.command("list")
def list_steps(as_json: JsonOption = False) -> None:
    """List finished steps, the oldest first."""
    rows = [(e.key[:12], e.label, _size(e.bytes), _age(e.age)) for e in Store().entries()]
    if not rows and not as_json:
        return print(f"There are no finished steps in {plain(str(Store().folder))}.")
    print_rows(("key", "step", "size", "age"), rows, as_json)


@cache_app.command()
def size(as_json: JsonOption = False) -> None:
    """Print where the cache is and what it holds."""
    place = cache_folder()
    parts = sorted(path for path in place.iterdir() if path.is_dir()) if place.is_dir() else []
    sizes = {path.name: folder_bytes(path) for path in parts}
    if as_json:
        return print_json({"folder": str(place), "bytes": sizes})
    print(f"{place}:")
    print_table(("part", "size"), [(name, _size(held)) for name, held in sizes.items()])


@cache_app.command()
def clean(
    older_than: Annotated[float, typer.Option(help="Days; steps that are younger, and whole, stay.")] = 0.0,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; scripts need it.")] = False,
) -> None:
    """Remove finished steps. Models and environments that were fetched stay."""
    store = Store()

    def agree(found: list[Entry]) -> bool:
        """Whoever sits at a terminal is asked; a script says --yes."""
        if yes or not found:
            return True
        what = "1 finished step" if len(found) == 1 else f"{len(found)} finished steps"
        held = f"{what}, {_size(sum(entry.bytes for entry in found))}, in {plain(str(store.folder))}"
        if not sys.stdin.isatty():
            raise HeadcountError(f"This would remove {held}, and nobody can be asked here. To agree, add --yes.")
        print(f"{held}.")
        return typer.confirm("Remove them? Studies would compute them again.")

    count, freed = store.clean(older_than * DAY, agree)
    print(f"{'1 step' if count == 1 else f'{count} steps'} removed, {_size(freed)}.")


@cache_app.command()
def show(
    what: Annotated[str, typer.Argument(help="A key or its beginning; or the output folder of a study.")],
) -> None:
    """Print what a result was made from. Of a study, these are its steps; of a step, all that it depends on."""
    store, folder = Store(), Path(what)
    if not folder.is_dir():
        print(plain_lines(json.dumps(store.description(what), indent=1, ensure_ascii=False)))
        return
    if not (folder / "provenance.json").is_file():
        raise HeadcountError(f"{folder} is not the output folder of a study: it has no provenance.json.")
    with reading_result(folder):
        steps = cast("Provenance", read_facts(folder / "provenance.json"))["steps"]
        found = [(str(step["key"]), str(step["label"])) for step in steps]
    there = {True: "in the cache", False: "not in the cache"}
    print_table(("key", "step", ""), [(key[:12], label, there[store.has(key)]) for key, label in found])
    print(f"The cache is {store.folder}.")
