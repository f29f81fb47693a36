"""What a report says: one JSON beside the page, and inside it. These types are its schema (`headcount schema report`).

Numbers have as many digits as a reader can use; None stands where there is no number. A head is (layer, head), both
counted from 0, and its name is `a3.h5`.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from numpy.typing import ArrayLike
from pydantic import TypeAdapter

from ...core.words import Control, CurveKind, Mode

VERSION = 1
"""Changes when the meaning of a key does."""
Number = float | None
Map = list[list[Number]]
"""[layer][head]."""
THRESHOLDS = tuple(round(0.01 * step, 2) for step in range(1, 101))
"""Of explained effect, at which units needed are told."""


@dataclass(frozen=True)
class Band:
    """A metric at every k: its mean, and the ends of its 90 % interval."""

    value: list[Number]
    low: list[Number]
    high: list[Number]


@dataclass(frozen=True)
class NeededData:
    """Units needed to be faithful, a number for each of the thresholds 0.01, 0.02, …, 1; none where never. With repeats
    that of all together, and its interval."""

    value: list[int | None]
    low: list[int | None]
    high: list[int | None]


@dataclass(frozen=True)
class SaidData:
    """What the model would say next at some of the k."""

    ks: list[int]
    words: list[str]
    """Tokens as texts; the others name them by their places."""
    tokens: list[list[int]]
    """The most probable one, [k][prompt]."""
    chances: list[list[Number]]
    """Its probability, [k][prompt]."""


class AttentionEdge(NamedTuple):
    """An edge of one prompt: what stands at `key` reaches `query` through a head. A list in the JSON."""

    layer: int
    head: int
    query: int
    key: int
    score: Number


@dataclass(frozen=True)
class CurveData:
    """A line: a metric against the number of units kept or masked."""

    panel: int
    """Place in `panels`."""
    model: str
    task: str
    method: str
    order: str
    mode: Mode
    fill: str
    units: str
    kind: CurveKind
    metric: str
    """The metric that the curve speaks of; explained effect comes from it."""
    shown: str
    """The band that is looked at first."""
    total: int
    ks: list[int]
    prompts: int
    """How many test prompts there are, of all repeats."""
    draws: int
    repeats: int
    """Bands, units needed and the warning pool them, and ranks are mean ranks; prompts and words: the first's."""
    bands: dict[str, Band]
    needed: NeededData | None = None
    """None where explained effect has no meaning, and in reports of older results."""
    warning: str | None = None
    mixes: list[float] = field(default_factory=list)
    """Of the order `best`, of every repeat."""
    ranking: list[str] = field(default_factory=list)
    """Names of the units in their order, of edges the first ones; empty for chance."""
    by_prompt: list[list[Number]] | None = None
    """The metric of every prompt, [k][prompt], of a chance order the mean of its draws; None where it was not kept."""
    prompt_ks: list[int] = field(default_factory=list)
    """The k of `by_prompt`, where they are not those of the curve: repeats are measured at k of their own."""
    asked: int | None = None
    """Place in `prompts` of the texts of these prompts."""
    said: SaidData | None = None
    """None for chance, and where it was not kept."""
    attention: list[list[AttentionEdge]] | None = None
    """Of attention edges: the first of every prompt, in its own order."""
    whole: dict[str, Number] = field(default_factory=dict)
    """Metrics of the whole model, where no k says so."""


@dataclass(frozen=True)
class ControlData:
    """What an order explains where there is nothing to find, as a share of the real effect, at some of the k."""

    panel: int
    model: str
    task: str
    method: str
    order: str
    """Of the curve that it controls."""
    control: Control
    ks: list[int]
    band: Band


@dataclass(frozen=True)
class MapData:
    """A score of every head."""

    panel: int
    model: str
    task: str
    method: str
    metric: str
    fill: str
    values: Map
    errors: Map
    """Standard errors, over examples or seeds."""
    samples: str
    count: int
    """How many samples."""
    signed: bool


@dataclass(frozen=True)
class RolesData:
    """What causal head gating says of every head."""

    panel: int
    model: str
    task: str
    fill: str
    seeds: int
    scores: dict[str, Map]
    """Role -> mean score over seeds, from 0 to 1."""
    votes: dict[str, Map]
    """Role -> share of the seeds that give it to the head; what is missing to 1 is unclear."""
    shares: dict[str, dict[str, Number]]
    agreement: dict[str, Number]
    """Rank correlation between seeds, of helps minus hurts (`gating`) and of each role."""


@dataclass(frozen=True)
class PromptData:
    text: str
    counterfactual: str | None
    answer: str
    wrong: str | None
    says: list[tuple[str, float]]
    """What the whole model would say next, with probabilities."""
    says_counterfactual: list[tuple[str, float]]
    tokens: list[str] = field(default_factory=list)
    """Where attention edges are shown."""


