"""Commands that measure: studies, scores, comparisons."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from .app import ModelArgument, app, load_model

if TYPE_CHECKING:
    from ..scores.result import Order


@app.command()
def run(
    study: Annotated[
        str,
        typer.Argument(help="heads-kept, edges-kept, attention-edges-kept, head-roles, masked-heads, or a TOML file."),
    ],
    model: Annotated[list[str] | None, typer.Option(help="Model to run on; may be given again.")] = None,
    task: Annotated[
        list[str] | None, typer.Option(help="Task, JSONL file, or function of masked-heads; may be given again.")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="See 'headcount methods'; of masked-heads: probe, probe-by-head or copy.")
    ] = None,
    fill: Annotated[str | None, typer.Option(help="What removed heads carry: zero, mean, counterfactual, …")] = None,
    seeds: Annotated[int | None, typer.Option(help="Fits of head-roles, or of the probe of masked-heads.")] = None,
    base: Annotated[str | None, typer.Option(help="Gates in which head-roles ablates: plus or ones.")] = None,
    questions: Annotated[str | None, typer.Option(help="Of masked-heads: a JSON file in the layout of CogQA.")] = None,
    comet: Annotated[
        str | None, typer.Option(help="The command comet-score, where it is not found by itself; or no.")
    ] = None,
    comet_model: Annotated[str | None, typer.Option(help="COMET model: a hub id or a checkpoint.")] = None,
    n: Annotated[int | None, typer.Option("-n", help="Examples a task or function, in all splits.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of tasks and random orders.")] = None,
    threshold: Annotated[float | None, typer.Option(help="Explained effect that counts as enough.")] = None,
    memory: Annotated[str | None, typer.Option(help="What edges may use beyond the model, such as 8GB.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer prompts, points and draws.")] = False,
    out: Annotated[Path | None, typer.Option(help="Output folder.")] = None,
) -> None:
    """Run a study and draw its figure."""
    from ..memory import parse_bytes
    from ..studies import run as run_study

    asked = {
        "method": method, "fill": fill, "seeds": seeds, "base": base, "n": n, "seed": seed, "threshold": threshold,
        "questions": questions, "comet": comet, "comet_model": comet_model,
    }  # fmt: skip
    overrides = {key: value for key, value in asked.items() if value is not None}
    try:
        result = run_study(
            study, models=model or (), tasks=task or (), quick=quick, out=out, overrides=overrides,
            memory=None if memory is None else parse_bytes(memory),
        )  # fmt: skip
    except KeyboardInterrupt:
        print("headcount: stopped. Finished jobs are kept; the same command goes on from here.", file=sys.stderr)
        raise typer.Exit(130) from None
    from ..tables import PRINTERS

    PRINTERS[result.study.kind](result)


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
    from ..cache import writable_folder
    from ..scores import score as make_scores
    from ..tasks import task as make_task

    writable_folder(out)
    loaded = load_model(model)
    fit = None
    if quick:
        from ..scores.gate_fit import QUICK

        fit = QUICK
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
    from ..cache import writable_folder
    from ..comparison import compare_scores, load_scores
    from ..figures import draw_agreement, save_figure
    from ..tables import print_comparison

    writable_folder(out)
    scores = [load_scores(folder) for folder in folders]
    found = compare_scores(scores, ks=k or (), by=cast("Order", by))
    if len(set(found.names)) < len(scores):  # what sets them apart is known to the user alone
        found = replace(found, names=tuple(folder.name for folder in folders))
    found.save(out)
    save_figure(draw_agreement(found), out)
    print_comparison(found)
    print(f"Figure: {out / 'figure.png'}")
