"""headcount: how many attention heads does a behaviour need, and which ones?

    import headcount as hc

    model = hc.load("smollm2")
    task = hc.task("ioi", model)
    scores = hc.score(model, task, "attribution")
    curve = hc.sweep(model, task, scores)
    print(curve.units_needed(0.9))
    hc.plot(curve).savefig("ioi.pdf")

The public names stand in __init__.pyi. They are looked up when they are first used, so that importing headcount imports
no torch, and next to nothing else: the command line answers Ctrl-C only after it.
"""

__version__ = "0.7.0.dev0"
_homes: dict[str, str] = {}


def _home() -> dict[str, str]:
    """Public name -> the module that it lives in."""
    if not _homes:
        import ast
        from pathlib import Path

        stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
        imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
        _homes.update({alias.name: f".{node.module}" for node in imports for alias in node.names})
    return _homes


def __getattr__(name: str) -> object:
    if name == "__all__":
        return sorted(_home())
    if name not in _home():
        raise AttributeError(f"headcount has no {name!r}; it has {', '.join(sorted(_home()))}")
    from importlib import import_module

    return getattr(import_module(_home()[name], __name__), name)


def __dir__() -> list[str]:
    return [*sorted(_home()), "__version__"]
