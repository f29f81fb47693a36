"""Commands about models and their heads: compare, check, forecast, fetch, make sparse."""

from dataclasses import replace
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, cast

import typer

from ..core.errors import HeadcountError
from ..core.files import writable_folder
from ..core.progress import hush, progress_bar
from ..core.words import PlainOrder, Readers
from ..sparse.recipe import Recipe
from ..view.tables import print_comparison, print_evaluation, print_table
from .app import (
    BaseOption,
    DeviceOption,
    DtypeOption,
    JsonOption,
    ModelArgument,
    QuietOption,
    RevisionOption,
    StoppedError,
    app,
    load_model,
    print_json,
    wake,
)
from .options import given, options_of, own_options, with_options

if TYPE_CHECKING:
    from ..models import Model

READERS_HELP = "Who reads keys and values: kv-heads or query-heads; or components, a head being one reader."
TEXT_HELP = "Files (.txt, .jsonl), a folder, or a dataset's name; may be repeated."
TRIED_HELP = "Task to try the result on, beside the dense model: accuracy, open keys, empty rows; may be repeated."


@app.command()
def compare(
    folders: Annotated[list[Path], typer.Argument(help="Folders of saved head scores or roles, two or more.")],
    k: Annotated[list[int] | None, typer.Option("-k", "--top", help="Top heads to compare; may be repeated.")] = None,
    by: Annotated[str, typer.Option(help="absolute: which heads matter. signed: which heads help.")] = "absolute",
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("headcount-results/compare"),
    as_json: JsonOption = False,
) -> None:
    """Compare saved scores of the same heads. Reports rank correlation, shared top heads, agreement between seeds."""
    wake("rank.comparison", "view.agreement")
    from ..rank.comparison import compare_scores, load_scores
    from ..view.agreement import draw_agreement
    from ..view.style import save_figure

    writable_folder(out)
    scores = [load_scores(folder) for folder in folders]
    found = compare_scores(scores, ks=k or (), by=cast(PlainOrder, by))
    if len(set(found.names)) < len(scores):  # what sets them apart is known to the user alone
        found = replace(found, names=tuple(folder.name for folder in folders))
    found.save(out)
    save_figure(draw_agreement(found), out)
    if as_json:
        return print_json(found.rows())
    print_comparison(found)
    print(f"Figure: {out / 'figure.png'}")


