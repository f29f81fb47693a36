"""Attention edges kept: each prompt has edges of its own, so scores and sweep are one job."""

from dataclasses import replace

from ..attention_edges import ORDERS, UNITS, edge_count, sweep_attention_edges
from ..curves import Curve
from ..errors import HeadcountError
from ..progress import Bar
from ..tasks.examples import pairs_only
from .jobs import Ledger, PanelResult
from .kept import KeptWork
from .spec import KeptPanel

ONLY = {"method": "attribution", "fill": "counterfactual", "positions": "all", "mode": "keep"}
"""They are scored by attribution, kept, and carry the counterfactual elsewhere."""


class AttentionEdgesWork(KeptWork):
    @classmethod
    def check(cls, panel: KeptPanel) -> None:
        super().check(panel)
        for key, only in ONLY.items():
            if getattr(panel, key) != only:
                raise HeadcountError(
                    f"Attention edges know the {key} {only!r} alone; the study asks for {getattr(panel, key)!r}."
                )
        if wrong := [order for order in panel.orders if order not in ORDERS]:
            raise HeadcountError(f"Attention edges have no order {wrong[0]!r}. Known: {', '.join(ORDERS)}.")

    def run(self, bar: Bar, ledger: Ledger) -> PanelResult:
        return PanelResult(None, [self.curve(order, bar, ledger) for order in self.panel.orders])

    def curve(self, order: str, bar: Bar, ledger: Ledger) -> Curve:
        settings = self.sweep_settings(order)
        bar.describe(f"{self.model.name} · {self.task.name} · {UNITS}, {order}")
        found = ledger.result(
            self.job("attention-sweep", **settings),
            Curve,
            lambda: sweep_attention_edges(self.model, self.task, advance=self.advance(bar), **settings),
            skipped=lambda: bar.advance(self.sweep_cost(order)),
        )
        return replace(found, model=self.model.name, task=self.task.name, title=self.task.title)

    def total(self) -> int:
        return edge_count(self.model, max(len(example.ids) for example in self.task.test))

    def say_forecast(self, quiet: bool) -> None:
        pairs_only(self.task.test, "A study of attention edges")
