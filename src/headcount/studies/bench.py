"""Models and examples in memory, loaded when a step first asks for them and reused by the steps after it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import psutil

from ..core.errors import HeadcountError
from ..core.keys import digest
from ..core.progress import waiting
from ..models import Model, is_local, load, takes_base
from . import STUDIES
from .panel import Fingerprinted, loading_of
from .plan import Asked, Job, Subject

Loader = Callable[..., Model]
"""Of a name, and of options such as device and dtype where a study has them."""
Loading = dict[str, str | bool]
KEPT_SHARE = 0.25
"""Models are kept while all of them together take less than this share of the machine's memory, or a worker's own."""


class Asks(Protocol):
    """What a step says of what it needs."""

    @property
    def label(self) -> str: ...
    @property
    def settings(self) -> Mapping[str, object]: ...
    @property
    def subject(self) -> Subject | None: ...


def _for_one(name: str, options: Loading, names: Sequence[str]) -> Loading:
    """The base of a study is that of its adapters, its revision that of its models on the hub; where it has none of
    them, its models say so."""
    base, revision = options.get("base"), options.get("revision")
    left_out = {"base"} if base and not takes_base(name) else set[str]()
    if revision and is_local(name) and not all(map(is_local, names)):
        left_out.add("revision")
    return {key: value for key, value in options.items() if key not in left_out}


@dataclass
class Bench:
    loader: Loader = load
    names: tuple[str, ...] = ()
    """All models of the study, to tell apart folders of the same name."""
    share: float = KEPT_SHARE
    _models: dict[tuple[str, str], Model] = field(default_factory=dict)
    _examples: dict[str, Fingerprinted] = field(default_factory=dict)

    def model(self, name: str, asked: Asked) -> Model:
        """As a panel asks for it: on its device, in its precision."""
        options = loading_of(asked["panel"])
        key = name, digest(options)
        if key not in self._models:
            with waiting(f"loading {name}"):
                model = self.loader(name, **_for_one(name, options, self.names))
                if sum(Path(other).name == model.name for other in self.names) > 1:
                    model = replace(model, name=name)
                _ = model.fingerprint  # takes a moment for large models
            weights = [weight for kept in (*self._models.values(), model) for weight in kept.hf.parameters()]
            size = sum(weight.numel() * weight.element_size() for weight in weights)
            if size > self.share * psutil.virtual_memory().total:
                self._models.clear()
            self._models[key] = model
        return self._models[key]

    @property
    def holds_all(self) -> bool:
        """Whether all models of the study are in memory."""
        return set(self.names) <= {name for name, _ in self._models}

    def clear(self) -> None:
        """Forget all, for those who need the memory; what is asked for again is loaded again."""
        self._models.clear()
        self._examples.clear()

    def examples(self, name: str, asked: Asked) -> Fingerprinted:
        """What a panel asks of a model, made once."""
        key = digest([name, asked])
        if key not in self._examples:
            kind = STUDIES.named(asked["kind"])
            self._examples[key] = kind.settings(**asked["panel"]).examples(self.model(name, asked))
        return self._examples[key]

    def job(
        self, step: Asks, advance: Callable[[float], None], note: Callable[[str], None]
    ) -> Job[Fingerprinted | None, Mapping[str, object]]:
        """What a step needs, checked against what it was planned with."""
        subject = step.subject
        if subject is None:
            return Job(step.settings, None, None, advance, note)  # type: ignore[arg-type]
        model, examples = self.model(subject.model, subject.asked), self.examples(subject.model, subject.asked)
        here = Subject.of(subject.model, model, subject.asked, examples).identity
        if any(subject.identity[key] != fact for key, fact in here.items()):
            what = f"{subject.model} or its examples"
            raise HeadcountError(f"{what} are not what the step {step.label!r} was planned with. Plan it again.")
        return Job(step.settings, model, examples, advance, note)
