"""All that a post-training run is decided by, nothing that it finds out. (No torch, for the command line's sake.)"""

from typing import Annotated

from pydantic import AfterValidator, Field

from ..core.settings import Count, Listed, Rate, Seed, Settings, check
from ..core.words import AdapterPlaces, GateForm, GateGradient, Products, Regulariser

Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0, le=10**6)]
NotNegative = Annotated[float, Field(ge=0, le=10**6)]
Targets = Annotated[
    Listed[Annotated[float, Field(gt=0, lt=1)]],
    AfterValidator(
        check(lambda shares: list(shares) == sorted(set(shares), reverse=True), "must fall from each to the next")
    ),
]


class Recipe(Settings):
    """The settings of `headcount.sparsify`."""

    steps: Annotated[int, Field(ge=1, le=10**9)] = 500
    """Optimiser steps."""
    batch: Count = 8
    """Sequences per step, over all devices."""
    length: Annotated[int, Field(ge=2, le=10**6)] = 128
    """Tokens per sequence. Shares of open edges hold for this length alone."""
    pieces: Listed[Annotated[int, Field(ge=2, le=10**6)]] = ()
    """Also train on short sequences: steps take turns between whole ones and pieces of these lengths, each a divisor of
    the length, as many tokens a step. Shares of open edges are those of whole sequences with as many keys per query."""
    products: Products = "auto"
    """Precision of matrix products; weights and gates keep their own. By default bfloat16 on a GPU that computes in it,
    float32 elsewhere; some CPUs are several times as fast in bfloat16, others have no such instruction."""
    lora: Count | None = None
    """Train adapters of this rank; all weights by default."""
    lora_on: AdapterPlaces = "attention"
    """Put adapters on q, k, v and the output projection, or on every linear map of the layers, MLPs included."""
    control: bool = False
    """The same training with no gates: what the text alone does to the model."""

    form: GateForm = "log-prob"
    """Form of the gates."""
    gradient: GateGradient = "expected"
    """Gradient through the gates; relaxed is the paper's."""
    sharpness: Positive = 2.0
    """Sharpness β of the gates; 1 in the paper."""
    start: Annotated[float, Field(ge=-1000, le=1000)] | None = None
    """Where the heads' offsets begin: the logarithm of the threshold (log-prob) or the bias (logit)."""
    sinks: bool = False
    """Let every head attend to nothing: one more logit in its softmax, learned, without a value, and not counted."""

    target_open: Targets = ()
    """Shares of open edges, falling, such as 5%,2%,1%: a ladder of twins from one run, each trained for an equal part
    of the steps to lose as little as it can at its share. By default one twin, as sparse as the tolerance allows."""
    tolerance: NotNegative = 0.01
    """What may be lost on average, in nats per token."""
    kl: Share = 0.0
    """Share of KL in what is lost at a token: (1 - kl) (loss - dense loss) + kl KL(dense ‖ sparse)."""
    tail: Share = 0.0
    """Also bound what is lost on average over this share of the tokens, those that lose most; 0 for no such bound."""
    tail_tolerance: Positive = 0.5
    """What these tokens may lose on average, in nats per token."""
    by_source: bool = False
    """Bound what every source of text loses on average, each with a multiplier of its own, so that none pays for
    another; by default the mean over all of them."""
    regulariser: Regulariser = "log"
    """What is made small: the share of open edges, its logarithm, or the mean over heads of the logarithm of each
    head's, which shuts little used heads altogether rather than thin out the busy ones."""
    row_cost: NotNegative = 0.0
    """What the first open edge of a row (a head and a query) costs beyond the others, in edges. An edge costs 1."""
    distance_power: Annotated[float, Field(ge=-100, le=100)] | None = None
    """Count an edge by this power of its length; all alike by default."""

    lr: Rate | None = None
    """Learning rate of the weights; by default 1e-3 for adapters and 5e-5 for all of them."""
    gate_lr: Annotated[float, Field(ge=0, le=100)] = 5e-2
    """Learning rate of the heads' offsets."""
    warmup: Annotated[int, Field(ge=0, le=10**9)] = 20
    """Steps in which the learning rates rise."""
    cooldown: Share = 0.2
    """Share of the steps over which the learning rates go down to zero, at the end."""
    first_multiplier: Positive = 4.0
    """Multiplier of every bound at the start."""
    multiplier_speed: Positive = 0.05
    """How far the logarithm of a bound's multiplier moves in one step at most."""
    smoothing: Share = 0.9
    """Smoothing of what is lost, from step to step."""
    seed: Seed = 0
    """Seed of adapters, batches and gates."""

    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """The last share of every source, never trained on."""
    checkpoint_every: Count = 25
    """Steps between checkpoints."""
    evaluate_sequences: Count = 64
    """Held-out sequences to evaluate on, at most."""

    def length_at(self, step: int) -> int:
        """Of the sequences of a step."""
        return (self.length, *self.pieces)[step % (1 + len(self.pieces))]

    @property
    def rung_ends(self) -> list[int]:
        """How many steps are done at the end of each rung of the ladder; where there is none, of all training."""
        rungs = max(len(self.target_open), 1)
        return [self.steps // rungs * number for number in range(1, rungs)] + [self.steps]

    def rung_at(self, step: int) -> tuple[int, int, int]:
        """Which twin a step belongs to, and that one's first step and the one behind its last."""
        ends = self.rung_ends
        rung = next(number for number, end in enumerate(ends) if step < end)
        return rung, ends[rung - 1] if rung else 0, ends[rung]

    @property
    def first_offset(self) -> float:
        """By default gates begin so far open that the dense model's loss is hardly touched."""
        if self.start is not None:
            return self.start
        return 4.0 if self.form == "logit" else -4.5

    @property
    def weight_lr(self) -> float:
        return self.lr if self.lr is not None else (5e-5 if self.lora is None else 1e-3)
