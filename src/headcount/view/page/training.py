"""A sparse twin as a page shows it: how it was trained, what its gates leave open, what it costs."""

import csv
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

import numpy as np

from ...core.errors import HeadcountError
from ...core.provenance import Facts
from ...models.gated_folder import SparseFacts
from ...sparse.evaluation import Evaluation
from .data import Provenance, Report, SourceData, TrainingData, short, short_map, shorts
from .origin import citation, files_of

MOST_STEPS = 400
"""Points of a training curve; longer runs are averaged over neighbouring steps."""


def training_report(folder: Path) -> Report:
    facts = SparseFacts.load(folder)
    found = Evaluation.from_dict(facts.made["evaluation"])
    recipe = facts.made["recipe"]
    steps, log = _log(folder / "training.csv")
    training = TrainingData(
        base=facts.base,
        steps=steps,
        log=log,
        facts=[*found.rows(), *_tried(found)],
        sources=[
            SourceData(name, short(of["dense_loss"], 6), short(of["loss"], 6), int(of["sequences"]))
            for name, of in found.by_source.items()
        ],
        open_share=short_map(found.open_by_head) if found.open_by_head else None,
        recipe={name: str(value) for name, value in recipe.items() if value is not None},
    )
    kind = "a dense control" if recipe["control"] else "sparse attention"
    made_with, texts = facts.made["versions"], facts.made["text"]
    return Report(
        kind="sparsify",
        title=f"{Path(facts.base).name}, {kind}",
        sentences=[_sentence(facts.base, found)],
        caveats=[
            f"Measured on {found.in_words}, of {found.length} tokens; shares of open edges hold for this length alone.",
            "Loss is in nats per token; the dense model's is that of the base on the same text.",
        ],
        training=training,
        provenance=Provenance(
            versions=made_with,
            models=[{"name": facts.base, "sha256": facts.base_fingerprint}],
            command=_command(facts.base, texts, recipe),
            cite=citation(made_with.get("headcount", "")),
            toml="",
            files=files_of(folder, ("report.html", "report.json")),
            steps=[],
        ),
    )


def _tried(found: Evaluation) -> list[tuple[str, str]]:
    """What it can do on each task it was tried on, and how much it attends to there."""
    (_, *names), rows = found.task_rows()
    return [
        (f"on {task}", ", ".join(f"{name} {value}" for name, value in zip(names, values, strict=True)))
        for task, *values in rows
    ]


def _sentence(base: str, found: Evaluation) -> str:
    name, cost = Path(base).name, f"at {found.relative_loss:+.2%} of the dense model's loss"
    if found.keys_a_query is None:
        return f"{name} trained without gates is {cost.removeprefix('at ')}."
    keys = f"{found.open_share:.2%} of the edges, {found.keys_a_query:.2f} keys per query"
    return f"{name} with sparse attention opens {keys}, {cost}."


def _log(path: Path) -> tuple[list[int], dict[str, list[float | None]]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        columns = {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}
    except (OSError, ValueError, KeyError, IndexError):
        return [], {}
    groups: Sequence[np.ndarray] = np.array_split(np.arange(len(rows)), min(len(rows), MOST_STEPS))
    steps = [int(columns["step"][group[-1]]) for group in groups]
    means = {name: [float(values[group].mean()) for group in groups] for name, values in columns.items()}
    return steps, {name: shorts(values) for name, values in means.items() if name != "step"}


def _command(base: str, texts: Sequence[str], recipe: Facts) -> str:
    """With every setting that is not its default; the text by its name alone, as its place is not known."""
    from ...sparse.recipe import Recipe

    told = ["headcount sparsify", quote(base), *(f"--text {quote(text)}" for text in texts)]
    for name, field in Recipe.model_fields.items():
        value = recipe.get(name)
        if value is None or value == field.get_default():
            continue
        flag = name.replace("_", "-")
        told.append(f"--{flag}" if value is True else f"--no-{flag}" if value is False else f"--{flag} {value}")
    return " ".join([*told, "--out NEW-FOLDER"])


def require_finished(folder: Path) -> None:
    if not (folder / "sparse.json").is_file():
        raise HeadcountError(f"{folder} holds no finished sparse model: it has no sparse.json.")
