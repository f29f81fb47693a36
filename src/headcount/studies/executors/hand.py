"""A worker: it keeps its models from step to step, runs errands, and answers in plain data."""

import os
import platform
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from typing_extensions import TypedDict

from ...core.cache import Store, cache_folder
from ...core.errors import HeadcountError
from ...core.limits import limit_in_words
from ..bench import KEPT_SHARE, Bench
from .crew import Paid
from .errand import Errand

PASSED_ON = ("HF_", "HEADCOUNT_", "TRANSFORMERS_", "ONEDNN_", "MKL_", "TOKENIZERS_")
"""Beginnings of the names of settings that a worker takes from the driver's environment."""


Ending = Literal["done", "refused", "failed"]


class Setup(TypedDict):
    settings: dict[str, str]
    """Of the environment."""
    store: str
    names: list[str]
    """Of the models of a study."""
    folder: str
    share: float


class Answer(TypedDict):
    """How an errand ended: what became of it, in words where it did not end well, and what was paid."""

    kind: Ending
    words: str
    paid: float


def setup_of(store: Store, names: tuple[str, ...], share: float = 1.0) -> Setup:
    """What a worker has to know, in plain data. `share`: of a machine's memory that is its own."""
    settings = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
    settings["HEADCOUNT_CACHE"] = str(cache_folder().resolve())
    place = str(store.folder.resolve())
    return {"settings": settings, "store": place, "names": list(names), "folder": os.getcwd(), "share": share}


class Hand:
    """One worker's models, its store, and how far it is."""

    def __init__(self, setup: Setup, store: Store | None = None) -> None:
        """`store`: its own, where it does not share the driver's."""
        os.environ.update({key: value for key, value in setup["settings"].items() if key != "HEADCOUNT_CACHE"})
        if store is None:
            os.environ["HEADCOUNT_CACHE"] = setup["settings"]["HEADCOUNT_CACHE"]
        with suppress(OSError):  # models and tasks may be named by where they lie beside the study
            os.chdir(setup["folder"])
        self.store = store or Store(Path(setup["store"]))
        self.bench = Bench(names=tuple(setup["names"]), share=KEPT_SHARE * setup["share"])
        self.paid = Paid()

    def do(self, errand: Mapping[str, object]) -> Answer:
        self.paid = Paid()
        kind: Ending = "done"
        words = ""
        try:
            Errand.parse(dict(errand)).run(self.bench, self.store, self.paid, lambda words: None)
        except HeadcountError as error:
            kind, words = "refused", f"{error} (On {platform.node()}.)"
        except Exception as error:
            told = limit_in_words(error)
            kind, words = "refused" if told else "failed", told or "".join(traceback.format_exception(error))
        return {"kind": kind, "words": words, "paid": self.paid.total}
