"""What is left of a behaviour under many masks: of heads, of circuits, of attention edges, of written answers."""

from .attention_edges import AttentionEdgeMeter
from .circuits import CircuitMeter, Room
from .heads import HeadMeter
from .meter import TOKENS_A_PASS, Advance, Meter, Readings, Values, silent

__all__ = [
    "TOKENS_A_PASS",
    "Advance",
    "AttentionEdgeMeter",
    "CircuitMeter",
    "HeadMeter",
    "Meter",
    "Readings",
    "Room",
    "Values",
    "silent",
]
