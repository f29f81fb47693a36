"""Where a result comes from: versions, hashes of model and data, and the arguments of the call."""

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .models import Model
    from .tasks.examples import Task

Facts = dict[str, Any]


@cache
def versions() -> dict[str, str]:
    """Of everything that can change a number."""
    found = {"python": platform.python_version()}
    for package in ("headcount", "torch", "transformers", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found


def provenance(model: "Model", task: "Task", arguments: Facts) -> Facts:
    return {
        "versions": versions(),
        "model": {
            "name": model.name,
            "class": type(model.hf).__name__,
            "sha256": model.fingerprint,
            "dtype": str(model.hf.dtype).removeprefix("torch."),
            "device": model.device.type,
            "attention": model.hf.config._attn_implementation,
        },
        "task": {
            "name": task.name,
            "sha256": task.fingerprint,
            "train_pairs": len(task.train),
            "test_pairs": len(task.test),
        },
        "arguments": arguments,
    }
