"""`headcount eval`: benchmarks of lm-evaluation-harness with and without heads."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ..core.errors import HeadcountError
from ..core.export_options import CutChoice
from ..core.files import write_file
from ..core.progress import waiting
from ..core.saving import Row
from ..view.tables import print_table
from .app import AllowCode, ModelArgument, app, load_model, trust, wake
from .options import given, options_of, own_options, with_options

TASKS_HELP = "Tasks of the harness or files of your own (task.yaml), comma-separated."


def evaluate(
    model: ModelArgument,
    tasks: Annotated[str, typer.Option(help=TASKS_HELP)],
    without: Annotated[Path | None, typer.Option(help="A folder of scores, roles or a study.")] = None,
    limit: Annotated[int | None, typer.Option(help="At most this many records of each task.")] = None,
    draws: Annotated[int, typer.Option(help="Random cuts of the same size.")] = 3,
    batch: Annotated[int, typer.Option(help="Records at once.")] = 8,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the table.")] = None,
    code: AllowCode = False,
    **values: object,
) -> None:
    """Run lm-evaluation-harness on a model without heads. The whole model and random cuts of the same size stand beside
    it."""
    trust(code)
    for name, number in (("--limit", limit), ("--draws", draws), ("--batch", batch)):
        if number is not None and not 1 <= number <= 10_000:
            raise HeadcountError(f"{name} must lie between 1 and 10,000; got {number}.")
    choice = CutChoice(**given(CutChoice, values))  # type: ignore[arg-type]
    wake("export.cuts", "export.lm_eval")
    from ..export.cuts import cut_of, scores_in
    from ..export.lm_eval import evaluate as run
    from ..tasks.lm_eval import require_harness

    with waiting("starting the harness"):
        require_harness("headcount eval")
    scores = None if without is None or choice.heads is not None else scores_in(without)
    loaded = load_model(model, choice.device, choice.dtype, choice.revision, choice.base_model)
    cut = cut_of(scores, choice, loaded)
    names = [name.strip() for name in tasks.split(",") if name.strip()]
    with waiting("lm-evaluation-harness: tasks"):
        rows = run(cut, names, limit=limit, draws=draws, batch_size=batch, seed=choice.seed)
    if out is not None:
        write_file(out, json.dumps({"cut": cut.words, "rows": rows}, indent=1) + "\n")
    print(f"{cut.words}.")
    header = ("task", "metric", "whole", f"without {len(cut.heads)}", f"random {len(cut.heads)}", "lowest to highest")
    print_table(header, [_shown(row) for row in rows])


def _shown(row: Row) -> tuple[str, ...]:
    values = [f"{row[name]:.3f}" for name in ("whole", "without", "random")]
    return str(row["task"]), str(row["metric"]), *values, f"{row['random_low']:.3f} to {row['random_high']:.3f}"


options = [option for option in options_of(CutChoice, {}, {}) if option.name != "model"]
app.command("eval")(with_options(evaluate, [*own_options(evaluate), *options]))