@dataclass(frozen=True)
class PromptSet:
    """The test prompts of a task, and what a model makes of them."""

    panel: int
    model: str
    task: str
    prompts: list[PromptData]


class EdgeData(NamedTuple):
    """An edge between components. A list in the JSON."""

    writer: str
    node: str  # what reads: `a3.h5`, `m3` or `logits`
    role: str  # q, k or v of a head; empty for MLPs, the logits and edges that are counted whole
    score: Number


@dataclass(frozen=True)
class CircuitData:
    """The first edges of an order."""

    panel: int
    model: str
    task: str
    order: str
    layers: int
    total: int
    edges: list[EdgeData]
    method: str = ""


@dataclass(frozen=True)
class QuestionData:
    text: str
    right: str
    template: str


@dataclass(frozen=True)
class AnswersData:
    """What a model says to the test questions of a function, whole and with heads masked."""

    panel: int
    model: str
    function: str
    metrics: list[str]
    ks: list[int]
    questions: list[QuestionData]
    said: list[str]
    """Texts; the others name them by their places."""
    whole: list[int]
    """[question]."""
    masked: dict[str, list[list[list[int]]]]
    """Order -> [draw][k][question]; of chance orders the first draws."""
    given: dict[str, dict[str, list[list[list[Number]]]]]
    """Order -> metric -> what it gave the answer, [draw][k][question]; `unmasked` has one draw and one k."""


@dataclass(frozen=True)
class SourceData:
    """What a sparse twin costs on one source of text, in nats a token."""

    name: str
    dense_loss: Number
    loss: Number
    sequences: int


@dataclass(frozen=True)
class TrainingData:
    """How a sparse twin was trained, and what it is worth."""

    base: str
    steps: list[int]
    log: dict[str, list[Number]]
    """Column of training.csv -> its value at these steps; of long runs, means over neighbouring steps."""
    facts: list[tuple[str, str]]
    sources: list[SourceData]
    open_share: Map | None
    """Open edges of all causal edges, head by head; None in results of older versions and of controls."""
    recipe: dict[str, str]


@dataclass(frozen=True)
class PanelData:
    title: str
    threshold: float | None


@dataclass(frozen=True)
class Provenance:
    versions: dict[str, str]
    models: list[dict[str, str]]
    command: str
    """Runs the same again, in the folder of the result."""
    cite: str
    toml: str
    files: list[str]
    """Beside the report."""
    steps: list[str]


@dataclass(frozen=True)
class Report:
    kind: str
    title: str
    version: int = VERSION
    look: Literal["whole", "small", "index"] = "whole"
    """`small`: in a notebook. `index`: many results, in `results`."""
    sentences: list[str] = field(default_factory=list)
    """The answer, a sentence a panel and model."""
    warnings: list[str] = field(default_factory=list)
    """Where a number means little."""
    caveats: list[str] = field(default_factory=list)
    """What has to be known to read the numbers."""
    panels: list[PanelData] = field(default_factory=list)
    curves: list[CurveData] = field(default_factory=list)
    controls: list[ControlData] = field(default_factory=list)
    maps: list[MapData] = field(default_factory=list)
    roles: list[RolesData] = field(default_factory=list)
    prompts: list[PromptSet] = field(default_factory=list)
    circuits: list[CircuitData] = field(default_factory=list)
    answers: list[AnswersData] = field(default_factory=list)
    training: TrainingData | None = None
    provenance: Provenance | None = None
    results: "list[ResultData]" = field(default_factory=list)

    def to_json(self) -> str:
        return SCHEMA.dump_json(self).decode()


@dataclass(frozen=True)
class ResultData:
    """One result of many: where it lies, and what its curves are."""

    path: str
    """Of its folder, from that of the index."""
    kind: str
    title: str
    page: str | None
    """Of its report, from the folder of the index; None where there is none."""
    models: list[str]
    tasks: list[str]
    sentences: list[str]
    panels: list[PanelData]
    curves: list[CurveData]
    """Without prompts and rankings."""
    made: str = ""
    """When its files were written, as YYYY-MM-DD."""


SCHEMA: TypeAdapter[Report] = TypeAdapter(Report)


def short(value: float | None, digits: int = 5) -> Number:
    """So many digits; None for what is not a number."""
    return float(f"{value:.{digits}g}") if value is not None and math.isfinite(value) else None


def shorts(values: Iterable[float], digits: int = 5) -> list[Number]:
    return [short(value, digits) for value in values]


def short_map(values: ArrayLike, digits: int = 4) -> Map:
    """[layer, head]."""
    from numpy import asarray

    return [shorts(row, digits) for row in asarray(values).tolist()]
