"""Commands that show what there is: methods, tasks, questions; and the setup of COMET."""

from typing import Annotated, cast

import typer

from ..core.errors import HeadcountError, require_known
from ..core.progress import waiting
from ..core.words import SplitBy
from ..rank import METHODS
from ..sparse.recipe import Recipe
from ..studies import STUDIES
from ..studies.study import study_schema
from ..tasks import known_tasks
from ..tasks import task as make_task
from ..view.tables import say, say_hanging
from .app import (
    AllowCode,
    BaseOption,
    DeviceOption,
    DtypeOption,
    JsonOption,
    RevisionOption,
    SplitOption,
    app,
    comet_app,
    load_model,
    print_json,
    print_rows,
    tasks_app,
    trust,
    wake,
)

MODEL_HELP = "Model whose tokenizer makes the prompts and whose answers are shown."
PYTHON_HELP = "Python interpreter to use: 3.10, 3.11 or 3.12; by default headcount's own."


SYMBOLS = (
    "Cost is in forward passes per prompt; a backward pass counts as one. L: layers. H: heads per layer. S: steps of"
    " the integrated gradient (--steps). E: edges. U: passes of a fit (--updates).",
    "mean:A,B is a method too: the mean of the ranks of two or more methods of the same units.",
    "Formulas and papers: docs/methods/README.md",
)


@app.command()
def methods(as_json: JsonOption = False) -> None:
    """List the scoring methods with their cost in forward passes."""
    rows = [(name, method.units, method.summary, method.cost) for name, method in METHODS.sound().items()]
    print_rows(("method", "units", "what it is", "cost"), rows, as_json)
    for words in () if as_json else SYMBOLS:
        say(words)


@tasks_app.callback(invoke_without_command=True)
def tasks(context: typer.Context, as_json: JsonOption = False) -> None:
    """List tasks, look at their examples, check your own file."""
    if context.invoked_subcommand is None:
        list_tasks(as_json)


@tasks_app.command("list")
def list_tasks(as_json: JsonOption = False) -> None:
    """List the built-in tasks."""
    rows = [(name, *facts) for name, facts in known_tasks().items()]
    print_rows(("task", "kind", "what it asks"), rows, as_json)


@tasks_app.command("show")
def show_task(
    task: Annotated[str, typer.Argument(help="A task, or a file of your own.")],
    model: Annotated[str, typer.Option(help=MODEL_HELP)] = "smollm2",
    n: Annotated[int, typer.Option("-n", "--n", help="How many examples.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of the examples.")] = 0,
    split: SplitOption = "words",
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    revision: RevisionOption = None,
    base_model: BaseOption = None,
    code: AllowCode = False,
) -> None:
    """Print examples of a task, with the model's answers."""
    trust(code)
    if n < 1:
        raise HeadcountError(f"-n must be at least 1; got {n}.")
    loaded = load_model(model, device, dtype, revision, base_model)
    from ..tasks.show import describe_examples

    made = make_task(task, loaded, n=max(2 * n, 2), seed=seed, split=cast(SplitBy, split))
    for block in describe_examples(loaded, made.test[:n]):
        say_hanging(f"{block}\n", by=9)


@app.command("questions")
def show_questions(
    function: Annotated[str | None, typer.Argument(help="A function, such as retrieval; all by default.")] = None,
    questions: Annotated[
        str, typer.Option(help="JSON file with labelled questions, in the layout of CogQA.")
    ] = "built-in",
    n: Annotated[int, typer.Option("-n", "--n", help="How many of each.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of the questions.")] = 0,
) -> None:
    """Print the questions of masked-heads, with correct answers."""
    from ..tasks.questions import questions as read_questions

    found = read_questions(questions, seed=seed)
    for name in found.functions if function is None else [found.require(function)]:
        own = [question for question in found.questions if question.function == name]
        print(f"{name}: {len(own)} questions")
        for question in own[: max(n, 0)]:
            others = f"  (or {', '.join(question.accepted)})" if question.accepted else ""
            say_hanging(f"    {question.text}", by=4)
            say_hanging(f"        -> {question.answer}{others}", by=11)


@comet_app.command("setup")
def comet_setup(
    python: Annotated[str | None, typer.Option(help=PYTHON_HELP)] = None,
) -> None:
    """Install COMET in the cache folder. It takes a few minutes and 1.4 GB, more with CUDA."""
    wake("meters.comet")
    from ..meters.comet import DEFAULT_MODEL, setup_comet

    with waiting("setting up COMET"):
        command = setup_comet(python)
    print(f"COMET is ready: {command}")
    print(f"Its model {DEFAULT_MODEL} (2.3 GB) is downloaded from the hub when it is first used.")


@app.command()
def schema(name: Annotated[str, typer.Argument(help="A kind of study, sparsify, or report.")]) -> None:
    """Print a JSON Schema. There is one of every study's TOML, of the recipe of sparsify, and of report.json."""
    require_known(name, (*STUDIES, "sparsify", "report"), "schema")
    if name == "report":
        from ..view.page.data import SCHEMA

        found = SCHEMA.json_schema(mode="serialization")
    else:
        found = Recipe.model_json_schema() if name == "sparsify" else study_schema(STUDIES.named(name))
    print_json(found)
