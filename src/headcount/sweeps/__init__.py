"""Orders x meters -> curves: units kept or masked, heads ablated by role, answers under masks, heads pushed."""

from .control import control
from .curve import EXPLAINED, Curve
from .needed import Closeness, Confirmed, UnitsNeeded
from .ratio import Ratio, compare
from .repeats import Repeats, compare_repeats
from .sweep import sweep, sweep_attention_edges

__all__ = [
    "EXPLAINED",
    "Closeness",
    "Confirmed",
    "Curve",
    "Ratio",
    "Repeats",
    "UnitsNeeded",
    "compare",
    "compare_repeats",
    "control",
    "sweep",
    "sweep_attention_edges",
]
