"""Commands about models: fetch, check, forecast, make sparse."""

import sys
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, cast

import typer

from ..errors import HeadcountError
from ..recipe import Recipe
from .app import ModelArgument, app, load_model

if TYPE_CHECKING:
    from ..graph import Readers
    from ..recipe import Form, Gradient, Regulariser


@app.command()
def check(model: ModelArgument) -> None:
    """Run the self-test on a model: one verdict a line."""
    from ..selfcheck import check as check_model

    loaded = load_model(model)
    print(f"{loaded.name}: {type(loaded.hf).__name__}, {loaded.n_layers} layers of {loaded.n_heads} heads")
    passed = []
    for verdict in check_model(loaded):
        lines = wrap(f"{verdict.name} ({verdict.detail})", max(get_terminal_size().columns - 8, 40))
        print(f"{'ok    ' if verdict.passed else 'FAILED'}  " + "\n        ".join(lines), flush=True)
        passed.append(verdict.passed)
    failed = passed.count(False)
    print("All checks passed." if not failed else f"{failed} of {len(passed)} checks failed.")
    if failed:
        raise typer.Exit(1)


@app.command()
def forecast(
    model: Annotated[str, typer.Argument(help="A folder with config.json, a hub id, or a known shape (olmo-7b).")],
    length: Annotated[int, typer.Option(help="Tokens of a prompt.")] = 20,
    memory: Annotated[str | None, typer.Option(help="What may be used beyond the model, such as 8GB.")] = None,
    readers: Annotated[str, typer.Option(help="Who reads keys and values: kv-heads or query-heads.")] = "kv-heads",
    dtype: Annotated[str, typer.Option(help="Type of the weights.")] = "float32",
) -> None:
    """Say how many edges a model has and what they need, from its config alone."""
    from ..memory import forecast as make_forecast
    from ..memory import parse_bytes, show_bytes
    from ..tables import print_table

    allowed = None if memory is None else parse_bytes(memory)
    asked = cast("Readers", readers)  # what it may be is checked there
    found = make_forecast(model, length=length, memory=allowed, readers=asked, dtype=dtype)
    graph = found.sizes.graph
    print(f"{model}: {graph.n_layers} layers of {graph.n_heads} heads, {graph.n_edges:,} edges")
    print(f"({len(graph.writers):,} writers, {len(graph.readers):,} readers, keys and values read by {readers});")
    print(f"weights in {dtype}: {show_bytes(found.weights)}. Beyond them, with prompts of {length} tokens:")
    limit = "by default" if allowed is None else f"in {show_bytes(allowed)}"
    print_table(("job", "one prompt", f"what runs at once {limit}"), found.rows())


@app.command()
def pull(model: Annotated[str, typer.Argument(help="A named model, such as smollm2.")]) -> None:
    """Fetch a named model into the cache folder."""
    from ..models import NAMED, bundled, smollm2
    from ..progress import progress_bar

    if model not in NAMED:
        raise HeadcountError(f"There is no named model {model!r} to pull. Known: {', '.join(NAMED)}.")
    if model in bundled.NAMES and not model.startswith("smollm2"):
        print(f"{model} came with headcount; there is nothing to fetch.")
        return
    with progress_bar(len(smollm2.STEPS)) as bar:

        def step(words: str) -> None:
            bar.describe(f"smollm2: {words}")
            bar.advance(smollm2.STEPS.index(words) > 0)

        folder = smollm2.folder(step)
    also = "" if model == "smollm2" else f", on which {model} is built"
    print(f"smollm2{also} is in {folder}")


