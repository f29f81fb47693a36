"""Splits of the built-in pairs: by words, which are the prompts that they always were, and by templates."""

import random
import re

import pytest

import headcount as hc
from headcount.core.settings import Settings
from headcount.studies import STUDIES
from headcount.tasks import docstring, greater_than, ioi
from headcount.tasks.source import Tokens

PROMPTS = {
    ("ioi", 0): "4e58744ada59f6dd",
    ("ioi", 3): "05bb2439b3bb2b1e",
    ("ioi-long", 0): "f3c672d86af5261a",
    ("ioi-long", 3): "3b7a52a56b7d9781",
    ("greater-than", 0): "bc3c4be37b4b292a",
    ("greater-than", 3): "743cd960e9d794bf",
    ("docstring", 0): "b8e22a5559794ec1",
    ("docstring", 3): "b4ae643e5bc20ca6",
}
"""Hashes of the prompts that 0.6.0 made for `tiny`, n = 40."""
PAIRS = ("ioi", "ioi-long", "greater-than", "docstring")


@pytest.fixture(scope="module")
def model():
    return hc.load("tiny")


@pytest.mark.parametrize(("name", "seed"), PROMPTS)
def test_by_words_the_prompts_are_those_of_before(model, name, seed):
    assert hc.task(name, model, n=40, seed=seed).fingerprint == PROMPTS[name, seed]


def texts(model, side):
    return "\n\n".join(model.decode(ids) for pair in side for ids in (pair.clean, pair.corrupt))


def patterns(templates):
    """What finds a template in a text, whatever fills it."""
    return [re.compile(re.sub(r"\\\{\w+\\\}", r"\\w+", re.escape(template))) for template in templates]


def used(text, wanted):
    return {place for place, pattern in enumerate(wanted) if pattern.search(text)}


WORDINGS = {
    "ioi": [patterns(ioi.TEMPLATES)],
    "ioi-long": [patterns(ioi.LONG_TEMPLATES), patterns(ioi.FILLERS)],
    "greater-than": [patterns(greater_than.TEMPLATES)],
    "docstring": [
        patterns(f"def {word}(" for word in docstring.FUNCTIONS),
        patterns(f'"""{words}\n' for words in docstring.SUMMARIES),
        patterns(f": {words}\n" for words in docstring.NOTES),
    ],
}
SLOTS = [re.compile(rf"(?<!post )\b{word}\b") for word in (*ioi.PLACES, *ioi.THINGS)]


@pytest.mark.parametrize("name", PAIRS)
def test_by_templates_train_and_test_share_none_and_by_words_they_do(model, name):
    tasks = (hc.task(name, model, n=80, split=split) for split in ("templates", "words"))
    apart, together = ([texts(model, side) for side in task.sides] for task in tasks)
    for wanted in WORDINGS[name]:
        train, test = (used(text, wanted) for text in apart)
        assert train, "templates are found"
        assert test
        assert not train & test
        assert set.intersection(*(used(text, wanted) for text in together))


@pytest.mark.parametrize("name", ["ioi", "ioi-long"])
def test_by_templates_ioi_shares_neither_places_nor_things_nor_names(model, name):
    task = hc.task(name, model, n=80, split="templates")
    sides = [texts(model, side) for side in task.sides]
    names = [re.compile(rf"\b{word}\b") for word in ioi.NAMES]
    for words in (SLOTS, names):
        train, test = (used(text, words) for text in sides)
        assert len(train) > 10
        assert len(test) > 10
        assert not train & test


def test_the_other_words_are_split_as_they_are_by_words(model):
    tokens = Tokens(model.encode)
    for source, words in ((ioi.ioi, "names"), (docstring.docstring, "arguments"), (greater_than.greater_than, "nouns")):
        by_words, by_templates = (made.pools(tokens, random.Random(5)) for made in (source, source.by_templates()))
        for one, other in zip(by_words, by_templates, strict=True):
            assert getattr(one, words) == getattr(other, words)


def test_what_has_no_templates_to_split_says_so(model, tmp_path):
    for name in ("syntax", "gsm8k", "lm-eval:piqa", str(tmp_path / "own.jsonl")):
        with pytest.raises(hc.HeadcountError, match="cannot be split by templates. Known: ioi, ioi-long, greater-than"):
            hc.task(name, model, split="templates")
    with pytest.raises(hc.HeadcountError, match="no split 'names'"):
        hc.task("ioi", model, split="names")


def settings_of(kind) -> type[Settings]:
    return STUDIES.named(kind).settings


@pytest.mark.parametrize("kind", ["heads-kept", "edges-kept", "attention-edges-kept", "head-roles"])
def test_a_panel_of_a_study_takes_a_split_and_its_prompts_follow(model, kind):
    asked = {"task": "ioi", "models": ["tiny"], "n": 20}
    made = settings_of(kind)(**asked, split="templates").examples(model)
    assert made.train == hc.task("ioi", model, n=20, split="templates").train
    assert made.train != settings_of(kind)(**asked).examples(model).train


def test_questions_are_split_by_templates_and_know_nothing_else():
    asked = {"task": "retrieval", "models": ["tiny"]}
    assert settings_of("masked-heads")(**asked).split == "templates"
    with pytest.raises(hc.HeadcountError, match="split"):
        settings_of("masked-heads")(**asked, split="words")
