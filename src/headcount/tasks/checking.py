"""`headcount tasks check`: what a study reads in a file, line by line, and what usually goes wrong with it.

Each line is read as every study reads it (`jsonl.read_each`), then the model answers it. What is looked for beyond it:

    an answer without a space in front, where the model would write one   its probability is next to nothing
    right and wrong answers whose texts begin with the same token         nothing to tell them apart by
    an answer that is a number, and so the id of a token, behind a prompt of text
    a corrupt prompt that is the clean one                                nothing differs between them
    the same line twice
    a tokenizer that puts no beginning-of-text token in front, where the model does better with one
    an accuracy that is not told from guessing
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..core.errors import HeadcountError
from ..core.plain import quoted
from ..models import Model
from . import tokens_of
from .batches import collate
from .examples import Completion, Example, Pair
from .jsonl import Entry, examples_of, have_targets, read_each, read_entry
from .source import Tokens

MUCH_BETTER = 10.0
"""An answer with a space is the one that was meant where it is so many times as probable."""
BETTER_WITH_START = 0.5
"""So many nats per token more, with the beginning-of-text token, say that the model was trained with it."""
ANSWERS = ("answer", "wrong", "target", "choices")


@dataclass(frozen=True)
class LineCheck:
    """One line of a file, as a model sees it."""

    number: int
    error: str = ""
    """Why no study takes it."""
    prompt_tokens: int = 0
    answer_tokens: int = 0
    answer: str = ""
    """Its text; of several, the first one's."""
    right: bool = False
    probability: float = 0.0
    """Of the answer's first token, or tokens."""
    said: str = ""
    """The next token that the model finds most probable."""
    warnings: tuple[str, ...] = ()
    needs_space: bool = False
    repeats: int | None = None
    """The earlier line with the same example, which counts in its place."""


@dataclass(frozen=True)
class FileCheck:
    lines: tuple[LineCheck, ...]
    chance: float
    """Accuracy of guessing."""
    warnings: tuple[str, ...]
    """Of the file as a whole."""
    refused: str = ""
    """Why no study takes the file, as a study says it."""

    @property
    def used(self) -> list[LineCheck]:
        """Examples, each once."""
        return [line for line in self.lines if not line.error and line.repeats is None]

    @property
    def accuracy(self) -> float:
        return sum(line.right for line in self.used) / max(len(self.used), 1)

    @property
    def without_space(self) -> list[int]:
        """Lines whose answers were most likely meant with a space in front."""
        return [line.number for line in self.lines if line.needs_space]


@torch.no_grad()
def check_entries(model: Model, entries: Mapping[int, Entry], where: str = "file") -> FileCheck:
    """Every line by its number; `where` is how a refusal calls the file."""
    tokens, used = tokens_of(model), list[Example]()
    lines: dict[int, LineCheck] = {}
    with_targets = have_targets(entries)
    for line in read_each(entries, tokens):
        entry = entries[line.number]
        if line.example is None:
            meant = _readable(_spaced(entry), with_targets, tokens)
            lines[line.number] = LineCheck(line.number, line.error, needs_space=meant)
        elif line.first != line.number:
            told = (f"the same as line {line.first}, and counts once",)
            again = replace(lines[line.first], number=line.number, repeats=line.first, warnings=told)
            lines[line.number] = again
        else:
            used.append(line.example)
            lines[line.number] = _looked_at(model, line.number, line.example, entry, tokens)
    chance = sum(example.chance for example in used) / max(len(used), 1)
    warned = tuple(filter(None, [start_warning(model, used)]))
    return FileCheck(tuple(lines.values()), chance, warned, why_refused(model, entries, where))


def why_refused(model: Model, entries: Mapping[int, Entry], where: str) -> str:
    """A line that is wrong, splits that contradict each other, or too few examples for both; empty where studies take
    the file."""
    try:
        examples_of(entries, where, tokens_of(model), seed=0)
    except HeadcountError as error:
        return str(error)
    return ""


def with_spaces(entries: Mapping[int, Entry], numbers: Sequence[int]) -> dict[int, Entry]:
    """The same lines, the answers of some with a space in front."""
    return {number: _spaced(entry) if number in numbers else entry for number, entry in entries.items()}


def _spaced(entry: Entry) -> Entry:
    def spaced(value: object) -> object:
        if isinstance(value, list):
            return [spaced(each) for each in value]
        return f" {value}" if isinstance(value, str) and value and not value[0].isspace() else value

    return {key: spaced(value) if key in ANSWERS else value for key, value in entry.items()}


def _readable(entry: Entry, with_targets: bool, tokens: Tokens) -> bool:
    try:
        read_entry(entry, with_targets, tokens)
    except HeadcountError:
        return False
    return True


