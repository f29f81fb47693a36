"""What results can be written as for other tools, by name: one file per format below `export/`, and one entry here.

An export says what it takes, whether it writes a file or a folder, and which options it has. What it takes decides how
the user's result is opened (`studies/exporting.py`), and which options say what part of it is meant:

    circuit   a set of edges                          top, by
    scores    one number per head                     -
    cut       a model and the heads to be removed     model, top, weakest, heads, groups, fill, ...
    results   all tables that a folder holds          -

Nothing here imports torch, so that the command line can say what there is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from .errors import HeadcountError
from .export_options import (
    CacheOptions,
    CheckpointOptions,
    CircuitChoice,
    CutChoice,
    DatasetOptions,
    HookOptions,
    NoOptions,
    SvgOptions,
)
from .files import write_file, write_folder
from .registry import Registry, resolve
from .settings import Settings

Takes = Literal["circuit", "scores", "cut", "results"]
Writes = Literal["file", "folder"]
Content = str | bytes


CHOICES: dict[Takes, type[Settings]] = {
    "circuit": CircuitChoice,
    "scores": NoOptions,
    "cut": CutChoice,
    "results": NoOptions,
}
NAMES: dict[Takes, str] = {
    "circuit": "a circuit or scores of edges",
    "scores": "scores of heads",
    "cut": "scores of heads, or --heads",
    "results": "any results",
}
"""What an export takes, in words."""


@dataclass(frozen=True)
class Export:
    """`target` is a function, or the name of one below `export/`: (what it takes, options) -> the text of a file; or
    (what it takes, options, folder), which fills the folder."""

    summary: str
    takes: Takes
    target: str | Callable[..., object]
    writes: Writes = "file"
    options: type[Settings] = NoOptions

    @property
    def choice(self) -> type[Settings]:
        """The options that say which part of a result is meant."""
        return CHOICES[self.takes]

    def write(self, subject: object, place: str | Path, options: Mapping[str, object]) -> Path:
        """Write one thing of the kind that the export takes; the file or folder is whole or absent."""
        asked, out = self.options(**options), Path(place)
        function = self.target if callable(self.target) else _own(self.target)
        if self.writes == "file":
            if out.is_dir():
                raise HeadcountError(f"This export writes a file, and {out} is a folder. Name a file in it.")
            content = cast(Content, function(subject, asked))
            out.parent.mkdir(parents=True, exist_ok=True)
            write_file(out, content)
            return out
        if out.is_file() or (out.is_dir() and any(out.iterdir())):
            raise HeadcountError(f"This export writes a new folder, and {out} is there already. Name another one.")
        with write_folder(out, is_whole=lambda folder: False) as unfinished:
            function(subject, asked, unfinished)
        return out


def _own(target: str) -> Callable[..., object]:
    return cast(Callable[..., object], resolve(f"headcount.export.{target}"))


def register_export(name: str, export: Export) -> None:
    """Make an export of your own known by a name, in Python and on the command line."""
    EXPORTS.add(name, export)


OWN: dict[str, Export] = {
    "checkpoint": Export(
        "a Hugging Face folder of the model without the heads",
        "cut",
        "checkpoint:checkpoint",
        "folder",
        options=CheckpointOptions,
    ),
    "kv-cache": Export(
        "which KV heads need a full cache. For DuoAttention, kvpress, HeadKV and vLLM-Hook",
        "scores",
        "kv_cache:kv_cache",
        "folder",
        options=CacheOptions,
    ),
    "hooks": Export(
        "the cut as Python text. For PyTorch, TransformerLens, nnsight or pyvene",
        "cut",
        "hooks:hooks",
        options=HookOptions,
    ),
    "dataset": Export(
        "every table as Parquet, ready for the hub. With a section for a model card",
        "results",
        "dataset:dataset",
        "folder",
        options=DatasetOptions,
    ),
    "mib": Export("MIB's and EAP-IG's graph JSON", "circuit", "mib:mib"),
    "graphml": Export("GraphML for networkx and Gephi", "circuit", "graphml:graphml"),
    "svg": Export("a drawing of the circuit", "circuit", "svg:svg", options=SvgOptions),
}
EXPORTS: Registry[Export] = Registry("export", "headcount.exports", OWN, Export)
