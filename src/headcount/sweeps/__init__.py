"""Orders x meters -> curves: units kept or masked, heads ablated by role, answers under masks, heads pushed."""

from .curve import EXPLAINED as EXPLAINED
from .curve import Curve as Curve
from .curve import UnitsNeeded as UnitsNeeded
from .ratio import Ratio as Ratio
from .ratio import compare as compare
from .sweep import sweep as sweep
from .sweep import sweep_attention_edges as sweep_attention_edges
