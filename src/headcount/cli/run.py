"""`headcount run KIND`: a command for every kind of study, with the options of that kind and no others."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from ..core.errors import HeadcountError
from ..core.progress import hush
from ..core.reading import local_path
from ..studies import STUDIES, StudyKind
from ..studies.study import parse, read_study, study_path
from .app import AllowCode, JsonOption, QuietOption, open_in_browser, print_json, run_app, trust, wake
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
PLAN_HELP = "Print what would run, what is cached, and how long it takes; run nothing."


def add_study_commands() -> None:
    """Plugins included; one that cannot be loaded is left out here, and told when it is asked for. Those of an earlier
    call in the same process are replaced."""
    run_app.registered_commands.clear()
    for name, kind in STUDIES.sound().items():
        with suppress(HeadcountError):  # its TOML may be missing or wrong
            run_app.command(name)(_command(kind))


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
        memory: Annotated[str | None, typer.Option(help="Memory to use beyond the model, for example 8GB.")] = None,
        open_page: Annotated[bool, typer.Option("--open", help="Open the report in the browser at the end.")] = False,
        plan: Annotated[bool, typer.Option("--plan", help=PLAN_HELP)] = False,
        no_cache: Annotated[
            bool, typer.Option("--no-cache", help="Recompute every step, and keep none of them.")
        ] = False,
        long: Annotated[bool, typer.Option("--long", help="Allow a run that takes more than a week.")] = False,
        code: AllowCode = False,
        quiet: QuietOption = False,
        as_json: JsonOption = False,
        study: Annotated[str | None, typer.Option(hidden=True)] = None,
        **values: Any,
    ) -> None:
        from ..meters.memory import parse_bytes

        trust(code)
        hush(quiet)
        asked: dict[str, Any] = {"models": values.pop("models") or (), "tasks": values.pop("task") or ()}
        asked |= {"quick": quick, "overrides": given(kind.settings, values)}
        name, allowed = study or kind.name, None if memory is None else parse_bytes(memory)
        if plan:
            found = read_study(name, **asked)
            wake("studies.forecast")
            from ..studies.forecast import plan_facts, print_plan

            return print_json(plan_facts(found, allowed)) if as_json else print_plan(found, allowed)
        try:
            read_study(name, **asked)  # what is wrong with it is said before torch is loaded
            wake("studies.runner")
            from ..studies.runner import run as run_study

            result = run_study(name, out=out, cache=not no_cache, memory=allowed, long=long, **asked)
        except KeyboardInterrupt:
            print("headcount: stopped. Finished steps are kept; run the same command to resume.", file=sys.stderr)
            raise typer.Exit(130) from None
        if as_json:
            print_json({**result.summary, "folder": str(result.folder), "computed": result.computed})
        elif not quiet:
            result.study.kind.part("table").show(result)
        if open_page:
            open_in_browser(result.report.resolve().as_uri())

    run.__doc__ = kind.summary
    again = {key: name for key, name in AGAIN.items() if key == "task" or takes_list(kind.settings, key)}
    options = [*options_of(kind.settings, parse(kind.toml)[0].get("defaults", {}), again), *own_options(run)]
    # Memory is asked for where it decides how much runs at once.
    hidden = ("units", "title") if kind.settings.TAKES_MEMORY else ("units", "title", "memory")
    return with_options(run, [option for option in options if option.name not in hidden])
