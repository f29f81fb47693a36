"""Orders x meters -> curves: units kept or masked, heads ablated by role, answers under masks, heads pushed."""

from .curve import EXPLAINED, Curve, Ratio, UnitsNeeded, compare
from .sweep import sweep, sweep_attention_edges

__all__ = ["EXPLAINED", "Curve", "Ratio", "UnitsNeeded", "compare", "sweep", "sweep_attention_edges"]
