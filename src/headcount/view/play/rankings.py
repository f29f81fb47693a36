"""Orders of heads to cut or keep by: saved scores and roles, detectors, and methods that score heads here and now."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from typing_extensions import TypedDict

from ...core.errors import HeadcountError, did_you_mean
from ...core.saving import Floats
from ...core.words import PLAIN_ORDERS, ROLES
from ...edit import head_name
from ...models import Model
from ...models.changes import changing
from ...rank import METHODS
from ...rank.roles import HeadRoles
from ...rank.score import score
from ...rank.scores import HeadScores, ranked
from ...tasks import task as make_task
from ...tasks.examples import Completion, Task
from .aside import apart

DETECTORS = ("induction", "previous-token", "duplicate-token")
ROWS = 16
"""Rows of random tokens that detectors look at, and train prompts that methods score on."""
STEPS = 5  # of an integrated gradient
MOST = 200
"""Saved results that are listed."""


class Order(TypedDict):
    """Heads from the first to be kept to the last."""

    name: str
    heads: list[str]
    values: list[float]  # of these heads, in this order
    high: int  # how many of them come before chance or one half; what k begins with


class Ranking(TypedDict):
    name: str
    about: str
    orders: list[Order]


class Source(TypedDict):
    """Where a ranking can be had."""

    name: str
    kind: str  # saved, detector, or method
    about: str


@dataclass
class Rankings:
    """What there is for one model. Folders are looked through once; a source is asked for by its name alone."""

    model: Model
    results: Path | None = None
    folders: dict[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._own = apart(self.model)  # before anybody sets a hook, which would be copied too

    def sources(self) -> list[Source]:
        self.folders = dict(self._saved())
        found: list[Source] = [{"name": name, "kind": "saved", "about": "saved scores"} for name in self.folders]
        found += [{"name": name, "kind": "detector", "about": METHODS[name].summary} for name in DETECTORS]
        if self.model.tokenizer is not None:
            found += [
                {"name": name, "kind": "method", "about": method.summary}
                for name, method in METHODS.sound().items()
                if method.units == "heads" and method.samples == "examples" and name not in DETECTORS
            ]
        return found

    def _saved(self) -> list[tuple[str, Path]]:
        """Folders below the results whose scores or roles are of a model with as many heads."""
        if self.results is None or not self.results.is_dir():
            return []
        places = sorted(path for kind in (HeadScores, HeadRoles) for path in self.results.rglob(f"{kind.FILE}.json"))
        return [(str(path.parent.relative_to(self.results)), path.parent) for path in places[:MOST]]

    def prompts(self, name: str) -> int:
        """How many prompts are run for it; none where it is there already."""
        scored = name not in self.folders and name in METHODS and METHODS[name].units == "heads"
        return ROWS * METHODS[name].forwards(self.model.head_count, STEPS) if scored else 0

    def get(self, name: str, task: str, advance: Callable[[int], None], pause: Callable[[], None]) -> Ranking:
        """By name: a saved result, a detector, or a method, which scores heads on a task. `pause` is called wherever a
        layer begins: others may then use the model, as what scores has modules of its own."""
        if name in self.folders:
            return self._load(name)
        if name not in METHODS or METHODS[name].units != "heads":
            known = [*self.folders, *(source["name"] for source in self.sources())]
            raise HeadcountError(f"There is no ranking {name[:60]!r}.{did_you_mean(name[:60], known)}"[:300])
        if name in DETECTORS:
            row = Completion((0,), (0,))  # they look at random tokens, as many rows as there are examples
            examples = Task("random tokens", "Random tokens", "log_prob", (row,) * ROWS, (row,) * ROWS)
        else:
            examples = make_task(task, self.model, n=2 * ROWS)
        with changing() as changes:
            for layer in self._own.anatomy.layers:
                changes.before(layer, lambda *_: pause())
            found = score(self._own, examples, name, steps=STEPS, advance=advance)
        assert isinstance(found, HeadScores)
        return self._of_scores(name, found)

    def _load(self, name: str) -> Ranking:
        place = self.folders[name]
        if (place / f"{HeadRoles.FILE}.json").is_file():
            roles = HeadRoles.load(place)
            roles.scores().require_shape(self.model.name, self.model.n_layers, self.model.n_heads)
            maps: dict[str, Floats] = {role: roles.aggregate(role) for role in ROLES}
            about = f"roles of {roles.model} on {roles.task}"
            orders = [self._order(role, values, int((values >= 0.5).sum())) for role, values in maps.items()]
            return {"name": name, "about": about, "orders": orders}
        return self._of_scores(name, HeadScores.load(place))

    def _of_scores(self, name: str, scores: HeadScores) -> Ranking:
        orders = PLAIN_ORDERS if scores.signed else ("absolute",)
        scores.require_shape(self.model.name, self.model.n_layers, self.model.n_heads)
        made = []
        for order in orders:
            heads = scores.order(order)
            values = [float(scores.values[head]) for head in heads]
            named = [head_name(head) for head in heads]
            made.append(Order(name=order, heads=named, values=values, high=min(20, len(heads))))
        return {"name": name, "about": f"{scores.method} of {scores.model} on {scores.task}", "orders": made}

    def _order(self, name: str, values: Floats, high: int) -> Order:
        places = ranked(values.ravel(), "signed").tolist()
        heads = [head_name(divmod(place, self.model.n_heads)) for place in places]
        return {"name": name, "heads": heads, "values": values.ravel()[places].tolist(), "high": high}
