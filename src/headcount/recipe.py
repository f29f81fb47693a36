"""Everything that a post-training run is decided by, and nothing that it finds out. (Free of torch, for the command
line's sake.)"""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from .errors import HeadcountError, require_seed

Form = Literal["logit", "log-prob"]
FORMS: tuple[Form, ...] = get_args(Form)
Gradient = Literal["expected", "relaxed"]
GRADIENTS: tuple[Gradient, ...] = get_args(Gradient)
Regulariser = Literal["linear", "log", "log-heads"]
REGULARISERS: tuple[Regulariser, ...] = get_args(Regulariser)


@dataclass(frozen=True)
class Recipe:
    """The settings of `headcount.sparsify`."""

    steps: int = 500
    batch: int = 8
    """Sequences a step, over all devices."""
    length: int = 128
    """Tokens a sequence. Shares of open edges hold for this length alone."""
    lora: int | None = None
    """Rank of the adapters on q, k, v and the output projection; None trains every weight."""
    control: bool = False
    """Train the same weights on the same text with no gates: what the text alone does to the model."""

    form: Form = "log-prob"
    gradient: Gradient = "expected"
    sharpness: float = 2.0
    """β; 1 in the paper."""
    start: float | None = None
    """Where the heads' offsets begin: the logarithm of the threshold (`log-prob`) or the bias (`logit`)."""

    tolerance: float = 0.01
    """What may be lost on average, in nats a token."""
    kl: float = 0.0
    """What is lost at a token: (1 - kl) (loss - dense loss) + kl KL(dense ‖ sparse)."""
    tail: float = 0.0
    """Also bound what is lost on average over this share of the tokens, those that lose most; 0: no such bound."""
    tail_tolerance: float = 0.5
    regulariser: Regulariser = "log"
    """What is made small: the share of open edges, its logarithm, or the mean over heads of the logarithm of each
    head's, which shuts little used heads altogether rather than thin out the busy ones."""
    distance_power: float | None = None
    """Count an edge by this power of its length; None counts all alike."""

    lr: float | None = None
    """Of the weights; by default 1e-3 for adapters and 5e-5 for all of them."""
    gate_lr: float = 5e-2
    """Of the heads' offsets."""
    warmup: int = 20
    cooldown: float = 0.2
    """The share of the steps over which the learning rates go down to zero, at the end."""
    first_multiplier: float = 4.0
    """Of every bound."""
    multiplier_speed: float = 0.05
    """How far the logarithm of a bound's multiplier moves in one step at most."""
    smoothing: float = 0.9
    seed: int = 0

    held_out: float = 0.05
    """The last share of every source, never trained on."""
    checkpoint_every: int = 25
    evaluate_sequences: int = 64

    @property
    def first_offset(self) -> float:
        """By default gates begin so far open that the dense model's loss is hardly touched."""
        if self.start is not None:
            return self.start
        return 4.0 if self.form == "logit" else -4.5

    @property
    def weight_lr(self) -> float:
        return self.lr if self.lr is not None else (5e-5 if self.lora is None else 1e-3)

    def check(self) -> "Recipe":
        for name in ("steps", "batch", "length", "checkpoint_every", "evaluate_sequences", "warmup"):
            _require(type(getattr(self, name)) is int, name, "a whole number", getattr(self, name))
        for name, least in {
            "steps": 1,
            "batch": 1,
            "length": 2,
            "checkpoint_every": 1,
            "evaluate_sequences": 1,
        }.items():
            _require(getattr(self, name) >= least, name, f"at least {least}", getattr(self, name))
        for name in ("kl", "tail", "cooldown", "smoothing"):
            _require(0 <= getattr(self, name) <= 1, name, "a share from 0 to 1", getattr(self, name))
        for name in ("sharpness", "tail_tolerance", "multiplier_speed", "first_multiplier"):
            _require(getattr(self, name) > 0, name, "above 0", getattr(self, name))
        _require(self.weight_lr > 0, "lr", "above 0", self.lr)
        for name in ("tolerance", "gate_lr"):
            _require(getattr(self, name) >= 0, name, "0 or more", getattr(self, name))
        _require(0 < self.held_out < 1, "held_out", "a share above 0 and below 1", self.held_out)
        _require(
            self.lora is None or (type(self.lora) is int and self.lora > 0),
            "lora",
            "a rank above 0, or none",
            self.lora,
        )
        _require(self.form in FORMS, "form", f"one of {', '.join(FORMS)}", self.form)
        _require(self.gradient in GRADIENTS, "gradient", f"one of {', '.join(GRADIENTS)}", self.gradient)
        _require(self.regulariser in REGULARISERS, "regulariser", f"one of {', '.join(REGULARISERS)}", self.regulariser)
        require_seed(self.seed)
        return self

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def _require(holds: bool, name: str, wanted: str, came: object) -> None:
    if not holds:
        raise HeadcountError(f"{name} must be {wanted}. Got {came!r}.")
