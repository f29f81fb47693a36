"""Where a result comes from: versions, hashes of model and data, and the arguments of the call."""

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Protocol

Facts = dict[str, object]
"""What is written as JSON. Who reads one of them has to look at what it is."""
BASE = ("headcount", "torch", "transformers", "tokenizers", "numpy")  # what every number comes from


class Described(Protocol):
    def facts(self) -> Facts:
        """What a result depends on, for JSON."""


@cache
def versions(*others: str) -> dict[str, str]:
    """Of Python and of every library that a number comes from; `others` stand beside the usual ones."""
    found = {"python": platform.python_version()}
    for package in (*BASE, *others):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def provenance(model: Described, task: Described, arguments: Facts) -> Facts:
    return {"versions": versions(), "model": model.facts(), "task": task.facts(), "arguments": arguments}


def part_of(origin: Facts, part: str) -> Facts:
    """What a provenance that was read says of its model, task or arguments; nothing, where it is no table."""
    found = origin.get(part)
    return found if isinstance(found, dict) else {}
