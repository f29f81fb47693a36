"""Text as sequences of equal length: documents one after the other, closed by the end token, cut without padding."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..core.errors import HeadcountError, in_short, listed
from ..core.reading import json_words, lines_of, local_path, parse_json
from ..core.reading import read_text as read_file
from ..models import Model
from .recipe import Recipe


@dataclass(frozen=True)
class Text:
    """Packed sequences to train on, and those held out, by source."""

    train: Tensor  # [sequence, token]
    held_out: dict[str, Tensor]
    source: Tensor  # of each sequence to train on, as its place among those that are held out

    def batch(self, recipe: Recipe, step: int) -> tuple[Tensor, Tensor]:
        """Sequences of a step, or pieces of them, and their sources, by seed and step alone, so that a run can resume
        anywhere; every epoch has an order of its own."""
        total = len(self.train)
        wanted = np.arange(step * recipe.batch, (step + 1) * recipe.batch)
        rows = [np.random.default_rng((recipe.seed, int(at) // total)).permutation(total)[at % total] for at in wanted]
        chosen = torch.tensor(np.array(rows))
        length = recipe.length_at(step)
        return self.train[chosen].view(-1, length), self.source[chosen].repeat_interleave(recipe.length // length)


def read_text(model: Model, sources: Sequence[str], recipe: Recipe) -> Text:
    """Files (text, or JSONL with a field `text`), folders of them, or names of datasets; each must give at least two
    sequences, one to train on and one to hold out."""
    if not sources:
        raise HeadcountError("No text was named. Give files, a folder, or the name of a dataset: --text books.txt")
    train, held_out = list[Tensor](), dict[str, Tensor]()
    # A dataset may be endless; files are read whole. A token is seldom more than six characters.
    enough = 6 * int(recipe.steps * recipe.batch * recipe.length / (1 - recipe.held_out)) + 12 * recipe.length
    for source in sources:
        sequences = packed(model, _documents(source, enough), recipe.length, source)
        last = min(max(round(len(sequences) * recipe.held_out), 1), len(sequences) - 1)
        train.append(sequences[:-last])
        held_out[_name(source, held_out)] = sequences[-last:]
    places = [torch.full((len(sequences),), place) for place, sequences in enumerate(train)]
    return Text(torch.cat(train), held_out, torch.cat(places))


def _name(source: str, others: Container[str]) -> str:
    """The last part of a path, unless another source has it already."""
    short = Path(source).stem or source
    return source if short in others else short


def packed(model: Model, documents: Iterator[str], length: int, source: str) -> Tensor:
    end = getattr(model.tokenizer, "eos_token_id", None)
    ids: list[int] = []
    for document in documents:
        ids += model.encode(document) if document.strip() else []
        ids += [end] if end is not None and ids and ids[-1] != end else []
    if not ids:
        raise HeadcountError(f"There is no text in {source}.")
    if len(ids) < 2 * length:
        raise HeadcountError(
            f"{source} has {len(ids)} tokens, and two sequences of {length} are the least: one to train on and one to"
            " hold out. Give more text, or a smaller --length."
        )
    whole = len(ids) // length
    return torch.tensor(ids[: whole * length]).view(whole, length)


def _documents(source: str, enough: int) -> Iterator[str]:
    place = local_path(source)
    if place.is_dir():
        files = sorted(path for path in place.rglob("*") if path.suffix in (".txt", ".md", ".jsonl"))
        if not files:
            raise HeadcountError(f"The folder {source} holds no .txt, .md or .jsonl file.")
        for file in files:
            yield from _documents(str(file), enough)
    elif place.is_file():
        yield from _lines_of_json(place) if place.suffix == ".jsonl" else [_read(place)]
    elif place.suffix or source.startswith((".", "/", "~")):
        raise HeadcountError(f"There is no text at {source}.")
    else:
        yield from _dataset(source, enough)


def _read(place: Path) -> str:
    return read_file(place, "The text", "utf-8")


def _lines_of_json(place: Path) -> Iterator[str]:
    for number, line in lines_of(_read(place)):
        where = f"Line {number} of {place}"
        try:
            entry = parse_json(line)
        except ValueError as error:
            raise HeadcountError(f"{where}: {json_words(error)}.") from error
        if not isinstance(entry, dict) or not isinstance(entry.get("text"), str):
            raise HeadcountError(f'{where} must be a JSON object with a field "text", like {{"text": "Once …"}}.')
        yield entry["text"]


def _dataset(name: str, enough: int) -> Iterator[str]:
    """So many characters of the `text` column of a dataset's train split, streamed. After a colon the name may go on
    with a configuration: `wikitext:wikitext-103-raw-v1`."""
    try:
        import datasets
    except ImportError as error:
        raise HeadcountError(
            f"{name} is neither a file nor a folder, and datasets by name need: pip install 'headcount[datasets]'"
        ) from error
    path, _, part = name.partition(":")
    try:
        for row in datasets.load_dataset(path, part or None, split="train", streaming=True):
            if not isinstance(row.get("text"), str):
                raise HeadcountError(f"The dataset {name} has no texts in a column `text`; its columns: {listed(row)}.")
            yield row["text"]
            enough -= len(row["text"])
            if enough <= 0:
                break
    except (OSError, ValueError) as error:
        said = in_short(error)
        raise HeadcountError(f"{name} is neither a file nor a folder, and no dataset was found: {said}") from error
