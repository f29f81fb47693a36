"""The settings of studies of what is kept."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field

from ...core.errors import HeadcountError
from ...core.settings import Few, Listed, check
from ...core.words import (
    AttentionMethod,
    ChanceOrder,
    Control,
    Grid,
    Mode,
    PlainOrder,
    Positions,
    RankingLoss,
    Readers,
    ScoreOrder,
    Units,
)
from ...rank import METHODS
from ...rank.fit import OWN_FITS, AnyFit, Learning
from ..panel import Panel, Table, Texts

if TYPE_CHECKING:
    from ...tasks.examples import Task

ONE_PASS = "one-pass"
Orders = Annotated[Listed[ScoreOrder | ChanceOrder], AfterValidator(check(bool, "must be a list that is not empty"))]


GIVEN = "given"
"""Scores that were saved; no method is run."""


class Kept(Panel):
    """What heads, edges and attention edges share: a task, and a curve for each model and order."""

    ONCE: ClassVar[tuple[str, ...]] = ("models", "orders", "fill", "controls")
    units: Units
    """What is kept."""
    orders: Orders = ("best", "chance")
    """Orders in which units are kept; may be repeated. `absolute`: the largest effect first; `signed`: the most helpful
    first; `best`: the mix of the two that needs the fewest units on a few train prompts. Scores without a sign have the
    order `absolute` alone."""
    threshold: Annotated[float, Field(gt=0, le=1)] = 0.9
    """Explained effect that counts as enough."""
    precision: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the units needed to which the crossing of the threshold is found; 0 for one unit."""
    ks: Grid | Listed[int] = ()
    """A grid's name or numbers of units; quadratic for heads and logarithmic for the others by default."""
    points: Annotated[int, Field(ge=2, le=10_000)] = 24
    """Points of the grid."""
    draws: Few = 20
    """Number of random orders."""
    repeats: Annotated[int, Field(ge=1, le=100)] = 1
    """How often everything is done, each time with another seed: other prompts, or another split of a file of your own,
    and the ranking that they give."""
    fill: str | Texts = ""
    """What removed units carry: counterfactual, mean, mean-global, zero; of heads also resample and scale(0.1). By
    default the counterfactual where a task has pairs, else zero. May be repeated, for a row of panels each."""

    @property
    def fills(self) -> tuple[str, ...]:
        """Of a panel in a study, one."""
        return (self.fill,) if isinstance(self.fill, str) else self.fill

    @classmethod
    def apart(cls, tables: Sequence[Table]) -> list[Table]:
        """A panel for each fill: all panels with the first of their fills, then all with the second, and so on."""
        fills = [cls.of(table).fills for table in tables]
        return [
            {**table, "fill": own[place]}
            for place in range(max(map(len, fills)))
            for table, own in zip(tables, fills, strict=True)
            if place < len(own)
        ]

    def for_task(self, task: "Task") -> Self:
        """The panel with the fill that the task allows, where none was given."""
        if any(self.fills):
            return self
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self)(**{**given, "fill": "counterfactual" if task.has_pairs else "zero"})

    def check(self) -> None:
        from ...edit import Fill
        from ...meters.metrics import metric_named

        super().check()
        if self.metric:
            metric_named(self.metric)
        for fill in filter(None, self.fills):
            Fill.parse(fill)