@app.command()
def check(
    model: ModelArgument,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    revision: RevisionOption = None,
    base_model: BaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run the self-test on a model, one verdict per line."""
    loaded = load_model(model, device, dtype, revision, base_model)
    from ..meters.selfcheck import check as check_model

    if as_json:
        verdicts = [{"check": each.name, "passed": each.passed, "detail": each.detail} for each in check_model(loaded)]
        print_json(verdicts)
        raise typer.Exit(0 if all(each["passed"] for each in verdicts) else 1)
    print(f"{loaded.name}: {type(loaded.hf).__name__}, {loaded.n_layers} layers of {loaded.n_heads} heads")
    passed = []
    for verdict in check_model(loaded):
        lines = wrap(f"{verdict.name} ({verdict.detail})", max(get_terminal_size().columns - 8, 40))
        print(f"{'ok    ' if verdict.passed else 'FAILED'}  " + "\n        ".join(lines), flush=True)
        passed.append(verdict.passed)
    if all(passed) and loaded.tokenizer is not None and (warning := _start(loaded)):
        print("\n    ".join(wrap(f"Warning: {warning}", max(get_terminal_size().columns - 4, 40))))
    if failed := passed.count(False):
        print(f"{failed} of {len(passed)} checks failed.")
        raise typer.Exit(1)
    print("All checks passed.")


def _start(model: "Model") -> str:
    """Whether a plain text is read far better behind the beginning-of-text token that the tokenizer leaves out."""
    from ..meters.selfcheck import PLAIN_TEXT
    from ..tasks.checking import start_warning
    from ..tasks.examples import Completion

    ids = model.encode(PLAIN_TEXT)[: model.context and model.context - 2]
    return start_warning(model, [Completion(tuple(ids[:-1]), tuple(ids[-1:]))])


@app.command()
def forecast(
    model: Annotated[str, typer.Argument(help="A folder with config.json, a hub id, or a known shape (olmo-7b).")],
    length: Annotated[int, typer.Option(help="Tokens of a prompt.")] = 20,
    memory: Annotated[str | None, typer.Option(help="Memory to use beyond the model, for example 8GB.")] = None,
    readers: Annotated[str, typer.Option(help=READERS_HELP)] = "kv-heads",
    dtype: Annotated[
        str, typer.Option(help="Precision of the weights: float64, float32, bfloat16 or float16.")
    ] = "float32",
    as_json: JsonOption = False,
) -> None:
    """Print how many edges a model has, and the memory they need. Only its config is read."""
    wake("meters.forecast")
    from ..meters.forecast import forecast as make_forecast
    from ..meters.memory import parse_bytes, show_bytes

    allowed = None if memory is None else parse_bytes(memory)
    asked = cast(Readers, readers)  # what it may be is checked there
    found = make_forecast(model, length=length, memory=allowed, readers=asked, dtype=dtype)
    graph = found.sizes.graph
    limit = "by default" if allowed is None else f"in {show_bytes(allowed)}"
    if as_json:
        jobs = [dict(zip(("job", "one prompt", "at once"), row, strict=True)) for row in found.rows()]
        return print_json(
            {"model": model, "heads": graph.n_heads, "layers": graph.n_layers}
            | {"edges": graph.n_edges, "weights": found.weights, "jobs": jobs}
        )
    print(f"{model}: {graph.n_layers} layers of {graph.n_heads} heads, {graph.n_edges:,} edges")
    read_by = "a head being one" if graph.whole else f"keys and values read by {readers}"
    print(f"({len(graph.writers):,} writers, {len(graph.readers):,} readers, {read_by});")
    print(f"weights in {dtype}: {show_bytes(found.weights)}. Beyond them, with prompts of {length} tokens:")
    print_table(("job", "one prompt", f"what runs at once {limit}"), found.rows())


@app.command()
def pull(
    model: Annotated[str, typer.Argument(help="A named model, such as smollm2.")], quiet: QuietOption = False
) -> None:
    """Fetch a named model into the cache folder. One that is there is verified, and fetched again if it is damaged."""
    hush(quiet)
    wake()
    from ..models import NAMED, bundled, smollm2

    if model not in NAMED:
        raise HeadcountError(f"There is no named model {model!r} to pull. Known: {', '.join(NAMED)}.")
    if model in bundled.NAMES and not model.startswith("smollm2"):
        print(f"{model} came with headcount; there is nothing to fetch.")
        return
    with progress_bar(len(smollm2.STEPS)) as bar:

        def step(words: str) -> None:
            bar.describe(f"smollm2: {words}")
            bar.advance(smollm2.STEPS.index(words) > 0)

        folder = smollm2.folder(step, verify=True)
    also = "" if model == "smollm2" else f", on which {model} is built"
    if not quiet:
        print(f"smollm2{also} is in {folder}, verified.")


def sparsify(
    model: ModelArgument,
    text: Annotated[list[str], typer.Option(help=TEXT_HELP)],
    out: Annotated[Path, typer.Option(help="Folder for the sparse model; an interrupted run resumes there.")],
    task: Annotated[list[str] | None, typer.Option(help=TRIED_HELP)] = None,
    start_from: Annotated[Path | None, typer.Option(help="Begin with the adapter and gates of this folder.")] = None,
    merge: Annotated[bool, typer.Option("--merge", help="Write whole weights, not an adapter.")] = False,
    device: DeviceOption = None,
    revision: RevisionOption = None,
    base_model: BaseOption = None,
    long: Annotated[bool, typer.Option("--long", help="Allow a run that takes more than a week.")] = False,
    **values: object,
) -> None:
    """Post-train a model until each query attends to few keys. One or two are left, at the dense model's loss."""
    recipe = Recipe(**given(Recipe, values))  # type: ignore[arg-type]
    wake("sparse.run")
    from ..sparse.run import sparsify as make_sparse

    try:
        found = make_sparse(
            model,
            text,
            out,
            recipe,
            tasks=task or (),
            start_from=start_from,
            merge=merge,
            device=device,
            base=base_model,
            revision=revision,
            long=long,
        )
    except KeyboardInterrupt:
        raise StoppedError("Run the same command to resume from the last checkpoint.") from None
    print_evaluation(found, out)


app.command()(with_options(sparsify, [*own_options(sparsify), *options_of(Recipe, {}, {})]))
