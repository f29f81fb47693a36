"""`headcount run KIND`: a command for every kind of study, with the options of that kind and no others."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from ..core.errors import HeadcountError
from ..core.reading import local_path
from ..studies import STUDIES, StudyKind
from ..studies.executors import WHERE, executor
from ..studies.study import parse, read_study, study_path
from .app import AllowCode, open_in_browser, run_app, trust
from .options import Command, given, options_of, own_options, takes_list, with_options

AGAIN = {
    "models": "model",
    "task": "task",
    "orders": "order",
    "fill": "fill",
    "method": "method",
    "controls": "control",
}
"""Keys whose option is given once for each value, where a kind of study takes several."""
ON_HELP = "Where steps are run: processes of this machine, a Ray cluster, an array job of Slurm."
ON_DEFAULT = "in this process"
PLAN_HELP = "Say what would be run, what is cached, and what it takes."


def add_study_commands() -> None:
    """Plugins included; one that cannot be loaded is left out here, and told when it is asked for. Those of an earlier
    call in the same process are replaced."""
    run_app.registered_commands.clear()
    for name, kind in STUDIES.sound().items():
        with suppress(HeadcountError):  # its TOML may be missing or wrong
            run_app.command(name)(_command(kind))


@contextmanager
def _placed(on: str | None, options: dict[str, Any], dry_run: bool) -> Iterator[Any]:
    """The executor that was asked for, if any; its workers are sent home afterwards."""
    if on is None:
        yield None
        return
    if dry_run and on != "slurm":
        raise HeadcountError("--dry-run prints what Slurm would be given; it goes with --on slurm. See also --plan.")
    made: Any = executor(on, **options)
    try:
        yield made
    finally:
        made.close()


def study_first(arguments: list[str]) -> list[str]:
    """`run --quick my.toml` as `run KIND --study my.toml --quick`: a file becomes a command of its kind."""
    if arguments[:1] != ["run"] or (rest := arguments[1:]) in ([], ["--help"]):
        return arguments
    place = next((i for i, word in enumerate(rest) if word in STUDIES or word.endswith(".toml")), None)
    if place is None:
        named = next((word for word in rest if not word.startswith("-")), "")
        study_path(named)  # says what there is
        return arguments
    word, others = rest[place], rest[:place] + rest[place + 1 :]
    if word in STUDIES:
        parse(STUDIES[word].toml)  # says what is wrong with a plugin
        return ["run", word, *others]
    return ["run", parse(local_path(word))[1].name, "--study", word, *others]


def _command(kind: StudyKind) -> Command:
    place = f"headcount-results/{kind.name}"

    def run(
        quick: Annotated[bool, typer.Option("--quick", help="Fewer prompts, points and draws.")] = False,
        out: Annotated[Path | None, typer.Option(help="Output folder.", show_default=place)] = None,
        memory: Annotated[str | None, typer.Option(help="What may be used beyond the model, such as 8GB.")] = None,
        open_page: Annotated[bool, typer.Option("--open", help="Open the report in the browser at the end.")] = False,
        plan: Annotated[bool, typer.Option("--plan", help=PLAN_HELP)] = False,
        no_cache: Annotated[bool, typer.Option("--no-cache", help="Compute every step anew, and keep none.")] = False,
        long: Annotated[bool, typer.Option("--long", help="It may take more than a week.")] = False,
        on: Annotated[str | None, typer.Option(metavar="|".join(WHERE), help=ON_HELP, show_default=ON_DEFAULT)] = None,
        workers: Annotated[int | None, typer.Option(min=1, help="With --on: how many; as there is room for.")] = None,
        ray_address: Annotated[str | None, typer.Option(help="Of a Ray cluster; else one is started here.")] = None,
        partition: Annotated[str | None, typer.Option(help="Of Slurm.")] = None,
        time: Annotated[int | None, typer.Option(min=1, help="Minutes that a job of Slurm may take.")] = None,
        gpus: Annotated[int | None, typer.Option(min=0, help="Of each worker, on Ray and Slurm.")] = None,
        dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what Slurm would be given.")] = False,
        code: AllowCode = False,
        study: Annotated[str | None, typer.Option(hidden=True)] = None,
        **values: Any,
    ) -> None:
        from ..meters.memory import parse_bytes

        trust(code)
        asked: dict[str, Any] = {"models": values.pop("models") or (), "tasks": values.pop("task") or ()}
        asked |= {"quick": quick, "overrides": given(kind.settings, values)}
        name, allowed = study or kind.name, None if memory is None else parse_bytes(memory)
        where = {"workers": workers, "address": ray_address, "partition": partition, "time": time, "gpus": gpus}
        given_where = {key: value for key, value in where.items() if value is not None}
        if on is None and (given_where or dry_run):
            option = "dry-run" if dry_run else next(iter(given_where)).replace("address", "ray-address")
            raise HeadcountError(f"--{option} goes with --on, which says where steps are run: {', '.join(WHERE)}.")
        if plan:
            from ..studies.forecast import print_plan

            return print_plan(read_study(name, **asked), allowed)
        told: dict[str, Any] = {"out": out, "cache": not no_cache, "memory": allowed, "long": long}
        try:
            with _placed(on, given_where, dry_run) as executor:
                if dry_run:
                    return print(executor.dry_run())
                from ..studies.runner import run as run_study

                result = run_study(name, **told, **({"executor": executor} if on else {}), **asked)
        except KeyboardInterrupt:
            print("headcount: stopped. Finished steps are kept; the same command goes on from here.", file=sys.stderr)
            raise typer.Exit(130) from None
        result.study.kind.part("table").show(result)
        if open_page:
            open_in_browser(result.report.resolve().as_uri())

    run.__doc__ = kind.summary
    again = {key: name for key, name in AGAIN.items() if key == "task" or takes_list(kind.settings, key)}
    options = [*options_of(kind.settings, parse(kind.toml)[0].get("defaults", {}), again), *own_options(run)]
    # Memory is asked for where it decides how much runs at once.
    hidden = ("units", "title") if kind.settings.TAKES_MEMORY else ("units", "title", "memory")
    return with_options(run, [option for option in options if option.name not in hidden])
