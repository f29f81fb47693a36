"""The closed vocabularies that settings, results and the command line share, each spelled in one place."""

from typing import Literal, get_args

Units = Literal["heads", "edges", "attention-edges"]  # what can be kept or removed
Mode = Literal["keep", "mask"]
PlainOrder = Literal["absolute", "signed"]
"""Orders that scores alone decide: the largest effect first, of either sign; or the most helpful first."""
ScoreOrder = Literal["absolute", "signed", "best"]
"""Orders that come from scores; `best` mixes the two plain ones so that the fewest units are needed on train."""
ChanceOrder = Literal["chance", "chance-matched"]
"""Random orders; `chance-matched` takes as many units of each layer as the scores' own order does."""
Aim = Literal["faithful", "reached"]
"""What a set of units has to do: explain the effect to within 1 - threshold, or at least the threshold's share."""
Role = Literal["facilitation", "irrelevance", "interference"]
"""Orders that come from gates: heads that help, that do neither, that hurt."""
Control = Literal["nonsense", "shuffled"]
"""Where there is nothing to find: answers dealt out at random, or scores on other units."""
CurveKind = Literal["explained", "change", "answers"]
"""What a curve says: explained effect; change in log-probability by role; what is left of written answers."""

Positions = Literal["all", "last", "generated"]
"""Where a cut applies. `last`: at the last prompt token only. `generated`: from the last prompt token on, which is all
that a generated answer depends on beyond the prompt's own values; where one token is predicted the two are the same."""
WrittenPositions = Literal["generated", "all"]
"""The same while a model writes. `generated`: the prompt is read by the whole model. `all`: the prompt too."""
Readers = Literal["kv-heads", "query-heads", "components"]
"""Who reads keys and values: the model's KV heads, or every query head as if it had its own (as MIB counts). Or edges
are counted whole, from component to component: a head is one reader, whose query, key and value see the same."""
Grid = Literal["log", "linear", "quadratic", "all"]
FigureWidth = Literal["", "column", "page"]
"""How wide a figure is: as its panels are, or as a column or the page of a paper."""
DtypeName = Literal["", "auto", "float64", "float32", "bfloat16", "float16"]
"""Precision of weights; empty for the default."""
SplitBy = Literal["words", "templates"]
"""What train and test of a task do not share: its words alone, or its templates and all that fills them too."""
GateBase = Literal["plus", "ones"]  # the gates in which heads are ablated by role: G+ of the same fit, or all ones
GateForm = Literal["logit", "log-prob"]
AttentionMethod = Literal["attribution", "learned"]  # how attention edges are scored, prompt by prompt
RankingLoss = Literal["distance", "reach", "kl", "metric"]  # what a learned ranking is trained for
GateGradient = Literal["expected", "relaxed"]
AdapterPlaces = Literal["attention", "layers"]  # where adapters go: q, k, v and output projections, or MLPs as well
Products = Literal["auto", "float32", "bfloat16"]  # precision of the products of a training step
BackwardRule = Literal["attnlrp", "relp", "gim"]  # other backward passes through the same forward
Regulariser = Literal["linear", "log", "log-heads"]
TokenChoice = Literal["first", "last", "mean", "surprisal"]  # answer tokens at which heads are read

UNITS: tuple[Units, ...] = get_args(Units)
MODES: tuple[Mode, ...] = get_args(Mode)
ROLES: tuple[Role, ...] = get_args(Role)
PLAIN_ORDERS: tuple[PlainOrder, ...] = get_args(PlainOrder)
SCORE_ORDERS: tuple[ScoreOrder, ...] = get_args(ScoreOrder)
CHANCE_ORDERS: tuple[ChanceOrder, ...] = get_args(ChanceOrder)
ORDERS: tuple[str, ...] = (*SCORE_ORDERS, *CHANCE_ORDERS)
AIMS: tuple[Aim, ...] = get_args(Aim)
POSITIONS: tuple[Positions, ...] = get_args(Positions)
SPLITS_BY: tuple[SplitBy, ...] = get_args(SplitBy)
READERS: tuple[Readers, ...] = get_args(Readers)
ATTENTION_METHODS: tuple[AttentionMethod, ...] = get_args(AttentionMethod)
GRIDS: tuple[Grid, ...] = get_args(Grid)


def in_words(units: str) -> str:
    """As prose has it: attention edges."""
    return units.replace("-", " ")
