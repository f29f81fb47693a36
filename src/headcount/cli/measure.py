"""Commands about scores: make them, compare them."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from .app import ModelArgument, app, load_model

if TYPE_CHECKING:
    from ..core.words import ScoreOrder


@app.command()
def score(
    model: ModelArgument,
    task: Annotated[str, typer.Argument(help="A task, or a JSONL file.")],
    out: Annotated[Path, typer.Option(help="Folder for the scores.")],
    method: Annotated[str, typer.Option(help="Scoring method; see 'headcount methods'.")] = "attribution",
    fill: Annotated[str | None, typer.Option(help="What a removed head carries.")] = None,
    n: Annotated[int, typer.Option("-n", help="Examples, half of which are scored on.")] = 200,
    seed: Annotated[int, typer.Option(help="Of the task and of fits.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds and updates, for gating.")] = False,
) -> None:
    """Score every head on a task and save the scores, to be compared or swept later."""
    from ..core.files import writable_folder
    from ..rank.fit import QUICK
    from ..rank.score import score as make_scores
    from ..tasks import task as make_task

    writable_folder(out)
    loaded, fit = load_model(model), QUICK if quick else None
    made = make_scores(loaded, make_task(task, loaded, n=n, seed=seed), method, fill=fill, seed=seed, fit=fit)
    made.save(out)
    print(f"Scores of {method} on {task} are in {out}. First by size: {', '.join(made.top(5))}.")


@app.command()
def compare(
    folders: Annotated[list[Path], typer.Argument(help="Folders of saved head scores or roles, two or more.")],
    k: Annotated[list[int] | None, typer.Option("-k", help="Top heads to compare; may be given again.")] = None,
    by: Annotated[str, typer.Option(help="absolute: which heads matter. signed: which heads help.")] = "absolute",
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("headcount-results/compare"),
) -> None:
    """Compare saved scores of the same heads: rank correlation, shared top heads, agreement between seeds."""
    from ..core.files import writable_folder
    from ..rank.comparison import compare_scores, load_scores
    from ..view.agreement import draw_agreement
    from ..view.style import save_figure
    from ..view.tables import print_comparison

    writable_folder(out)
    scores = [load_scores(folder) for folder in folders]
    found = compare_scores(scores, ks=k or (), by=cast("ScoreOrder", by))
    if len(set(found.names)) < len(scores):  # what sets them apart is known to the user alone
        found = replace(found, names=tuple(folder.name for folder in folders))
    found.save(out)
    save_figure(draw_agreement(found), out)
    print_comparison(found)
    print(f"Figure: {out / 'figure.png'}")
