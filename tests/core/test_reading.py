"""Readers are strict: what two programs would read differently is refused, with its line, in one short sentence."""

import json

import pytest

import headcount as hc
from families import tiny
from headcount.core.errors import HeadcountError, did_you_mean
from headcount.core.plain import plain, plain_lines, quoted
from headcount.core.reading import local_path
from headcount.sparse.recipe import Recipe
from headcount.sparse.text import read_text
from tokenizers_for_tests import make_tokenizer

IDS = {"clean": [5, 6, 7], "corrupt": [5, 8, 7], "answer": 9, "wrong": 11}


@pytest.fixture(scope="module")
def model():
    return tiny("gpt2")


@pytest.fixture
def task(tmp_path, model):
    def read(*lines, **options):
        path = tmp_path / "t.jsonl"
        texts = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines]
        path.write_text("\n".join(texts), encoding="utf-8")
        return hc.task(path, model, **options)

    return read


def pair(token, **more):
    return {**IDS, "clean": [5, 6, token], **more}


class TestSplits:
    def test_an_example_that_stands_twice_counts_once(self, task):
        made = task(*[pair(12)] * 3, pair(13), pair(14), pair(13), n=100)
        assert len(made.train) + len(made.test) == 3
        assert not set(made.train) & set(made.test)

    @pytest.mark.parametrize("seed", range(5))
    def test_lines_with_the_same_prompt_stand_in_the_same_split(self, task, seed):
        made = task(*[pair(token, wrong=wrong) for token in range(12, 20) for wrong in (30, 31, 32)], seed=seed)
        train, test = ({example.clean for example in side} for side in made.sides)
        assert len(train) == len(test) == 4
        assert not train & test

    def test_the_same_example_in_train_and_in_test_is_refused(self, task):
        with pytest.raises(HeadcountError, match=r"line 3: the same example stands in line 1, .*: line 1 has tr"):
            task(pair(12, split="train"), pair(13, split="test"), pair(12, split="test"))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"clean": [5], "clean": [6]}', "line 2: .*the key 'clean' stands twice in an object"),
        (json.dumps(pair(12)).replace("9", "9" * 5000), "line 2: .*a number in it has too many digits"),
        ("[" * 100_000 + "]" * 100_000, "line 2: .*it is nested too deep"),
        ('{"clean": "\\ud800", "corrupt": "b", "answer": "c", "wrong": "d"}', "half of a surrogate pair"),
        ({**IDS, "answer": " Alice"}, "line 2: 'answer' must be token ids where the prompt is"),
        ({**IDS, "answer": [9, [9]]}, "line 2: 'answer' must be"),
        ({**IDS, "clean": [[5]]}, "line 2: 'clean' must be"),
        ({**IDS, "k" * 5000: 1}, "line 2: unknown field 'kkk"),
    ],
)
def test_a_line_that_cannot_be_trusted_is_refused_in_a_short_sentence(task, line, words):
    with pytest.raises(HeadcountError, match=words) as found:
        task(pair(12), line)
    assert len(str(found.value)) <= 300


def test_lines_end_where_jsonl_ends_them(tmp_path):
    path = tmp_path / "t.jsonl"
    lines = [{"prompt": f"We saw\u2028{name}\x85 and", "target": " John"} for name in ("Mary", "Tom")]
    path.write_text("\r\n".join(json.dumps(line, ensure_ascii=False) for line in lines), encoding="utf-8", newline="")
    loaded = tiny("gpt2")
    object.__setattr__(loaded, "tokenizer", make_tokenizer("digits"))
    loaded.hf.config.vocab_size = 10**4
    made = hc.task(path, loaded)
    assert len(made.train) == len(made.test) == 1
    assert "\u2028" in loaded.decode(made.train[0].prompt)


def test_text_to_train_on_is_text(folder, tmp_path):
    loaded = hc.load(folder)
    place = tmp_path / "t.jsonl"
    for wrong in ({"text": None}, {"text": 7}, [1], {"txt": "x"}):
        place.write_text(json.dumps({"text": "John " * 200}) + "\n" + json.dumps(wrong))
        with pytest.raises(HeadcountError, match='Line 2 of .* must be a JSON object with a field "text"'):
            read_text(loaded, [str(place)], Recipe(length=16))
    place.write_text(json.dumps({"text": "John " * 40}))
    found = read_text(loaded, [str(place)], Recipe(length=16, held_out=0.9))
    assert len(found.train) == 1


class TestWords:
    def test_what_a_terminal_would_obey_is_shown_as_its_code(self):
        assert plain("\x1b[31mred\x07\n\u202e") == "\\x1b[31mred\\x07\\n\\u202e"
        assert plain("Zoë, 日本, 👩‍🚀") == "Zoë, 日本, 👩‍🚀"
        assert plain_lines("a\n\tb\x1b") == "a\n\tb\\x1b"

    def test_an_error_is_one_line_of_300_characters_at_most(self):
        said = str(HeadcountError("wanted a\nb " + "x" * 1000 + ", mend it"))
        assert len(said) == 300
        assert said.startswith("wanted a b xxx")
        assert said.endswith("mend it")
        path = "/" + "folder/" * 60 + "file.toml"
        assert str(HeadcountError(f"{path}: no. Mend it.")).endswith("file.toml: no. Mend it.")

    def test_values_are_quoted_in_part(self):
        assert len(quoted("x" * 10**6)) <= 80
        assert len(quoted([[["x" * 99] * 99] * 99] * 99)) <= 80
        assert quoted("it's") == '"it\'s"'

    def test_of_many_known_words_some_are_listed(self):
        assert did_you_mean("w3", [f"w{number}" for number in range(1000)]).endswith(" more.")

    @pytest.mark.parametrize("name", ["~nobody-lives-here/x", "a\0b", "x" * 300, "a/" * 3000, "\udcff"])
    def test_names_that_no_file_has_are_refused(self, name):
        with pytest.raises(HeadcountError):
            local_path(name)
