"""`headcount run KIND`: a command for every kind of study, with the options of that kind and no others."""

import sys
from contextlib import suppress
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from ..core.errors import HeadcountError
from ..studies import STUDIES, StudyKind
from ..studies.study import parse, study_path
from .app import run_app
from .options import Command, given, options_of, with_options

AGAIN = {"models": "model", "task": "task", "orders": "order"}
"""Keys whose option is given once for each value."""


def add_study_commands() -> None:
    """Plugins included; one that cannot be loaded is left out here, and told when it is asked for."""
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
    return ["run", parse(Path(word))[1].name, "--study", word, *others]


def _command(kind: StudyKind) -> Command:
    def run(**values: Any) -> None:
        overrides = given(kind.settings, {key: v for key, v in values.items() if key not in ("models", "task")})
        asked: dict[str, Any] = {
            "models": values["models"] or (),
            "tasks": values["task"] or (),
            "quick": values["quick"],
            "overrides": overrides,
            "memory": _memory(values.get("memory")),
        }
        study = str(values["study"] or kind.name)
        if values["plan"]:
            from ..studies.forecast import print_plan

            return print_plan(study, **asked)
        try:
            from ..studies.runner import run as run_study

            result = run_study(study, out=values["out"], cache=not values["no_cache"], **asked)
        except KeyboardInterrupt:
            print("headcount: stopped. Finished steps are kept; the same command goes on from here.", file=sys.stderr)
            raise typer.Exit(130) from None
        result.study.kind.part("table").show(result)

    defaults = parse(kind.toml)[0].get("defaults", {})
    own = options_of(kind.settings, defaults, again=AGAIN, leave_out=("units", "title"))
    return with_options(run, [*own, *_shared(kind)], kind.summary)


def _memory(words: object) -> int | None:
    if words is None:
        return None
    from ..meters.memory import parse_bytes

    return parse_bytes(str(words))


def _shared(kind: StudyKind) -> list[Parameter]:
    """What every run takes; memory where it decides how much runs at once."""
    options: dict[str, object] = {
        "quick": (bool, typer.Option("--quick", help="Fewer prompts, points and draws.")),
        "out": (Path | None, typer.Option(help="Output folder.", show_default=f"headcount-results/{kind.name}")),
        "memory": (str | None, typer.Option(help="What may be used beyond the model, such as 8GB.")),
        "plan": (bool, typer.Option("--plan", help="Say what would be run, what is cached, and what it takes.")),
        "no_cache": (bool, typer.Option("--no-cache", help="Compute every step anew, and keep none.")),
        "study": (str | None, typer.Option(hidden=True)),
    }
    if not kind.settings.TAKES_MEMORY:
        del options["memory"]
    made = []
    for name, (hint, option) in cast(dict[str, tuple[type, object]], options).items():
        default = False if hint is bool else None
        made.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, option]))
    return made
