"""Commands that end in saved numbers: score the units of a model, and sweep over saved scores."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from ..core.errors import require_known
from ..core.files import writable_folder, write_file
from ..core.progress import hush, warn
from ..core.provenance import Facts, part_of
from ..core.saving import csv_text
from ..core.words import MODES, SplitBy
from ..rank.fit import QUICK
from ..tasks import task as make_task
from ..view.tables import say
from .app import (
    AllowCode,
    BaseOption,
    CountOption,
    DeviceOption,
    DtypeOption,
    JsonOption,
    ModelArgument,
    QuietOption,
    RevisionOption,
    SplitOption,
    app,
    load_model,
    print_json,
    trust,
    wake,
)

if TYPE_CHECKING:
    from ..sweeps.orders import Scores

ORDER_HELP = "absolute: largest effect first. signed: most helpful first. best: the better mix of both."


@app.command()
def score(
    model: ModelArgument,
    task: Annotated[str, typer.Argument(help="A task, or a file of your own.")],
    out: Annotated[Path, typer.Option(help="Folder for the scores.")],
    method: Annotated[str, typer.Option(help="Scoring method; see 'headcount methods'.")] = "attribution",
    fill: Annotated[str | None, typer.Option(help="What a removed unit carries; the task decides by default.")] = None,
    n: CountOption = 200,
    seed: Annotated[int, typer.Option(help="Seed of the task and of fits.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds and updates, for gating.")] = False,
    split: SplitOption = "words",
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    revision: RevisionOption = None,
    base_model: BaseOption = None,
    code: AllowCode = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Score every head or edge on a task, and save the scores. They can be compared and swept later."""
    hush(quiet)
    trust(code)
    writable_folder(out)
    loaded, fit = load_model(model, device, dtype, revision, base_model), QUICK if quick else None
    from ..rank.score import score as make_scores

    asked = make_task(task, loaded, n=n, seed=seed, split=cast(SplitBy, split))
    made = make_scores(loaded, asked, method, fill=fill, seed=seed, fit=fit)
    made.save(out)
    first = made.top(5)
    if as_json:
        print_json({"method": method, "task": asked.name, "model": loaded.name, "top": first, "folder": str(out)})
    elif not quiet:
        told = f"First by size: {', '.join(first)}." if made.values.any() else "All of them are 0, and rank nothing."
        say(f"Scores of {method} on {task} are in {out}. {told}")
        say(f"Next: headcount sweep {out} --model {model} --task {task}")


@app.command()
def sweep(
    scores: Annotated[Path, typer.Argument(help="A folder that 'headcount score' wrote, or one of a study's scores.")],
    model: Annotated[str | None, typer.Option(help="The model; by default the one that the scores name.")] = None,
    task: Annotated[str | None, typer.Option(help="The task; by default the one that the scores name.")] = None,
    order: Annotated[str, typer.Option(help=ORDER_HELP)] = "absolute",
    mode: Annotated[str, typer.Option(help="Keep the first k units, or mask them: keep or mask.")] = "keep",
    fill: Annotated[str | None, typer.Option(help="What a removed unit carries; the task decides by default.")] = None,
    threshold: Annotated[float, typer.Option(help="Explained effect that counts as enough.")] = 0.9,
    points: Annotated[int, typer.Option(help="Points of the curve, at least.")] = 24,
    n: Annotated[int | None, typer.Option("-n", "--n", help="Examples; by default as many as were scored.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the task; by default that of the scores.")] = None,
    split: SplitOption = "words",
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("headcount-results/sweep"),
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    revision: RevisionOption = None,
    base_model: BaseOption = None,
    code: AllowCode = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Keep or mask units by saved scores, and draw the curve. What is left is measured on test prompts."""
    hush(quiet)
    trust(code)
    require_known(mode, MODES, "mode")
    writable_folder(out)
    wake("sweeps", "studies.plot")
    from ..rank.scores import warn_of_prompts
    from ..studies.kept.words import answer
    from ..studies.plot import plot
    from ..sweeps import Repeats
    from ..sweeps import sweep as measure
    from ..sweeps.guessing import doubts
    from ..view.style import save_figure

    ranked = _scores(scores)
    facts = part_of(ranked.provenance, "task")
    counted = sum(_count(facts, name, 100) for name in ("train_pairs", "test_pairs"))
    loaded = load_model(model or ranked.model, device, dtype, revision, base_model)
    drawn = _count(part_of(ranked.provenance, "arguments"), "seed", 0) if seed is None else seed
    asked = make_task(task or ranked.task, loaded, n=n or counted, seed=drawn, split=cast(SplitBy, split))
    warn_of_prompts(ranked, asked)
    keep, mask = (order, None) if mode == "keep" else (None, order)
    curve = measure(
        loaded, asked, ranked, keep=keep, mask=mask, fill=fill, threshold=threshold, points=points, seed=drawn
    )
    curve.save(out / "curve")
    write_file(out / "curve.csv", csv_text(curve.rows()))
    save_figure(plot(curve, threshold=threshold), out)
    needed = curve.units_needed(threshold)
    if as_json:
        ends = {"needed": needed.value, "low": needed.low, "high": needed.high, "threshold": threshold}
        which = list(curve.ranking[: needed.value or 0])
        print_json({**ends, "which": which, "warnings": doubts(curve), "folder": str(out)})
        return
    if not quiet:
        say(answer(curve.title, Repeats((curve,)), needed, None))
    for words in doubts(curve):
        warn(words)
    if not quiet:
        say(f"Figure: {out / 'figure.png'}. Numbers: {out / 'curve.csv'}")


def _count(facts: Facts, name: str, default: int) -> int:
    """Of a provenance that somebody may have changed."""
    found = facts.get(name)
    return found if isinstance(found, int) else default


def _scores(folder: Path) -> "Scores":
    """Of heads or of edges, also where they were saved as roles or gates."""
    from ..rank.comparison import load_scores
    from ..rank.scores import EdgeScores

    edges = (folder / f"{EdgeScores.FILE}.json").exists()
    return EdgeScores.load(folder) if edges else load_scores(folder)