def _looked_at(model: Model, number: int, example: Example, entry: Entry, tokens: Tokens) -> LineCheck:
    batch = collate([example], model.device)
    logits = model.last_logits(batch.clean, batch.spots, rows=batch.rows).float()
    if bool(logits.isnan().any()):
        raise HeadcountError(
            f"{quoted(model.name)} gives logits that are not numbers on line {number}. 'headcount check' looks for the"
            " cause; in half precision try --dtype float32."
        )
    chances = logits.softmax(-1)
    best = logits[0].argmax()
    if isinstance(example, Pair):
        listed = [int(token) for token in (*example.answers, *example.wrongs)]
        right = max(listed, key=lambda token: float(logits[0, token])) in example.answers
        probability = float(chances[0, list(example.answers)].sum())
        answer = example.answers[:1]
    else:
        picked = chances.gather(1, batch.answers[:, :1])[:, 0]
        probability, answer = float(picked.prod()), example.target
        right = _chosen(model, example) if example.others else bool((logits.argmax(-1) == batch.answers[:, 0]).all())
    shared = _shared_start(example, entry, tokens)
    needs_space = _meant_with_space(model, entry, chances[0], tokens)
    told = [*([shared] if shared else []), *_numbers_for_words(model, entry)]
    if isinstance(example, Pair) and example.clean == example.corrupt:
        told.append("clean and corrupt are the same prompt, so that nothing can be told from the difference")
    if needs_space:
        told.append("the answer has no space in front, and with one it is far more probable (--fix-space)")
    size = len(example.clean if isinstance(example, Pair) else example.prompt)
    said, text = model.token_texts([int(best)])[0], "".join(model.token_texts(answer))
    return LineCheck(number, "", size, len(answer), text, right, probability, said, tuple(told), needs_space)


def _chosen(model: Model, example: Completion) -> bool:
    """Whether the target is the most probable of the choices."""
    totals = []
    for choice in (example.target, *example.others):
        batch = collate([Completion(example.prompt, choice)], model.device)
        log_probs = model.last_logits(batch.clean, batch.spots, rows=batch.rows).float().log_softmax(-1)
        totals.append(float(log_probs.gather(1, batch.answers[:, :1]).sum()))
    return totals[0] > max(totals[1:])


def _shared_start(example: Example, entry: Entry, tokens: Tokens) -> str:
    """Choices that begin alike are told apart by their later tokens alone."""
    if isinstance(example, Pair) or not example.others:
        return ""
    alike = [other for other in example.others if other[0] == example.target[0]]
    return f"{len(alike) + 1} of the choices begin with the same token" if alike else ""


def _numbers_for_words(model: Model, entry: Entry) -> list[str]:
    """What numbers behind a text stand for; whoever wrote 5 may have meant the digit."""
    if not isinstance(entry.get("clean"), str):
        return []
    values = [value if isinstance(value, list) else [value] for value in (entry["answer"], entry["wrong"])]
    ids = [value for listed in values for value in listed if isinstance(value, int)][:1]
    texts = zip(ids, model.token_texts(ids), strict=True)
    return [f'{token} is read as the id of the token {text!r}; for the text, write " {token}"' for token, text in texts]


def _meant_with_space(model: Model, entry: Entry, chances: Tensor, tokens: Tokens) -> bool:
    """Whether the answer with a space in front is far more probable than as it is written."""
    prompt = entry.get("prompt", entry.get("clean"))
    answer = entry.get("target", entry.get("answer"))
    answer = answer[0] if isinstance(answer, list) and answer else answer
    if not isinstance(prompt, str) or not isinstance(answer, str) or answer[:1].isspace() or prompt[-1:].isspace():
        return False
    plain, spaced = tokens.after(prompt, answer), tokens.after(prompt, f" {answer}")
    if not plain or not spaced or plain == spaced:
        return False
    return float(chances[spaced[0]]) > MUCH_BETTER * float(chances[plain[0]])


@torch.no_grad()
def start_warning(model: Model, examples: Sequence[Example], most: int = 16) -> str:
    """Compare what the model makes of the prompts with and without its beginning-of-text token in front, where its
    tokenizer has one and does not put it there; empty where all is well."""
    start = getattr(model.tokenizer, "bos_token_id", None)
    rows = [list(e.clean if isinstance(e, Pair) else e.prompt) for e in examples][:most]
    rows = [row for row in rows if len(row) > 2]
    if start is None or not rows or any(row[0] == start for row in rows):
        return ""
    gains = []
    for row in rows:
        plain, begun = (_log_probs(model, ids) for ids in (row, [start, *row]))
        # The first two tokens of a text are harder without a beginning for every model.
        gains.append(float((begun[2:] - plain[1:]).mean()))
    gain = sum(gains) / len(gains)
    if gain < BETTER_WITH_START:
        return ""
    token = model.token_texts([start])[0]
    return (
        f"the tokenizer puts no {token} in front, and with it the model predicts these prompts better by {gain:.1f}"
        f" nats per token: it was trained with {token}. Load it with bos=True (--bos)."
    )


def _log_probs(model: Model, ids: Sequence[int]) -> Tensor:
    """Of every token but the first."""
    row = torch.tensor([ids], device=model.device)
    log_probs = model.logits(row)[0, :-1].float().log_softmax(-1)
    return log_probs.gather(1, row[0, 1:, None])[:, 0]
