"""`headcount run KIND`: a command for every kind of study, with the options of that kind and no others."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from ..core.errors import HeadcountError
from ..core.progress import hush, say, warn
from ..core.reading import local_path
from ..studies import STUDIES, StudyKind
from ..studies.executors import WHERE, executor
from ..studies.study import parse, read_study, study_path
from .app import (
    STARTED,
    AllowCode,
    JsonOption,
    QuietOption,
    StoppedError,
    open_in_browser,
    print_json,
    run_app,
    trust,
    wake,
)
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
QUICK_HELP = "Smaller, cheaper settings for a rough first answer: fewer prompts, draws and updates."
WIDTH_HELP = "Width of the figure: column or page, as in a paper; by default as wide as its panels."
ON_HELP = (
    "Where steps run: local (processes on this machine), ray (a Ray cluster) or slurm (an array job); by default in"
    " this process."
)
RAY_HELP = "Address of a Ray cluster; by default one is started."
ROOM_HELP = "With --on: how many; by default as many as fit."
FIRST = ("task", "models", "quick", "out", "plan", "open_page")
"""Options that people reach for first, in the order of the help."""
PLAN_HELP = "Print what would run, what is cached, and how long it takes; run nothing."


def add_study_commands() -> None:
    """Plugins included; one that cannot be loaded is left out here, and told when it is asked for. Those of an earlier
    call in the same process are replaced."""
    run_app.registered_commands.clear()
    for name, kind in STUDIES.sound().items():
        with suppress(HeadcountError):  # its TOML may be missing or wrong
            run_app.command(name)(_command(kind))


def _note_doubles(given: dict[str, object]) -> None:
    """What is given twice counts once; the user may have meant something else."""
    for name, values in given.items():
        for value, count in Counter(values).items() if isinstance(values, list) else ():
            if count > 1:
                say(f"--{name} {value} was given {'twice' if count == 2 else f'{count} times'}, and counts once.")


def _bytes(memory: str) -> int:
    wake("meters.memory")
    from ..meters.memory import parse_bytes

    return parse_bytes(memory)


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
    again = {key: name for key, name in AGAIN.items() if key == "task" or takes_list(kind.settings, key)}

    def run(
        quick: Annotated[bool, typer.Option("--quick", help=QUICK_HELP)] = False,
        out: Annotated[Path | None, typer.Option(help=f"Output folder. Default: {place}.")] = None,
        memory: Annotated[str | None, typer.Option(help="Memory to use beyond the model, for example 8GB.")] = None,
        open_page: Annotated[bool, typer.Option("--open", help="Open the report in the browser at the end.")] = False,
        plan: Annotated[bool, typer.Option("--plan", help=PLAN_HELP)] = False,
        no_cache: Annotated[
            bool, typer.Option("--no-cache", help="Recompute every step, and keep none of them.")
        ] = False,
        long: Annotated[bool, typer.Option("--long", help="Allow a run that takes more than a week.")] = False,
        width: Annotated[str, typer.Option(help=WIDTH_HELP)] = "",
        on: Annotated[str | None, typer.Option(help=ON_HELP)] = None,
        workers: Annotated[int | None, typer.Option(help=ROOM_HELP)] = None,
        ray_address: Annotated[str | None, typer.Option(help=RAY_HELP)] = None,
        partition: Annotated[str | None, typer.Option(help="Slurm partition.")] = None,
        time: Annotated[int | None, typer.Option(help="Minutes per Slurm job. Default: 240.")] = None,
        gpus: Annotated[int | None, typer.Option(help="GPUs per worker, on Ray and Slurm.")] = None,
        dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the Slurm script; submit nothing.")] = False,
        code: AllowCode = False,
        quiet: QuietOption = False,
        as_json: JsonOption = False,
        study: Annotated[str | None, typer.Option(hidden=True)] = None,
        **values: Any,
    ) -> None:
        trust(code)
        hush(quiet)
        _note_doubles({name: values.get(key) for key, name in AGAIN.items()})
        asked: dict[str, Any] = {"models": values.pop("models") or None, "tasks": values.pop("task") or None}
        asked |= {"quick": quick, "overrides": given(kind.settings, values, again), "width": width}
        name, allowed = study or kind.name, None if memory is None else _bytes(memory)
        where = {"workers": workers, "address": ray_address, "partition": partition, "time": time, "gpus": gpus}
        given_where = {key: value for key, value in where.items() if value is not None}
        if on is None and (given_where or dry_run):
            option = "dry-run" if dry_run else next(iter(given_where)).replace("address", "ray-address")
            raise HeadcountError(f"--{option} goes with --on, which says where steps are run: {', '.join(WHERE)}.")
        found = read_study(name, **asked)  # what is wrong with it is said before torch is loaded
        for panel in found.panels:
            panel.check_words()
        if plan:
            wake("studies.forecast")
            from ..studies.forecast import plan_facts, print_plan

            if as_json:
                return print_json(plan_facts(found, allowed, STARTED))
            return print_plan(found, allowed, STARTED)
        told: dict[str, Any] = {"out": out, "cache": not no_cache, "memory": allowed, "long": long}
        try:
            wake("studies.runner")
            with _placed(on, given_where, dry_run) as executor:
                if dry_run:
                    return print(executor.dry_run())
                from ..studies.runner import run as run_study

                result = run_study(name, **told, **({"executor": executor} if on else {}), **asked)
        except KeyboardInterrupt:
            kept = "Nothing is kept, as --no-cache asks" if no_cache else "Finished steps are kept"
            raise StoppedError(f"{kept}; run the same command to {'begin again' if no_cache else 'resume'}.") from None
        if as_json:
            print_json({**result.summary, "folder": str(result.folder), "computed": result.computed})
        elif quiet:
            for warning in result.summary["warnings"]:
                warn(warning)
        else:
            result.study.kind.part("table").show(result)
        if open_page:
            open_in_browser(result.report.resolve().as_uri())

    run.__doc__ = kind.summary
    options = [*options_of(kind.settings, parse(kind.toml)[0].get("defaults", {}), again), *own_options(run)]
    # Memory is asked for where it decides how much runs at once.
    hidden = ("units", "title") if kind.settings.TAKES_MEMORY else ("units", "title", "memory")
    shown = [option for option in options if option.name not in hidden]
    shown.sort(key=lambda option: FIRST.index(option.name) if option.name in FIRST else len(FIRST))
    return with_options(run, shown)
