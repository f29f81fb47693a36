"""The settings of a panel. Every field is a key of the TOML and an option of the command line; its docstring is its
help."""

from headcount import Panel
from headcount.core.settings import Count


class SingleHeads(Panel):
    fill: str = "counterfactual"
    """What a removed head carries: counterfactual, mean, zero, …"""
    together: Count = 8
    """Heads that the curve removes together, at most."""

    def check(self) -> None:
        from headcount.edit import Fill

        Fill.parse(self.fill)
