"""Files in the layout of CogQA: what becomes a question, what is skipped, how files are split, and what errors say."""

import json
import re

import pytest

from headcount.core.errors import HeadcountError
from headcount.tasks.questions import FUNCTIONS, questions
from headcount.tasks.questions.cogqa import read_cogqa

LABELS = (
    "Retrieval", "Knowledge Recall", "Semantic Understanding", "Syntactic Understanding", "Math Calculation",
    "Inference", "Logical Reasoning", "Decision-making",
)  # fmt: skip


def part(text="How many jars?", answer="four", label="Retrieval"):
    return {"subquestion": text, "answer": answer, "cognitive_skill": label}


def record(number, *parts):
    return {"question": f"Who owns boat {number}?", "answer": "Ida", "generated": list(parts or [part()])}


def write(folder, content, name="own.json"):
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def read(folder, first, *others, more=3):
    """The questions of one record and what was skipped, in a file that also has records enough to be split."""
    found = read_cogqa(write(folder, [first, *others, *(record(n) for n in range(100, 100 + more))]))
    ours = [question for question in found.questions if not re.search(r"boat 10\d\?", question.text)]
    return sorted(ours, key=lambda question: len(question.text)), found.skipped


def sides(found):
    return {"train": found.train, "validation": found.validation, "test": found.test}


class TestQuestions:
    def test_every_label_becomes_its_function_however_it_is_spelled(self, tmp_path):
        for spelled in (str, str.upper, lambda label: f" {label.replace(' ', '_')}\n"):
            asked, skipped = read(tmp_path, record(1, *(part(label=spelled(label)) for label in LABELS)))
            assert [question.function for question in asked] == list(FUNCTIONS)
            assert not skipped

    def test_a_text_has_the_main_question_then_earlier_parts_with_answers_then_the_part_itself(self, tmp_path):
        parts = part("Which pier?", "the north pier"), part("Whose pier?", "Ida's", "Inference"), part("So who?", "Ida")
        asked, _ = read(tmp_path, record(1, *parts))
        assert [question.text.split("\n") for question in asked] == [
            ["The larger question: Who owns boat 1?", "Answer this part of it: Which pier?"],
            ["The larger question: Who owns boat 1?", "Known so far:", "- Which pier? the north pier",
             "Answer this part of it: Whose pier?"],
            ["The larger question: Who owns boat 1?", "Known so far:", "- Which pier? the north pier",
             "- Whose pier? Ida's", "Answer this part of it: So who?"],
        ]  # fmt: skip
        assert [question.answer for question in asked] == ["the north pier", "Ida's", "Ida"]
        assert {question.accepted for question in asked} == {()}

    def test_answers_that_are_numbers_are_kept_as_they_are_written(self, tmp_path):
        written = ("12", "3.50", "0", "1e3", "9" * 5000, "true")
        content = json.dumps([record(n, *(part(f"{text[:4]}?", f"<{text}>") for text in written)) for n in range(3)])
        found = read_cogqa(write(tmp_path, content.replace('"<', "").replace('>"', "")))
        assert sorted(question.answer for question in found.questions) == sorted(written * 3)
        assert any("- 12? 12\n- 3.50? 3.50\n" in question.text for question in found.questions)

    def test_the_template_is_the_place_of_the_main_question_in_the_file(self, tmp_path):
        found = read_cogqa(write(tmp_path, [{}, *(record(n, part(), part("Why?")) for n in range(2, 8))]))
        assert sorted((q.template, q.text.split("boat ")[1][0]) for q in found.questions) == [
            (f"q{n}", str(n)) for n in range(2, 8) for _ in range(2)
        ]
        assert found.name == "own.json"


class TestLayouts:
    RECORDS = tuple(record(n, part(label=LABELS[n]), part(answer="one\u2028two")) for n in range(8))

    @pytest.mark.parametrize(
        "content",
        [
            json.dumps(RECORDS, indent=2),
            "\ufeff" + json.dumps(RECORDS),
            json.dumps([[entry] for entry in RECORDS]),
            "\n".join(json.dumps(entry, ensure_ascii=False) for entry in RECORDS),
            "\r\n\r\n".join(json.dumps([entry]) for entry in RECORDS) + "\n",
        ],
        ids=["list", "byte order mark", "wrapped", "lines", "wrapped lines with gaps"],
    )
    def test_a_list_and_lines_wrapped_or_not_are_the_same_questions(self, tmp_path, content):
        expected = read_cogqa(write(tmp_path, self.RECORDS))
        assert len(expected.questions) == 16
        (tmp_path / "again").mkdir()
        path = write(tmp_path / "again", content)
        assert read_cogqa(path) == expected
        assert questions(str(path)) == questions(path) == expected
        assert questions(path, seed=3) == read_cogqa(path, seed=3) != expected


