"""headcount: how many attention heads does a behaviour need, and which ones?

    import headcount as hc

    model = hc.load("smollm2")
    task = hc.task("ioi", model)
    scores = hc.score(model, task, "attribution")
    curve = hc.sweep(model, task, scores)
    print(curve.units_needed(0.9))
    hc.plot(curve).savefig("ioi.pdf")

The public names stand in __init__.pyi. They are looked up when they are first used, so that importing headcount imports
no torch.
"""

import ast
from importlib import import_module
from pathlib import Path

from .core.errors import HeadcountError as HeadcountError

__version__ = "0.7.0.dev0"


def _homes() -> dict[str, str]:
    """Public name -> the module that it lives in."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: f".{node.module}" for node in imports for alias in node.names}


_HOME = _homes()
__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"headcount has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_HOME[name], __name__), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
