"""Tasks of EleutherAI's lm-evaluation-harness (`pip install 'headcount[lm-eval]'`).

    lm-eval:arc_easy              a task, group or tag of the harness by its name; a group means all its members
    lm-eval:path/to/task.yaml     a task file of your own; what it includes or groups is looked up in its folder, and
                                  where it names Python code, --allow-code is needed (task_code.py)

The harness loads the data and writes the prompts, with the task's own description, worked examples and delimiters; we
only read them off. What is scored there by perplexity of whole texts, or with choices inside the prompt, has no
prompt-and-response form and is refused. Records without an answer, and items whose own question is among the worked
examples in front, are left out.
"""

import logging
import random
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from ..core.errors import HeadcountError, in_short
from ..core.plain import quoted
from ..core.reading import local_path
from .records import hub_or_cache
from .source import Item
from .task_code import require_no_code, sandboxed_templates

PREFIX = "lm-eval:"
MOST_RECORDS = 10_000
"""From each side of each task: some training splits have half a million, and every prompt is a template to fill."""


def read_lm_eval(name: str, rng: random.Random) -> tuple[list[Item], list[Item]]:
    """Train and test items of a task, in random order. The same state of `rng` gives the same items."""
    require_harness(f"The task {name}")
    with sandboxed_templates():
        read = [_read_task(task, rng) for task in load_tasks(name.removeprefix(PREFIX))]
    train, test = ([item for sides in read for item in sides[side]] for side in (0, 1))
    if not (train and test):
        raise HeadcountError(
            f"The task {name} must give at least one train and one test item, but it gives {len(train)} and"
            f" {len(test)}. Choose a task with more records that have an answer."
        )
    rng.shuffle(train)
    rng.shuffle(test)
    return train, test


def require_harness(what: str) -> None:
    try:
        import datasets  # noqa: F401
        import lm_eval.tasks  # noqa: F401
    except ImportError as error:
        raise HeadcountError(
            f"{what} needs the package `lm-eval`, which is not installed. Install it: pip install 'headcount[lm-eval]'"
        ) from error


def load_tasks(name: str) -> list[object]:
    """The harness' task objects: one, or the members of a group."""
    import datasets
    from lm_eval.tasks import TaskManager

    logging.getLogger("lm_eval").setLevel(logging.ERROR)  # which defaults it takes for what a task leaves open
    path = local_path(name).resolve()
    is_file = path.suffix == ".yaml"
    if is_file and not path.is_file():
        raise HeadcountError(f"The task file {name} does not exist. Check the path.")
    if is_file:
        require_no_code(path)
    try:
        manager = TaskManager(include_path=str(path.parent), include_defaults=False) if is_file else TaskManager()
        if is_file:
            names = [known for known, entry in manager.task_index.items() if entry.yaml_path == path]
        else:
            names = [name] if name in manager.all_tasks else []
        if not names:  # not `did_you_mean`, which would list all of the harness' ten thousand names
            nearest = get_close_matches(name, manager.all_tasks, n=3, cutoff=0.5)
            hint = f" Did you mean {' or '.join(map(repr, nearest))}?" if nearest else ""
            raise HeadcountError(
                f"lm-evaluation-harness finds no task {quoted(name)}.{hint} `lm-eval ls tasks` lists them all."
            )
        with hub_or_cache(datasets):
            return list(manager.load(names)["tasks"].values())
    except HeadcountError:
        raise
    except Exception as error:  # of the harness, its task's own code, datasets or the hub: no common class
        raise HeadcountError(
            f"lm-evaluation-harness cannot load the task {name}: {_reason(error)}."
            " Check its file, that its data can be reached, and try it with `lm-eval` itself."
        ) from error


def _read_task(task: Any, rng: random.Random) -> tuple[list[Item], list[Item]]:
    _require_supported(task)
    task.set_fewshot_seed(rng.randrange(2**32))
    try:
        config, test = task.config, list(task.eval_docs)
        own_training = config.training_split != (config.test_split or config.validation_split)
        train = list(task.training_docs()) if task.has_training_docs() and own_training else []
        if not train:
            rng.shuffle(test)
            train, test = test[::2], test[1::2]
        return _items(task, train, rng), _items(task, test, rng)
    except Exception as error:  # templates and Python functions of the task run here
        raise HeadcountError(
            f"The records of the lm-eval task {task.config.task!r} cannot be read: {_reason(error)}."
            " Try the task with `lm-eval` itself."
        ) from error


def _require_supported(task: Any) -> None:
    name, wanted = task.config.task, ("multiple_choice", "generate_until", "loglikelihood")
    if task.OUTPUT_TYPE not in wanted:
        raise HeadcountError(
            f"A task of lm-eval must have the output type {', '.join(wanted[:-1])} or {wanted[-1]};"
            f" {name!r} has {task.OUTPUT_TYPE}. Choose another task."
        )
    if getattr(task, "multiple_input", 0) or task.config.doc_to_image or task.config.doc_to_audio:
        raise HeadcountError(
            f"A task of lm-eval must have one text prompt a record; {name!r} has one for each choice, or images or"
            " sound. Choose another task."
        )


def _items(task: Any, records: Sequence[dict[str, Any]], rng: random.Random) -> list[Item]:
    few = rng.sample(records, MOST_RECORDS) if len(records) > MOST_RECORDS else records
    return [item for record in few if (item := _item(task, record)) is not None]


def _item(task: Any, record: dict[str, Any]) -> Item | None:
    shots = task.config.num_fewshot or 0
    lead = task.doc_to_prefix(record)
    prompt = task.fewshot_context(record, num_fewshot=shots, gen_prefix=lead)
    question = task.doc_to_text(record)
    if shots and question and prompt.count(question) > 1:
        return None
    choices = list(task.doc_to_choice(record)) if task.config.doc_to_choice is not None else []
    answer = _answer(task.doc_to_target(record), choices)
    if not answer:
        return None
    if task.OUTPUT_TYPE == "loglikelihood":  # the harness puts nothing between these two
        return Item(prompt, answer)
    between = " " if lead and task.OUTPUT_TYPE == "generate_until" else task.config.target_delimiter
    among = tuple(f"{between}{choice}" for choice in choices) if task.OUTPUT_TYPE == "multiple_choice" else ()
    return Item(prompt, f"{between}{answer}", among)


def _answer(target: Any, choices: Sequence[str]) -> str | None:
    """The first right answer as text. The harness gives a text, a number among the choices, or a list of either."""
    if isinstance(target, list):
        return _answer(target[0], choices) if target else None
    if not choices:
        return str(target)
    if isinstance(target, int):
        return choices[target] if 0 <= target < len(choices) else None
    return target if target in choices else None


def _reason(error: Exception) -> str:
    """The first line of what the library says; the kind of the error too, as many say little without it."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {in_short(Exception(lines[0])).rstrip('.')}" if lines else type(error).__name__
