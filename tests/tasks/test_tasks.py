"""Tasks for any tokenizer: equal lengths, single-token answers, splits that share no words, the user's own JSONL."""

import json
import random

import pytest
import torch

import headcount as hc
from families import tiny
from headcount.tasks import TASKS
from headcount.tasks.batches import batches, collate
from headcount.tasks.docstring import ARGUMENTS
from headcount.tasks.greater_than import NOUNS, _read_century
from headcount.tasks.ioi import NAMES
from headcount.tasks.source import Draft, Tokens, draw_pairs
from tokenizers_for_tests import SPLITS, make_tokenizer

PAIRS = [name for name, entry in TASKS.items() if entry.kind == "pairs"]


def model_with(style, bos=False):
    """A tiny model that speaks one of the test tokenizers."""
    from transformers import AutoModelForCausalLM, GPT2Config

    tokenizer = make_tokenizer(style, bos)
    config = GPT2Config(vocab_size=len(tokenizer), n_embd=8, n_layer=1, n_head=2, n_positions=512)
    return hc.load(AutoModelForCausalLM.from_config(config), tokenizer=tokenizer, name=f"tiny-{style}")


@pytest.fixture(scope="module", params=SPLITS)
def model(request):
    return model_with(request.param)


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_are_aligned_and_answers_are_single_different_tokens(model, name):
    task = hc.task(name, model, n=40, seed=1)
    assert len(task.train) == len(task.test) == 20
    for pair in (*task.train, *task.test):
        assert len(pair.clean) == len(pair.corrupt)
        assert pair.clean != pair.corrupt
        assert pair.clean[-1] == pair.corrupt[-1], "the answer position must look the same in both prompts"
        assert not set(pair.answers) & set(pair.wrongs)


@pytest.mark.parametrize("name", PAIRS)
def test_the_same_seed_gives_the_same_task_and_another_seed_another(model, name):
    one, same, other = (hc.task(name, model, n=20, seed=seed) for seed in (0, 0, 1))
    assert one == same
    assert one.fingerprint == same.fingerprint != other.fingerprint


def words_of(model, pairs, vocabulary):
    text = " ".join(model.tokenizer.decode(list(ids)) for pair in pairs for ids in (pair.clean, pair.corrupt))
    for mark in ".,:()":
        text = text.replace(mark, " ")
    return set(text.split()) & set(vocabulary)


@pytest.mark.parametrize(
    ("name", "vocabulary"),
    [("ioi", NAMES), ("ioi-long", NAMES), ("docstring", ARGUMENTS), ("greater-than", NOUNS)],
)
def test_train_and_test_share_no_words(model, name, vocabulary):
    task = hc.task(name, model, n=200)
    train, test = (words_of(model, side, vocabulary) for side in task.sides)
    assert len(train) > 10
    assert not train & test


def test_greater_than_shares_no_start_year_between_train_and_test(model):
    from headcount.tasks.greater_than import greater_than

    train, test = greater_than.pools(Tokens(model.encode), random.Random(0))
    years = [{(century.digits, ending) for century, ending in pool.years} for pool in (train, test)]
    assert not years[0] & years[1]


def test_ioi_asks_for_the_one_who_does_not_act():
    model = model_with("digits")
    for pair in hc.task("ioi", model, n=60).test:
        clean = model.tokenizer.decode(list(pair.clean))
        answer, wrong = (model.tokenizer.decode([ids[0]]).strip() for ids in (pair.answers, pair.wrongs))
        assert (clean.count(answer), clean.count(wrong)) == (1, 2)
        corrupt = model.tokenizer.decode(list(pair.corrupt))
        assert f" {answer} " not in f" {corrupt} "
        assert f" {wrong} " not in f" {corrupt} "


def test_docstring_asks_for_the_next_argument_in_the_signature():
    model = model_with("digits")
    for pair in hc.task("docstring", model, n=20).test:
        clean = model.tokenizer.decode(list(pair.clean))
        signature = clean.split("(")[1].split(")")[0].split(", ")
        documented = [line.split(":param ")[1].split(":")[0] for line in clean.splitlines() if ":param " in line]
        assert model.tokenizer.decode(list(pair.answers)).strip() == signature[signature.index(documented[1]) + 1]
        assert len(pair.wrongs) == 10


