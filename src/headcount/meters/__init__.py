"""What is left of a behaviour under many masks: of heads, of circuits, of attention edges, of written answers."""

from .attention_edges import AttentionEdgeMeter as AttentionEdgeMeter
from .circuits import CircuitMeter as CircuitMeter
from .heads import HeadMeter as HeadMeter
from .meter import TOKENS_A_PASS as TOKENS_A_PASS
from .meter import Advance as Advance
from .meter import Meter as Meter
from .meter import Readings as Readings
from .meter import Values as Values
from .meter import silent as silent