@app.command()
def sparsify(
    model: ModelArgument,
    text: Annotated[
        list[str], typer.Option(help="Files (.txt, .jsonl), a folder, or a dataset's name; may be given again.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the sparse model; a killed run goes on from there.")],
    lora: Annotated[int | None, typer.Option(help="Train adapters of this rank; all weights by default.")] = None,
    steps: Annotated[int, typer.Option(help="Optimiser steps.")] = Recipe.steps,
    length: Annotated[int, typer.Option(help="Tokens a sequence.")] = Recipe.length,
    batch: Annotated[int, typer.Option(help="Sequences a step.")] = Recipe.batch,
    lr: Annotated[
        float | None, typer.Option(help="Learning rate; by default 1e-3 of adapters, 5e-5 of all weights.")
    ] = Recipe.lr,
    gate_lr: Annotated[float, typer.Option(help="Learning rate of the heads' thresholds.")] = Recipe.gate_lr,
    tolerance: Annotated[float, typer.Option(help="What may be lost, in nats a token.")] = Recipe.tolerance,
    kl: Annotated[float, typer.Option(help="Share of KL to the dense model in what is lost.")] = Recipe.kl,
    tail: Annotated[
        float, typer.Option(help="Also bound what the worst share of the tokens lose, such as 0.02.")
    ] = Recipe.tail,
    tail_tolerance: Annotated[float, typer.Option(help="What they may lose.")] = Recipe.tail_tolerance,
    form: Annotated[str, typer.Option(help="Of the gates: log-prob or logit.")] = Recipe.form,
    sharpness: Annotated[float, typer.Option(help="Of the gates; the paper has 1.")] = Recipe.sharpness,
    start: Annotated[float | None, typer.Option(help="Where the heads' offsets begin.")] = Recipe.start,
    gradient: Annotated[str, typer.Option(help="Through the gates: expected or relaxed.")] = Recipe.gradient,
    regulariser: Annotated[
        str, typer.Option(help="Share of open edges: linear, log, or log-heads, which shuts whole heads.")
    ] = Recipe.regulariser,
    distance_power: Annotated[
        float | None, typer.Option(help="Count an edge by this power of its length.")
    ] = Recipe.distance_power,
    cooldown: Annotated[float, typer.Option(help="Share of the steps in which rates go to zero.")] = Recipe.cooldown,
    control: Annotated[bool, typer.Option("--control", help="The same training with no gates.")] = False,
    start_from: Annotated[Path | None, typer.Option(help="Begin with the adapter and gates of this folder.")] = None,
    merge: Annotated[bool, typer.Option("--merge", help="Write whole weights, not an adapter.")] = False,
    held_out: Annotated[float, typer.Option(help="Share of every source that is held out.")] = Recipe.held_out,
    checkpoint_every: Annotated[int, typer.Option(help="Steps between checkpoints.")] = Recipe.checkpoint_every,
    evaluate_sequences: Annotated[
        int, typer.Option(help="Held-out sequences to evaluate on, at most.")
    ] = Recipe.evaluate_sequences,
    seed: Annotated[int, typer.Option(help="Of adapters, batches and gates.")] = Recipe.seed,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, …; the best one by default.")] = None,
) -> None:
    """Post-train a model so that it attends to a key or two a query, at the dense model's loss."""
    from ..sparse import sparsify as make_sparse
    from ..tables import print_evaluation

    recipe = Recipe(
        steps=steps, length=length, batch=batch, lora=lora, lr=lr, gate_lr=gate_lr, tolerance=tolerance, kl=kl,
        tail=tail, tail_tolerance=tail_tolerance, form=cast("Form", form), sharpness=sharpness, start=start,
        gradient=cast("Gradient", gradient), regulariser=cast("Regulariser", regulariser), cooldown=cooldown,
        distance_power=distance_power, control=control, held_out=held_out, checkpoint_every=checkpoint_every,
        evaluate_sequences=evaluate_sequences, seed=seed,
    )  # fmt: skip
    try:
        found = make_sparse(model, text, out, recipe, start_from=start_from, merge=merge, device=device)
    except KeyboardInterrupt:
        print("headcount: stopped. The same command goes on from the last checkpoint.", file=sys.stderr)
        raise typer.Exit(130) from None
    print_evaluation(found, out)
