"""What the panels of all studies have. Every field is a key of the TOML, an option of the command line, and an entry of
the schema; its docstring is its help. (Free of torch, for the command line's sake.)"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Protocol, Self

from pydantic import AfterValidator, Field

from ..core.plain import plain
from ..core.settings import Listed, Seed, Settings, check
from ..core.words import DtypeName, SplitBy

if TYPE_CHECKING:
    from ..models import Model

Texts = Annotated[Listed[str], AfterValidator(check(bool, "must be a list of texts that is not empty"))]


Table = dict[str, object]
"""Keys and values of a panel, as a TOML has them."""


LOADING = {"device": "device", "dtype": "dtype", "revision": "revision", "bos": "bos", "base_model": "base"}
"""Keys of a panel, and what `headcount.load` calls them."""


def loading_of(panel: Table) -> dict[str, str | bool]:
    """What `headcount.load` is told beside the name, of the facts of a panel."""
    return {
        argument: value
        for key, argument in LOADING.items()
        if isinstance(value := panel.get(key), str | bool) and value
    }


class Fingerprinted(Protocol):
    """Examples, which a hash tells apart."""

    @property
    def fingerprint(self) -> str: ...


def _once(value: object) -> object:
    """A list of texts without those that come twice; anything else is left for the check of its type."""
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        return list(dict.fromkeys(value))
    return value


class Panel(Settings):
    """One task, and the models that it is asked of."""

    ONCE: ClassVar[tuple[str, ...]] = ("models",)
    """Lists in which what is given twice counts once."""
    FILES: ClassVar[tuple[str, ...]] = ("task",)
    """Keys that may name a local file or folder."""

    TAKES_MEMORY: ClassVar[bool] = False
    """Whether memory beyond the model decides how much runs at once."""

    task: str
    """Task, or a file of your own (JSONL, CSV, Parquet; dataset:NAME); may be repeated."""
    models: Texts = ("smollm2",)
    """Model to run on: a name, a folder (also of an adapter), a GGUF file or a hub id; may be repeated."""
    title: str = ""
    """Of the panel; the task's own by default."""
    metric: str = ""
    """What is measured: logit_diff, prob_diff, log_prob, log_prob_per_token or accuracy; the task's own by default."""
    n: Annotated[int, Field(ge=2, le=10**9)] = 200
    """Examples, in all splits together."""
    seed: Seed = 0
    """Seed of the examples and of everything random."""
    device: str = ""
    """Device: cpu, cuda or mps; by default the best one available."""
    dtype: DtypeName = ""
    """Precision of the weights; by default float32 on the CPU, elsewhere that of the checkpoint."""
    revision: str = ""
    """Branch, tag or commit of models on the hub."""
    base_model: str = ""
    """The model that adapters go on, where it is not where it was in training; other models do not use it."""
    bos: bool = False
    """Begin prompts with the beginning-of-text token also where the tokenizer does not add it."""
    split: SplitBy = "words"
    """What train and test do not share: words of answers, or, of built-in pairs, templates and all that fills them."""

    def __init__(self, **values: object) -> None:
        super().__init__(**{key: _once(value) if key in self.ONCE else value for key, value in values.items()})

    @classmethod
    def apart(cls, tables: Sequence[Table]) -> list[Table]:
        """The tables of a study's panels; one that asks several questions becomes a panel for each."""
        return list(tables)

    def drawn_with(self, other: "Panel") -> bool:
        """Whether this panel and the one before it are one drawing."""
        return False

    def check_words(self) -> None:
        """Say what is wrong with the names in it, as far as that can be known without torch."""

    def check(self) -> None:
        """Say what can be known to be wrong before a model is loaded."""
        from ..tasks import require_task

        require_task(self.task)

    @classmethod
    def check_together(cls, panels: "Sequence[Self]", path: str) -> None:
        """Say what can be known to be wrong with panels that stand in one study."""

    def measured(self, tests: int) -> int:
        """How many of so many test examples are measured."""
        return tests

    def examples(self, model: "Model") -> Fingerprinted:
        """What is asked of a model."""
        from dataclasses import replace

        from ..tasks import task as make_task

        made = make_task(self.task, model, n=self.n, seed=self.seed, split=self.split)
        return replace(made, title=plain(self.title) or made.title, metric=self.metric or made.metric)
