"""The report of a study of masked heads: the answers themselves, whole beside masked, top beside random."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ...meters.text_metrics import measure_answers
from ...rank.probes.probe import PROBES
from ...rank.scores import HeadScores
from ...view.page.data import AnswersData, MapData, Number, QuestionData, Report, short
from ...view.page.maps import map_data
from ..report import Found
from .steps import MaskedCell

if TYPE_CHECKING:
    from .outputs import MaskedEntry, MaskedSummary

SHOWN_DRAWS = 3
"""Of random heads, whose answers a page shows; answers.csv has all."""
RANDOM = {"chance": "random heads", "chance-matched": "random heads of the same layers"}
Given = dict[str, dict[str, list[list[list[Number]]]]]


def page(found: "Found[MaskedSummary]") -> Report:
    entries = found.summary["cells"]
    first = entries[0]
    return Report(
        kind=str(found.summary["kind"]),
        title=str(found.summary["title"]),
        sentences=[_sentence(entry) for entry in entries],
        warnings=list(found.summary["notes"]),
        caveats=[
            f"Heads are ranked by {first['method']} on other questions. Random heads are never among the top k, and are"
            f" drawn {first['draws']} times, freely and with as many of each layer.",
            f"What masked heads carry: {first['fill']}. The accuracy of the figure is {first['metric']}.",
            "Bands are 90 % intervals over templates of questions and, of random heads, draws.",
        ],
        maps=list(_maps(found)),
        answers=[_answers(cell, number) for number, row in enumerate(found.cells) for cell in row]
        if found.cells
        else _answers_of_csv(found),
    )


def _sentence(entry: "MaskedEntry") -> str:
    whole = entry["unmasked"].get(entry["metric"])
    told = "; ".join(f"against {RANDOM[order]}, {words}" for order, words in entry["words"].items())
    right = "–" if whole is None else f"{whole:.2f}"
    return f"{entry['function']}, {entry['model']}: {entry['metric']} {right} unmasked; top heads masked, {told}."


def _maps(found: "Found[MaskedSummary]") -> Iterator[MapData]:
    """What the heads were ranked by, and what the other methods say of them."""
    if not found.cells:
        panels = {(curve.task, curve.model): curve.panel for curve in found.curves}
        for path in sorted(found.folder.glob("scores/*/scores.json")):
            scores = HeadScores.load(path.parent)
            yield map_data(scores, panels.get((scores.task, scores.model), 0))
    for number, row in enumerate(found.cells):
        for cell in row:
            yield map_data(cell.scores, number)
            for method in PROBES:
                if method != cell.scores.method:
                    yield map_data(cell.probe.scores(cell.function, method), number)


def _answers(cell: MaskedCell, panel: int) -> AnswersData:
    texts = _Places()
    by_order = {curve.order: curve for curve in cell.curves}
    uncut, _ = measure_answers(cell.whole, cell.whole, cell.asked)
    given: Given = {"unmasked": {name: [[[short(v, 3) for v in value.tolist()]]] for name, value in uncut.items()}}
    masked = {}
    for order, said in cell.masked.items():
        draws = said.texts[: 1 if order == "absolute" else SHOWN_DRAWS]
        masked[order] = [[[texts[text] for text in own] for own in by_k] for by_k in draws]
        values = by_order[order].values
        given[order] = {
            name: [[[short(v, 3) for v in row] for row in by_k] for by_k in value[: len(draws)].tolist()]
            for name, value in values.items()
        }
    return AnswersData(
        panel=panel,
        model=cell.model,
        function=cell.function,
        metrics=list(cell.curves[0].values),
        ks=list(cell.curves[0].ks),
        questions=[QuestionData(question.text, question.answer, question.template) for question in cell.asked],
        whole=[texts[text] for text in cell.whole],
        masked=masked,
        given=given,
        said=texts.listed,
    )


class _Places:
    """Texts by their places in a list, each once."""

    def __init__(self) -> None:
        self.listed: list[str] = []
        self._place: dict[str, int] = {}

    def __getitem__(self, text: str) -> int:
        if text not in self._place:
            self._place[text] = len(self.listed)
            self.listed.append(text)
        return self._place[text]


def _answers_of_csv(found: "Found[MaskedSummary]") -> list[AnswersData]:
    """Of an older result: its answers, and which of them were accepted."""
    with (found.folder / "answers.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    panels = {(curve.task, curve.model): curve.panel for curve in found.curves}
    return [
        _of_rows([row for row in rows if (row["model"], row["function"]) == key], panels.get((key[1], key[0]), 0))
        for key in dict.fromkeys((row["model"], row["function"]) for row in rows)
    ]


def _of_rows(rows: Sequence[Mapping[str, str]], panel: int) -> AnswersData:
    texts = _Places()
    groups: dict[tuple[str, int, int], list[Mapping[str, str]]] = {}
    for row in rows:
        groups.setdefault((row["order"], int(row["draw"]), int(row["k"])), []).append(row)
    whole = groups.pop(("unmasked", 0, 0))
    ks = sorted({k for _, _, k in groups})
    masked: dict[str, list[list[list[int]]]] = {}
    given: Given = {"unmasked": {"accepted": [[[float(row["accepted"]) for row in whole]]]}}
    for order in dict.fromkeys(order for order, _, _ in groups):
        draws = sorted({draw for own, draw, _ in groups if own == order})[:SHOWN_DRAWS]
        masked[order] = [[[texts[row["answer"]] for row in groups[order, draw, k]] for k in ks] for draw in draws]
        right = [[[float(row["accepted"]) for row in groups[order, draw, k]] for k in ks] for draw in draws]
        given[order] = {"accepted": [[list[Number](values) for values in by_k] for by_k in right]}
    return AnswersData(
        panel=panel,
        model=rows[0]["model"],
        function=rows[0]["function"],
        metrics=["accepted"],
        ks=ks,
        questions=[QuestionData(row["question"], row["right_answer"], row["template"]) for row in whole],
        whole=[texts[row["answer"]] for row in whole],
        masked=masked,
        given=given,
        said=texts.listed,
    )
