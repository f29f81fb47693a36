"""StarCoder2 has Llama's module names, but its MLP does not multiply two projections of its input."""

from headcount import Family, Wires

FAMILY = Family(edges=Wires(gated=False))
