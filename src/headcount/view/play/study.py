"""What was found by hand, as a study to be run: its prompts as a JSONL, its settings as a TOML, and the heads that were
kept as scores, by which the study goes: with as many heads as were kept it measures the very cut of the board.

    NAME/study.toml         headcount run NAME/study.toml
    NAME/prompts.jsonl
    NAME/by-hand/           scores.json, scores.safetensors
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tomli_w

from ...core.errors import HeadcountError
from ...core.files import writable_folder, write_file, write_folder
from ...core.provenance import Facts, versions
from ...edit import Fill
from ...edit.cut import heads_of, keep_mask
from ...models import Model
from ...rank.scores import HeadScores
from .state import Asked, State, Words

STUDY, PROMPTS, BY_HAND = "study.toml", "prompts.jsonl", "by-hand"


def save_study(
    model: Model, source: str, states: Sequence[State], name: str, folder: Path, order: Sequence[str] = ()
) -> Path:
    """`states`: the one that is shown first; the others lend their prompts. `order`: of a ranking whose first heads are
    those that were kept. A folder that is there is not touched."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}", name):
        raise HeadcountError(
            f"The name of a study is made of letters, digits, - and _, and has 60 at most; got {name[:60]!r}."
        )
    asked = [Asked.of(model, state) for state in states]
    lines = _lines(states, asked)
    place = folder / name
    if place.exists():
        raise HeadcountError(f"There is a study at {place} already. Choose another name.")
    writable_folder(folder)
    settings = _settings(model, source, asked[0], len(lines), place, name)
    with write_folder(place) as unfinished:
        write_file(unfinished / PROMPTS, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
        write_file(unfinished / STUDY, tomli_w.dumps(settings))
        by_hand(model, asked[0], states[0], order).save(unfinished / BY_HAND)
    return place


def by_hand(model: Model, asked: Asked, state: State, order: Sequence[str] = ()) -> HeadScores:
    """1 for heads that were kept, 0 for heads that were cut; where they are the first of an order, falling from 1 along
    it."""
    kept = keep_mask(model, asked.heads)[None].double().numpy()
    listed = heads_of(model, order)
    first = {(int(layer), int(head)) for _, layer, head in np.argwhere(kept)}
    if len(listed) == model.head_count and set(listed[: len(first)]) == first:
        for place, (layer, head) in enumerate(listed):
            kept[0, layer, head] = 1 - place / len(listed)
    facts: Facts = {"versions": versions(), "model": model.facts(), "arguments": state.facts()}
    return HeadScores(model.name, "by hand", "by-hand", "logit_diff", np.asarray(kept), provenance=facts)


def _lines(states: Sequence[State], asked: Sequence[Asked]) -> list[Facts]:
    """Pairs where all prompts have a counterfactual and both answers, else prompts with a target."""
    if len({each.ids for each in asked}) < 2:
        raise HeadcountError(
            "A study scores heads on one half of its prompts and measures on the other, so it needs two or more. Put"
            " another prompt on the shelf first."
        )
    pairs = all(each.answers and each.wrongs and len(each.other) == len(each.ids) for each in asked)
    if not pairs and not all(each.answers for each in asked):
        raise HeadcountError("A study must know what is right: every prompt needs an answer, and this state has none.")
    lines = list[Facts]()
    for place, (state, each) in enumerate(zip(states, asked, strict=True)):
        split = "train" if place % 2 else "test"  # the prompt that is shown is measured
        if pairs:
            words: dict[str, Words | list[str | int]] = {"clean": state.prompt, "corrupt": state.other}
            if not (isinstance(state.prompt, str) and isinstance(state.other, str)):
                words = {"clean": each.ids, "corrupt": each.other}
            text = isinstance(words["clean"], str)
            sides = ((state.answers, each.answers), (state.wrongs, each.wrongs))
            answer, wrong = (list(said if text else ids) for said, ids in sides)
            lines.append({**words, "answer": answer, "wrong": wrong, "split": split})
        elif isinstance(state.prompt, str) and isinstance(state.answers[0], str):
            lines.append({"prompt": state.prompt, "target": state.answers[0], "split": split})
        else:
            raise HeadcountError(
                "A study of prompts with a target is written as text, and this prompt or its answer is token ids. Give"
                " it a counterfactual prompt and a wrong answer, or write it as text."
            )
    return lines


def _settings(model: Model, source: str, asked: Asked, n: int, place: Path, name: str) -> Facts:
    if not source:
        raise HeadcountError(
            f"A study names a model that can be loaded, and {model.name} was given as a module in memory. Save it with"
            " save_pretrained and play from there."
        )
    fill = asked.fill if asked.fill.kind != "counterfactual" or asked.other else Fill("zero")
    panel = {"task": str((place / PROMPTS).absolute()), "models": [source], "n": n + n % 2, "fill": str(fill)}
    panel |= {"scores": str((place / BY_HAND).absolute()), "orders": ["absolute", "chance"]}
    panel |= {"ks": [model.head_count - len(asked.heads)], "positions": asked.positions}
    return {"kind": "heads-kept", "title": name, "panel": [panel]}