class ScoredKept(Kept):
    """Units that are scored once for the task and then kept in the order of their scores."""

    ONCE: ClassVar[tuple[str, ...]] = (*Kept.ONCE, "method")
    method: str | Texts = ""
    """Scoring method, see 'headcount methods'; of edges learned by default, of heads one-pass. `one-pass` is the
    integrated gradient between the two prompts where there is one for these units and this fill, and the gradient
    elsewhere. May be repeated, for a line each in the same panel."""
    mode: Mode = "keep"
    """Whether the first units are kept or masked."""
    steps: Few = 5
    """Points on the path of an integrated gradient."""
    updates: Annotated[int, Field(ge=0, le=10**6)] = 0
    """Updates of a learned ranking or of Edge Pruning; 0 for the method's own number."""
    loss: RankingLoss = "distance"
    """What a learned ranking is trained for: to be like the whole model in the metric, to reach it (reach), to predict
    the same (kl), or as much of the metric as can be had (metric)."""
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the units, the first by one-pass attribution, that a learned ranking trains; the others follow."""
    controls: Listed[Control] = ()
    """What the first order explains where there is nothing to find: `nonsense`, the same prompts with randomly
    assigned answers, ranked again; `shuffled`, the same scores on other units. May be repeated."""

    @property
    def fit(self) -> AnyFit | None:
        """How the ranking is fitted, if it is."""
        own = OWN_FITS.get(self.scorer)
        told = {"loss": self.loss, "share": self.share} if isinstance(own, Learning) else {}
        return own and own.changed(**told, **({"updates": self.updates} if self.updates else {}))

    def __init__(self, **values: object) -> None:
        super().__init__(**values)  # type: ignore[arg-type]
        if len(self.methods) == 1 and self.scorer in ("", ONE_PASS):
            object.__setattr__(self, "method", self.one_pass() if self.scorer else self.default_method())
        if len(self.methods) == 1 and self.scorer in METHODS and not METHODS.scoring(self.scorer, self.units).signed:
            if "orders" in values and "signed" in self.orders:
                raise HeadcountError(
                    f"The order 'signed' goes by the sign of scores, and those of {self.scorer} have none."
                )
            if "orders" not in values:
                object.__setattr__(self, "orders", ("absolute", "chance"))

    @property
    def methods(self) -> tuple[str, ...]:
        return (self.method,) if isinstance(self.method, str) else self.method

    @property
    def scorer(self) -> str:
        """The method of a panel in a study, which has one."""
        return self.methods[0]

    @classmethod
    def apart(cls, tables: Sequence[Table]) -> list[Table]:
        """Also a panel for each method; they are drawn as one, with one order by chance."""
        found: list[Table] = []
        for table in super().apart(tables):
            first, *others = cls(**table).methods
            found.append({**table, "method": first})
            for method in others:
                orders = [order for order in cls(**{**table, "method": method}).orders if order != "chance"]
                if orders:
                    found.append({**table, "method": method, "orders": orders})
        return found

    def drawn_with(self, other: Panel) -> bool:
        """Panels that differ in their method alone are one, with a line for each."""
        apart = {"method", "orders"}
        return self.model_dump(exclude=apart) == other.model_dump(exclude=apart)

    def default_method(self) -> str:
        """Learned by keeping units, so not for masking them."""
        return self.one_pass() if self.mode == "mask" else "edge-learned"

    def one_pass(self) -> str:
        return "eap-ig"

    def check_words(self) -> None:
        for method in self.methods:
            if method not in (ONE_PASS, GIVEN):
                METHODS.scoring(method, self.units)

    def check(self) -> None:
        self.check_words()
        super().check()


class HeadsKept(ScoredKept):
    FILES: ClassVar[tuple[str, ...]] = (*ScoredKept.FILES, "scores")
    units: Literal["heads"] = "heads"
    scores: str = ""
    """Folder of saved scores to go by in the place of a method, such as 'headcount play' writes."""
    positions: Positions = "all"
    """Where heads are removed."""
    search: bool = False
    """Also search for the fewest sufficient heads on the train split, to measure how far from them the ranking is."""

    def default_method(self) -> str:
        """One pass ranks heads about as well as learning, for a fraction of the cost, which repeats need."""
        return GIVEN if self.scores else self.one_pass()

    def one_pass(self) -> str:
        """It depends on the fill, and is decided with it where the task decides that."""
        if not any(self.fills):
            return ONE_PASS
        return "attribution-ig" if self.fills == ("counterfactual",) else "attribution"


class EdgesKept(ScoredKept):
    TAKES_MEMORY: ClassVar[bool] = True
    units: Literal["edges"] = "edges"
    readers: Readers = "kv-heads"
    """Who reads keys and values: the model's KV heads, or every query head; or components, a head being one reader."""
    prune: bool = False
    """Measure circuits without dangling edges."""

    def check(self) -> None:
        from ...edit.edge_fills import check_cut

        super().check()
        for fill in filter(None, self.fills):
            check_cut(fill, "all")


class AttentionEdgesKept(Kept):
    """They are scored by attribution under the same fill, and kept."""

    units: Literal["attention-edges"] = "attention-edges"
    orders: Listed[PlainOrder | Literal["chance"]] = ("absolute", "signed", "chance")
    """Orders in which attention edges are kept, prompt by prompt; may be repeated."""
    method: AttentionMethod = "attribution"
    """How they are scored, prompt by prompt; learned scores begin in the order of attribution."""
    updates: Annotated[int, Field(ge=0, le=10**6)] = 0
    """Updates of learned scores; 0 for the method's own number."""

    def check(self) -> None:
        from ...edit.edge_fills import check_cut

        super().check()
        for fill in filter(None, self.fills):
            check_cut(fill, "all", "Attention edges")
