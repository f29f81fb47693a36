"""The command line: parse, call, print. Nothing here imports torch until a command needs it."""

import sys
from dataclasses import replace
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, cast

import typer

from .errors import HeadcountError

if TYPE_CHECKING:
    from .graph import Readers
    from .models import Model
    from .scores.result import Order

app = typer.Typer(
    help="How many attention heads does a behaviour need, and which ones?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
comet_app = typer.Typer(help="COMET, which compares answers, in an environment of its own.", no_args_is_help=True)
app.add_typer(comet_app, name="comet")
tasks_app = typer.Typer(help="List tasks and look at their examples.", no_args_is_help=True)
app.add_typer(tasks_app, name="tasks")

ModelArgument = Annotated[str, typer.Argument(help="A named model (smollm2), a local folder, or a hub id.")]


@app.command()
def run(
    study: Annotated[
        str,
        typer.Argument(help="A bundled study (heads-kept, edges-kept, head-roles, masked-heads) or a TOML file."),
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
    from .memory import parse_bytes
    from .studies import run as run_study

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
    from .tables import PRINTERS

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
    from .cache import writable_folder
    from .scores import score as make_scores
    from .tasks import task as make_task

    writable_folder(out)
    loaded = _load(model)
    fit = None
    if quick:
        from .scores.gate_fit import QUICK

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
    from .cache import writable_folder
    from .comparison import compare_scores, load_scores
    from .figures import draw_agreement, save_figure
    from .tables import print_comparison

    writable_folder(out)
    scores = [load_scores(folder) for folder in folders]
    found = compare_scores(scores, ks=k or (), by=cast("Order", by))
    if len(set(found.names)) < len(scores):  # what sets them apart is known to the user alone
        found = replace(found, names=tuple(folder.name for folder in folders))
    found.save(out)
    save_figure(draw_agreement(found), out)
    print_comparison(found)
    print(f"Figure: {out / 'figure.png'}")


@app.command()
def check(model: ModelArgument) -> None:
    """Run the self-test on a model: one verdict a line."""
    from .selfcheck import check as check_model

    loaded = _load(model)
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
    from .memory import forecast as make_forecast
    from .memory import parse_bytes, show_bytes
    from .tables import print_table

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
def pull(model: Annotated[str, typer.Argument(help="A named model (smollm2).")]) -> None:
    """Fetch a named model into the cache folder."""
    from .models import NAMED, smollm2
    from .progress import progress_bar

    if model not in NAMED:
        raise HeadcountError(f"There is no named model {model!r} to pull. Known: {', '.join(NAMED)}.")
    with progress_bar(len(smollm2.STEPS)) as bar:

        def step(words: str) -> None:
            bar.describe(f"{model}: {words}")
            bar.advance(smollm2.STEPS.index(words) > 0)

        folder = smollm2.folder(step)
    print(f"{model} is in {folder}")


@app.command()
def methods() -> None:
    """List the scoring methods with their cost in forward passes."""
    from .scores import METHODS
    from .tables import print_table

    print_table(
        ("method", "units", "what it is", "forwards"),
        [(method.name, method.units, method.summary, method.cost) for method in METHODS.values()],
    )
    print("L layers of H heads, S steps, E edges; a backward pass counts as one forward.")


@tasks_app.command("list")
def list_tasks() -> None:
    """List the built-in tasks."""
    from .tables import print_table
    from .tasks import known_tasks

    print_table(("task", "kind", "what it asks"), [(name, *facts) for name, facts in known_tasks().items()])


@tasks_app.command("show")
def show_task(
    task: Annotated[str, typer.Argument(help="A task, or a JSONL file.")],
    model: Annotated[
        str, typer.Option(help="Whose tokenizer makes the prompts, and whose answers are shown.")
    ] = "smollm2",
    n: Annotated[int, typer.Option("-n", help="How many examples.")] = 3,
    seed: Annotated[int, typer.Option(help="Of the examples.")] = 0,
) -> None:
    """Print examples of a task with the model's own answer probabilities."""
    from .tasks import task as make_task
    from .tasks.show import describe_examples

    if n < 1:
        raise HeadcountError(f"-n must be at least 1; this is {n}.")
    loaded = _load(model)
    made = make_task(task, loaded, n=max(2 * n, 2), seed=seed)
    for block in describe_examples(loaded, made.test[:n]):
        print(block, end="\n\n")


@comet_app.command("setup")
def comet_setup(
    python: Annotated[
        str | None, typer.Option(help="The Python to make it with: 3.10, 3.11 or 3.12. By default headcount's own.")
    ] = None,
) -> None:
    """Install COMET beside headcount, in the cache folder: some minutes, 1.4 GB; with CUDA several GB more."""
    from .comet import DEFAULT_MODEL, setup_comet
    from .progress import waiting

    with waiting("setting up COMET"):
        command = setup_comet(python)
    print(f"COMET is ready: {command}")
    print(f"Its model {DEFAULT_MODEL} (2.3 GB) is downloaded from the hub when it is first used.")


@app.command("questions")
def show_questions(
    function: Annotated[str | None, typer.Argument(help="A function, such as retrieval; all by default.")] = None,
    questions: Annotated[str, typer.Option(help="A JSON file in the layout of CogQA.")] = "built-in",
    n: Annotated[int, typer.Option("-n", help="How many of each.")] = 3,
    seed: Annotated[int, typer.Option(help="Of the questions.")] = 0,
) -> None:
    """Print questions that are labelled with the function they ask for, and their right answers."""
    from .tasks.questions import questions as read_questions

    found = read_questions(questions, seed=seed)
    for name in found.functions if function is None else [found.require(function)]:
        own = [question for question in found.questions if question.function == name]
        print(f"{name}: {len(own)} questions")
        for question in own[: max(n, 0)]:
            others = f"  (or {', '.join(question.accepted)})" if question.accepted else ""
            print(f"    {question.text}\n        -> {question.answer}{others}")


def main() -> None:
    """The entry point: bad input is one sentence on stderr and exit code 2, never a traceback."""
    _calm_libraries()
    try:
        app()
    except HeadcountError as error:
        print(f"headcount: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)


def _calm_libraries() -> None:
    """Loading bars and advice of other libraries would drown what we have to say."""
    import os

    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_VERBOSITY", "critical")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def _load(name: str) -> "Model":
    from .progress import waiting

    with waiting(f"loading {name}"):
        from .models import load

        return load(name)
