"""Models that lie in the package: `tiny`, trained from scratch on generated text, its sparse twin, and the adapters
that turn smollm2 into its sparse twin and into the dense control of that."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

HOME = Path(__file__).parent / "weights"
NAMES = ("tiny", "tiny-sparse", "smollm2-sparse", "smollm2-control")
FOLDERS: dict[str, Callable[[], Path]] = {name: partial(HOME.joinpath, name) for name in NAMES}
