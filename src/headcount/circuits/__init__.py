"""Circuits: sets of edges of the residual stream. What a run reads and writes there, what is left of a behaviour when
only some edges are kept, and circuits as files."""

from .files import Circuit as Circuit
from .meter import CircuitMeter as CircuitMeter