def test_ioi_long_puts_the_same_sentences_in_front_of_both_prompts():
    short, long = (hc.task(name, model_with("digits"), n=40) for name in ("ioi", "ioi-long"))
    mean = lambda task: sum(len(pair.clean) for pair in task.test) / 20
    assert mean(long) > 2 * mean(short)
    assert all(pair.clean[:10] == pair.corrupt[:10] for pair in long.test)


@pytest.mark.parametrize(
    ("style", "tail", "later", "not_later"),
    [
        ("pairs", "17", {f"{y:02d}" for y in range(33, 100)}, {f"{y:02d}" for y in range(33)}),  # whole endings
        ("digits", "17", set("456789"), set("012")),  # tens digits, the equal one left out
        ("triples", "year ", {"174", "175", "176", "177", "178", "179"}, {"170", "171", "172"}),
    ],
)
def test_greater_than_follows_the_way_in_which_a_tokenizer_splits_years(style, tail, later, not_later):
    model = model_with(style)
    century = _read_century(Tokens(model.encode), "17")
    answers = [{model.tokenizer.decode([token]).strip() for token in side} for side in century.answers(32)]
    assert answers == [later, not_later]
    pair = hc.task("greater-than", model, n=4).test[0]
    century_digits = model.tokenizer.decode(list(pair.clean)).split("the year ")[1][:2]
    assert model.tokenizer.decode(list(pair.clean)).endswith(tail.replace("17", century_digits))


def test_a_beginning_of_text_token_stands_in_front_where_the_tokenizer_uses_one():
    model = model_with("digits", bos=True)
    for name in PAIRS:
        assert {pair.clean[0] for pair in hc.task(name, model, n=6).test} == {model.tokenizer.bos_token_id}


def test_a_tokenizer_that_knows_none_of_our_words_gets_a_sentence():
    model = tiny("gpt2")
    bytes_only = hc.load(model.hf, tokenizer=lambda text: {"input_ids": [3 + b % 60 for b in text.encode()]})
    with pytest.raises(
        hc.HeadcountError, match="needs 10 first names that are one token each, and this tokenizer has 0"
    ):
        hc.task("ioi", bytes_only)


def test_more_pairs_than_there_are_is_an_error_with_the_number():
    class Two:
        title, metric = "Two", "logit_diff"

        def pools(self, tokens, rng):
            return ["John"], ["Mary"]

        def draft(self, pool, rng):
            return Draft(f"We saw {pool[0]} and", "We saw Paul and", [" Alice"], [" David"])

    hc.register_task("two", Two())
    assert len(hc.task("two", model_with("digits"), n=2).test) == 1
    with pytest.raises(hc.HeadcountError, match="only 1 different pairs.*n=2 or fewer"):
        hc.task("two", model_with("digits"), n=10)


def test_a_task_that_is_empty_after_filtering_says_why():
    class Uneven:
        title, metric = "Uneven", "logit_diff"

        def pools(self, tokens, rng):
            return [], []

        def draft(self, pool, rng):
            return Draft("one", "one two three", [" Alice"], [" David"])

    with pytest.raises(hc.HeadcountError, match="is empty with this tokenizer.*equal length"):
        draw_pairs(Uneven(), [], Tokens(model_with("digits").encode), 3, random.Random(0), "uneven")


def test_an_unknown_task_suggests_the_nearest():
    with pytest.raises(hc.HeadcountError, match="There is no task 'greater_than'. Did you mean 'greater-than'"):
        hc.task("greater_than", model_with("digits"))


def test_a_prompt_beyond_the_models_context_is_refused():
    model = model_with("digits")
    model.hf.config.n_positions = 20
    try:
        with pytest.raises(hc.HeadcountError, match="takes 20 at most"):
            hc.task("ioi-long", model, n=4)
    finally:
        model.hf.config.n_positions = 512


# ---------------------------------------------------------------------------------------------------------------------
# The user's own


LINE = {"clean": "We saw John and", "corrupt": "We saw Mary and", "answer": " Alice", "wrong": [" David"]}