class TestSkipped:
    @pytest.mark.parametrize("first", [{"generated": [part()]}, {**record(1), "question": " "}, {}])
    def test_a_record_without_a_question(self, tmp_path, first):
        assert read(tmp_path, first, first) == ([], {"no main question": 2})

    @pytest.mark.parametrize("parts", [None, [], "How?", {"subquestion": "How?"}])
    def test_a_record_without_sub_questions(self, tmp_path, parts):
        assert read(tmp_path, {**record(1), "generated": parts}) == ([], {"no sub-questions": 1})
        assert read(tmp_path, {"question": "Who?"}) == ([], {"no sub-questions": 1})

    @pytest.mark.parametrize("gone", ["missing", None, " \n", float("nan"), ["a", "b"]])
    @pytest.mark.parametrize(
        ("key", "reason"),
        [("subquestion", "no sub-question text"), ("answer", "no answer"), ("cognitive_skill", "no label")],
    )
    def test_a_sub_question_that_lacks_something(self, tmp_path, key, reason, gone):
        broken = {**part("Where to?", "to Malmö"), key: gone}
        if gone == "missing":
            del broken[key]
        asked, skipped = read(tmp_path, record(1, part("Where from?", "from Kiel"), broken, part("How far?", "far")))
        assert skipped == {reason: 1}
        assert [question.answer for question in asked] == ["from Kiel", "far"]
        assert "- Where from? from Kiel" in asked[1].text
        known = [word in asked[1].text for word in ("- Where to? to Malmö\n", "Where to?", "Malmö")]
        assert known == [reason == "no label"] * 3

    def test_a_label_that_is_no_function_is_named_and_its_answer_is_still_known(self, tmp_path):
        strays = [part("Which rule?", "rule 7", label) for label in ("Induction", "Self-Evaluation", "Induction")]
        asked, skipped = read(tmp_path, record(1, *strays, part("And then?", "tea")))
        assert skipped == {"unknown label 'Induction'": 2, "unknown label 'Self-Evaluation'": 1}
        assert [(question.answer, question.text.count("- Which rule? rule 7\n")) for question in asked] == [("tea", 3)]

    def test_an_entry_that_is_no_object_has_no_text_and_every_entry_is_counted_once(self, tmp_path):
        parts = "Why?", None, {}, part(answer=None, label=None), part(label="Induction"), part("Last?", "yes")
        _, skipped = read(tmp_path, record(1, *parts))
        assert skipped == {"no sub-question text": 3, "no answer": 1, "unknown label 'Induction'": 1}


class TestSplits:
    @pytest.mark.parametrize(
        ("mains", "counts"), [(3, (1, 1, 1)), (4, (2, 1, 1)), (5, (3, 1, 1)), (10, (6, 2, 2)), (50, (30, 10, 10))]
    )
    def test_three_fifths_of_the_main_questions_are_in_train_and_none_is_in_two_splits(self, tmp_path, mains, counts):
        found = read_cogqa(write(tmp_path, [record(n, *[part()] * (1 + n % 3)) for n in range(mains)]))
        places = [{re.search(r"boat (\d+)", q.text)[1] for q in side} for side in sides(found).values()]
        assert tuple(map(len, places)) == counts
        assert len(set().union(*places)) == mains
        assert len(found.questions) == sum(1 + n % 3 for n in range(mains))

    def test_the_seed_decides_and_nothing_else(self, tmp_path):
        path = write(tmp_path, [record(n, part(), part("Why?")) for n in range(20)])
        assert read_cogqa(path, seed=1) == read_cogqa(path, seed=1) != read_cogqa(path, seed=2)
        assert len({q.template for seed in range(30) for q in read_cogqa(path, seed=seed).test}) == 20

    def test_the_parts_of_a_main_question_are_shuffled_among_the_others(self, tmp_path):
        train = read_cogqa(write(tmp_path, [record(n, part(), part("Why?")) for n in range(20)])).train
        assert any(one.template != next_one.template for one, next_one in zip(train[::2], train[1::2], strict=True))

    def test_a_main_question_that_comes_again_is_in_the_same_split_whatever_its_spaces_and_capitals(self, tmp_path):
        again = [{**record(n, part("Again?")), "question": f" who  owns BOAT {n}?"} for n in range(9)]
        path = write(tmp_path, [*(record(n) for n in range(9)), *again])
        for seed in range(5):
            for side in sides(read_cogqa(path, seed=seed)).values():
                homes = [re.search(r"(?i)boat (\d)", question.text)[1] for question in side]
                assert all(homes.count(home) == 2 for home in homes)
                assert len({question.template for question in side}) == len(set(homes))


class TestErrors:
    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ("[\n {,}\n]", r"own.json, line 2: this is not JSON \(.* at column 3\). The file must hold records"),
            ("", r"line 1: this is not JSON"),
            ('{"question": "a"}\n\n{"question": \n{"question": "b"}', r"line 3: this is not JSON"),
            ("[{}]\n[{}", r"line 2: this is not JSON"),
            ('"boats"', r"must hold records with 'question' and 'generated'.*; got 'boats'. Is it the right file"),
            ({"data": [record(1)]}, r"must hold records .*; got {'data': \["),
            ([record(1), "boats"], r"record 2 is 'boats'. Remove it"),
            ([[record(1)], [record(2), record(3)]], r"record 2 is \[{"),
            ([], r"must hold sub-questions .* but it has none. Skipped: nothing. Known labels: retrieval, .*-making"),
            ([{}, record(1, part(label="Induction"), part(label="Induction"))],
             r"none. Skipped: unknown label 'Induction' \(2\), no main question \(1\)"),
            ([record(1), record(2), record(1), {}],
             r"at least 3 different main questions .* 2 can be used. Skipped: no main question \(1\). Add records"),
            (record(1), r"1 can be used"),
        ],
    )  # fmt: skip
    def test_a_file_that_cannot_be_used_says_why(self, tmp_path, content, words):
        with pytest.raises(HeadcountError, match=words):
            questions(write(tmp_path, content))

    def test_a_file_that_cannot_be_read(self, tmp_path):
        with pytest.raises(HeadcountError, match=r"gone.json cannot be read: No such file.* Check the path"):
            questions(tmp_path / "gone.json")
        (tmp_path / "latin.json").write_bytes('["Malmö"]'.encode("latin-1"))
        with pytest.raises(HeadcountError, match=r"must be UTF-8 text, but byte 6 is none. Save"):
            questions(tmp_path / "latin.json")
