"""What a sparse model is worth on held-out text, its gates hard."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace

import torch
import torch.nn.functional as F
from pydantic import TypeAdapter
from torch import Tensor

from ..core.provenance import Facts
from ..models import Model
from ..models.gates import Gates, counted, drawn
from .abilities import Ability

Logits = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Evaluation:
    """On held-out sequences of one length, to which the shares belong."""

    length: int
    sequences: int
    loss: float  # nats per token, gates hard
    dense_loss: float  # of the dense model on the same text
    open_gates_loss: float  # of the trained weights with every gate open
    open_share: float  # open edges of all causal edges
    keys_a_query: float | None  # None where there are no gates, in a dense control
    empty_rows: float  # share of (head, query) that attend to nothing
    dead_heads: int  # heads of which no gate opened anywhere
    heads: int
    by_source: dict[str, dict[str, float]]  # loss and dense loss of every source
    open_by_head: list[list[float]] = field(default_factory=list)  # open edges of all causal edges, [layer][head]
    by_task: dict[str, dict[str, float]] = field(default_factory=dict)
    """What `Ability` says of every task that it was tried on, and the dense model's accuracy."""

    @classmethod
    def from_dict(cls, facts: Facts) -> "Evaluation":
        """What `to_dict` gave, also in older versions."""
        return TypeAdapter(cls).validate_python(facts)

    @property
    def in_words(self) -> str:
        """What it was measured on."""
        sequences = "1 held-out sequence" if self.sequences == 1 else f"{self.sequences} held-out sequences"
        return sequences if self.keys_a_query is None else f"{sequences}, gates hard"

    @property
    def relative_loss(self) -> float:
        """How much higher the loss is than the dense model's."""
        return self.loss / self.dense_loss - 1

    def rows(self) -> list[tuple[str, str]]:
        """For tables and cards."""
        found = [
            ("loss", f"{self.loss:.4f} nats per token"),
            ("the dense model's", f"{self.dense_loss:.4f} ({self.relative_loss:+.2%})"),
        ]
        if self.keys_a_query is not None:
            found += [
                ("with every gate open", f"{self.open_gates_loss:.4f}"),
                ("open edges", f"{self.open_share:.3%} of the causal edges at T = {self.length}"),
                ("keys per query", f"{self.keys_a_query:.3f}"),
                ("rows that attend to nothing", f"{self.empty_rows:.1%}"),
                ("heads that never open", f"{self.dead_heads} of {self.heads}"),
            ]
        return found

    def with_tasks(self, before: dict[str, Ability], after: dict[str, Ability]) -> "Evaluation":
        """With what the dense model could do, and what this one can."""
        found = {name: {**vars(ability), "dense_accuracy": before[name].accuracy} for name, ability in after.items()}
        known = {name: {key: v for key, v in each.items() if v is not None} for name, each in found.items()}
        return replace(self, by_task=known)

    def task_rows(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Head and rows of a table of the tasks."""
        head: tuple[str, ...] = ("task", "dense accuracy", "accuracy", "prompts")
        rows: list[tuple[str, ...]] = [
            (name, f"{of['dense_accuracy']:.1%}", f"{of['accuracy']:.1%}", f"{of['prompts']:.0f}")
            for name, of in self.by_task.items()
        ]
        if self.keys_a_query is None:
            return head, rows
        opened = [(f"{of['keys_a_query']:.3f}", f"{of['empty_rows']:.1%}") for of in self.by_task.values()]
        return (*head, "keys per query", "empty rows"), [(*row, *more) for row, more in zip(rows, opened, strict=True)]

    def to_dict(self) -> Facts:
        return asdict(self)


@torch.no_grad()
def evaluate(
    model: Model, gates: tuple[Gates, ...], dense_logits: Logits, held_out: dict[str, Tensor], batch: int, at_most: int
) -> Evaluation:
    """On `at_most` of the held-out sequences, every source in proportion to its size."""
    chosen = sample(held_out, at_most)
    rows = empty = 0.0
    by_head = torch.zeros(2, model.n_layers, model.n_heads, dtype=torch.float64)  # open edges, and all
    by_source: dict[str, dict[str, float]] = {}
    open_loss = tokens = 0.0
    for source, sequences in chosen.items():
        loss = dense_loss = 0.0
        for ids in sequences.split(batch):
            ids = ids.to(model.device)
            with counted(gates) as ledger, drawn(gates, "hard"):
                lost = total_loss(model.logits(ids), ids)
            loss += lost
            dense_loss += total_loss(dense_logits(ids), ids)
            with drawn(gates, "open"):
                open_loss += total_loss(model.logits(ids), ids) if gates else lost
            for layer, (opened, there) in enumerate(zip(ledger.open, ledger.edges, strict=True)):
                by_head[0, layer] += opened.sum((0, 2)).double().cpu()
                by_head[1, layer] += there.expand_as(opened).sum((0, 2)).double().cpu()
                rows += opened.numel()
                empty += float((opened == 0).sum())
        count = sequences[:, 1:].numel()
        tokens += count
        by_source[source] = {"loss": loss / count, "dense_loss": dense_loss / count, "sequences": float(len(sequences))}
    total = sum(source["sequences"] for source in by_source.values())

    def mean(name: str) -> float:
        return sum(source[name] * source["sequences"] for source in by_source.values()) / total

    length = int(next(iter(chosen.values())).shape[1])
    means = mean("loss"), mean("dense_loss"), open_loss / tokens
    open_edges, edges = (float(side.sum()) for side in by_head)
    shares = open_edges / edges if edges else 1.0, open_edges / rows if rows else None, empty / rows if rows else 0.0
    dead = int((by_head[0] == 0).sum()) if gates else 0
    open_by_head = (by_head[0] / by_head[1]).tolist() if gates else []
    return Evaluation(length, int(total), *means, *shares, dead, model.head_count, by_source, open_by_head)


def sample(held_out: dict[str, Tensor], at_most: int) -> dict[str, Tensor]:
    """Sequences of every source in proportion to its size, at least one, spread over it evenly."""
    share = min(at_most / sum(map(len, held_out.values())), 1.0)
    chosen = {}
    for source, sequences in held_out.items():
        wanted = max(round(len(sequences) * share), 1)
        chosen[source] = sequences[torch.linspace(0, len(sequences) - 1, wanted).round().long()]
    return chosen


def total_loss(logits: Tensor, ids: Tensor) -> float:
    """Nats of every token but the first. A number and not a tensor: one that stays between two batches of logits keeps
    the next from taking the place of the last."""
    return float(F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten(), reduction="sum"))