def write(path, *entries):
    path.write_text("".join((entry if isinstance(entry, str) else json.dumps(entry)) + "\n" for entry in entries))
    return path


def test_a_jsonl_of_the_users_own(tmp_path):
    model = model_with("digits")
    lines = [{**LINE, "clean": f"We saw {name} and"} for name in ("John", "Tom", "Paul", "Mark")]
    task = hc.task(write(tmp_path / "my-task.jsonl", *lines, ""), model)
    assert (len(task.train), len(task.test), task.title) == (2, 2, "my task")
    assert task.train[0].answers == tuple(model.encode(" Alice"))
    assert not set(task.train) & set(task.test)


def test_lines_may_choose_their_split_and_speak_in_token_ids(tmp_path):
    ids = {"clean": [5, 6, 7], "corrupt": [5, 8, 7], "answer": [9, 10], "wrong": 11}
    others = [{**ids, "clean": [5, 6, token], "split": "train"} for token in (12, 13)]
    path = write(tmp_path / "t.jsonl", {**ids, "split": "test"}, *others)
    task = hc.task(path, tiny("gpt2"))
    assert (len(task.train), len(task.test)) == (2, 1)
    assert task.test[0] == hc.Pair((5, 6, 7), (5, 8, 7), (9, 10), (11,))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{not json", "line 2: this is not JSON"),
        ("[1, 2]", "line 2: a line must be a JSON object"),
        ({k: v for k, v in LINE.items() if k != "wrong"}, "line 2: the field 'wrong' is missing"),
        ({**LINE, "anwser": "x"}, "line 2: unknown field 'anwser'. Did you mean 'answer'"),
        ({**LINE, "corrupt": "We saw Mary"}, "line 2:.*the clean one has 4 tokens, the corrupt one 3"),
        ({**LINE, "answer": " Alice and David"}, "line 2: An answer must be one token.*is 3 tokens"),
        ({**LINE, "answer": []}, "line 2: 'answer' must be"),
        ({**LINE, "clean": 7}, "line 2: 'clean' must be"),
        ({**LINE, "split": "dev"}, "line 2: 'split' must be one of train, test"),
    ],
)
def test_a_broken_line_is_named_by_its_number(tmp_path, line, words):
    with pytest.raises(hc.HeadcountError, match=words):
        hc.task(write(tmp_path / "broken.jsonl", LINE, line), model_with("digits"))


def test_a_file_without_enough_lines_or_without_anything(tmp_path):
    with pytest.raises(hc.HeadcountError, match="at least one train and one test example, but it has 1 and 0"):
        hc.task(write(tmp_path / "one.jsonl", LINE), model_with("digits"))
    with pytest.raises(hc.HeadcountError, match=r"missing\.jsonl cannot be read"):
        hc.task(tmp_path / "missing.jsonl", model_with("digits"))


# ---------------------------------------------------------------------------------------------------------------------
# Batches


def test_batches_hold_every_pair_once_and_stay_within_their_tokens():
    lengths = [3, 9, 4, 4, 12, 5, 3, 3, 8, 40]
    made = [hc.Pair(tuple(range(n)), tuple(range(n)), (1,), (2,)) for n in lengths]
    seen = []
    for indices, batch in batches(made, torch.device("cpu"), max_tokens=24):
        assert batch.clean.numel() <= 24 or len(batch) == 1
        assert [len(made[i].clean) - 1 for i in indices] == batch.last.tolist()
        seen += indices
    assert sorted(seen) == list(range(10))


def test_a_repeated_batch_is_the_batch_again_and_again():
    batch = collate([hc.Pair((1, 2), (1, 3), (4,), (5, 6)), hc.Pair((7,), (8,), (9, 10), (11,))], torch.device("cpu"))
    twice = batch.repeated(2)
    assert torch.equal(twice.clean, torch.tensor([[1, 2], [7, 0], [1, 2], [7, 0]]))
    assert torch.equal(twice.wrongs, torch.tensor([[5, 6], [11, -1]] * 2))
    assert twice.last.tolist() == [1, 0, 1, 0]
