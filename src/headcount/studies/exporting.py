"""`headcount.export_result`: a result, in memory or in a folder, written for another tool."""

from collections.abc import Sequence
from pathlib import Path

from ..core.errors import HeadcountError, listed
from ..core.export_options import CircuitChoice, CutChoice, NoOptions
from ..core.exports import EXPORTS, NAMES, Export
from ..core.reading import local_path
from ..edit import Fill
from ..export.cuts import HeadCut, make_cut
from ..export.dataset import Result, Results
from ..export.mib import read_mib
from ..models import Model, load
from ..rank.circuit import Circuit
from ..rank.comparison import load_scores
from ..rank.gating import ContrastGates
from ..rank.roles import HeadRoles
from ..rank.scores import EdgeScores, HeadScores
from ..sweeps import Curve
from ..tasks import task as make_task
from ..tasks.examples import Example
from .opening import Run
from .opening import open as open_run
from .outputs import SUMMARY

Source = str | Path | Run | Circuit | Result
HEAD_FILES = (HeadScores.FILE, HeadRoles.FILE, ContrastGates.FILE)


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
            return cut_of(result, choice, model)
        case CircuitChoice():
            return _circuit(result, choice)
        case NoOptions() if chosen.takes == "scores":
            return head_scores(_require(result, chosen))
        case _:
            return _all(_require(result, chosen))


def _require(result: Source | None, chosen: Export) -> Source:
    if result is None:
        raise HeadcountError(f"This export takes {NAMES[chosen.takes]}. Give the folder of a result.")
    return result


def cut_of(result: Source | None, choice: CutChoice, model: Model | None = None) -> HeadCut:
    """The model and the heads that a choice removes, by the scores of a result where it goes by scores."""
    scores = None if result is None or choice.heads is not None else head_scores(result)
    name = choice.model or (scores.model if scores else None)
    if model is None and name is None:
        raise HeadcountError("A cut needs a model, and none is named. Give --model.")
    loaded = model or load(str(name), device=choice.device, dtype=choice.dtype)
    reference: Sequence[Example] = ()
    if Fill.parse(choice.fill).needs_reference:
        asked = choice.task or (scores.task if scores else None)
        if asked is None:
            raise HeadcountError(f"The fill {choice.fill} is a mean over the prompts of a task. Give --task.")
        reference = make_task(asked, loaded, n=choice.n, seed=choice.seed).train
    return make_cut(loaded, choice, scores, reference)


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


def head_scores(result: Source) -> HeadScores:
    """The only scores of heads in a result."""
    match result:
        case HeadScores():
            return result
        case HeadRoles():
            return result.scores()
        case str() | Path() | Run():
            return load_scores(_folder_with(result, HEAD_FILES, "heads"))
    raise HeadcountError(f"Scores of heads are wanted; got a {type(result).__name__}.")


def _edge_scores(result: Source) -> EdgeScores:
    match result:
        case EdgeScores():
            return result
        case str() | Path() | Run():
            return EdgeScores.load(_folder_with(result, (EdgeScores.FILE,), "edges"))
    raise HeadcountError(f"A circuit or scores of edges are wanted; got a {type(result).__name__}.")


def _folder_with(result: str | Path | Run, files: Sequence[str], units: str) -> Path:
    """The folder itself, or the only one below it that holds such scores."""
    place = result.folder if isinstance(result, Run) else local_path(str(result))
    if not place.is_dir():
        raise HeadcountError(f"There is no folder of results at {place}.")
    if any((place / f"{name}.json").is_file() for name in files):
        return place
    below = sorted(path.parent for name in files for path in place.glob(f"*/*/{name}.json"))
    if len(below) != 1:
        there = f"holds {len(below)} of them. Give one: {listed(map(str, below))}" if below else "holds none"
        raise HeadcountError(f"Scores of {units} are wanted, and {place} {there}.")
    return below[0]


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
