"""Results that show themselves in a notebook. How they look is decided where pages are made, and looked up late."""

from collections.abc import Callable
from typing import cast

from .registry import resolve

NOTEBOOK = "headcount.view.page.notebook:notebook_html"


class Shown:
    def _repr_html_(self) -> str:
        """For notebooks; elsewhere the text of `repr` stands for it."""
        return cast(Callable[[object], str], resolve(NOTEBOOK))(self)
