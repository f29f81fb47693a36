"""`headcount.export_result`: a result, in memory or in a folder, written for another tool."""

from pathlib import Path

from ..core.errors import HeadcountError, listed
from ..core.export_options import CircuitChoice, CutChoice, NoOptions
from ..core.exports import EXPORTS, NAMES, Export
from ..core.reading import local_path
from ..export.cuts import cut_of, folder_with, scores_in
from ..export.dataset import Result, Results
from ..export.mib import read_mib
from ..models import Model
from ..rank.circuit import Circuit
from ..rank.roles import HeadRoles
from ..rank.scores import EdgeScores, HeadScores
from ..sweeps import Curve
from .opening import Run
from .opening import open as open_run
from .outputs import SUMMARY

Source = str | Path | Run | Circuit | Result


def export_result(
    kind: str, result: Source | None, out: str | Path, *, model: Model | str | None = None, **options: object
) -> Path:
    """Write a result for another tool.

    **Arguments:**

    - `kind`: one of `headcount export`.
    - `result`: the output folder of a study, a folder of scores, a circuit's JSON, or what these hold, in memory. None
      for a cut whose heads are named.
    - `out`: the file or folder to write.
    - `model`: for exports of a cut model, the model, where it is at hand or the result does not name it well enough.
    - anything else: the options of the export, as `headcount export KIND --help` has them.

    ```python
    hc.export_result("checkpoint", "scores/ioi", "smollm2-without-20", model="smollm2", top=20)
    ```
    """
    chosen = EXPORTS.named(kind)
    named = {} if model is None or isinstance(model, Model) else {"model": model}
    mine = {key: value for key, value in {**options, **named}.items() if key in chosen.choice.model_fields}
    rest = {key: value for key, value in {**options, **named}.items() if key not in mine}
    rest |= {key: value for key, value in mine.items() if key in chosen.options.model_fields}
    chosen.options(**rest)  # what is wrong with them is told before anything is opened
    subject = _subject(chosen, result, chosen.choice(**mine), model if isinstance(model, Model) else None)
    return chosen.write(subject, out, rest)


def _subject(chosen: Export, result: Source | None, choice: object, model: Model | None) -> object:
    match choice:
        case CutChoice():
            named = result is None or choice.heads is not None
            return cut_of(None if named or result is None else _head_scores(result), choice, model)
        case CircuitChoice():
            return _circuit(result, choice)
        case NoOptions() if chosen.takes == "scores":
            return _head_scores(_require(result, chosen))
        case _:
            return _all(_require(result, chosen))


def _require(result: Source | None, chosen: Export) -> Source:
    if result is None:
        raise HeadcountError(f"This export takes {NAMES[chosen.takes]}. Give the folder of a result.")
    return result


def _circuit(result: Source | None, choice: CircuitChoice) -> Circuit:
    if isinstance(result, Circuit):
        return result
    if isinstance(result, str | Path) and local_path(str(result)).is_file():
        return read_mib(local_path(str(result)))
    if result is None:
        raise HeadcountError(f"This export takes {NAMES['circuit']}. Give the folder of a result, or a circuit's JSON.")
    if choice.top is not None or isinstance(result, EdgeScores):
        scores = _edge_scores(result)
        if choice.top is None:
            raise HeadcountError("Scores of edges are of all edges. Say how many make the circuit: --top.")
        return scores.circuit(choice.top, by=choice.by)
    if not isinstance(result, str | Path | Run):
        raise HeadcountError(f"A circuit or scores of edges are wanted; got a {type(result).__name__}.")
    run = result if isinstance(result, Run) else open_run(local_path(str(result)))
    found = run.circuits()
    if len(found) != 1:
        there = f"it has {len(found)}: {listed(found)}" if found else "it has none"
        raise HeadcountError(
            f"One circuit can be written, and of {run.folder} {there}. Give one of its folders of scores, and --top."
        )
    return next(iter(found.values()))


def _head_scores(result: Source) -> HeadScores:
    match result:
        case HeadScores():
            return result
        case HeadRoles():
            return result.scores()
        case str() | Path() | Run():
            return scores_in(_place(result))
    raise HeadcountError(f"Scores of heads are wanted; got a {type(result).__name__}.")


def _edge_scores(result: Source) -> EdgeScores:
    match result:
        case EdgeScores():
            return result
        case str() | Path() | Run():
            return EdgeScores.load(folder_with(_place(result), (EdgeScores.FILE,), "edges"))
    raise HeadcountError(f"A circuit or scores of edges are wanted; got a {type(result).__name__}.")


def _place(result: str | Path | Run) -> Path:
    return result.folder if isinstance(result, Run) else local_path(str(result))


def _all(result: Source) -> Results:
    """Everything in a result that has rows."""
    match result:
        case Run():
            return Results(result.study.title or result.folder.name, (*result.scores, *result.curves))
        case Circuit():
            raise HeadcountError("A circuit has no table. Give the scores that it comes from.")
        case str() | Path():
            place = local_path(str(result))
            if (place / SUMMARY).is_file():
                return _all(open_run(place))
            saved = [
                kind for kind in (HeadScores, HeadRoles, EdgeScores, Curve) if (place / f"{kind.FILE}.json").is_file()
            ]
            if not saved:
                raise HeadcountError(f"There are no results at {place}: neither a finished study nor saved scores.")
            return Results(place.resolve().name, tuple(kind.load(place) for kind in saved))
    return Results(result.model, (result,))
