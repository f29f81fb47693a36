"""A task of one's own: read from JSONL, CSV, Parquet and `datasets`, and checked line by line before it is used."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config

import headcount as hc
from headcount.tasks.checking import check_entries, start_warning
from headcount.tasks.entries import glued, read_entries
from tokenizers_for_tests import word_tokenizer

STORY = "When {} and {} went to the park, {} gave the ball to"
LINES = [
    {"clean": STORY.format(a, b, b), "corrupt": STORY.format(b, a, a), "answer": f" {a}", "wrong": f" {b}"}
    for a, b in [("Mary", "John"), ("John", "Paul"), ("Paul", "Laura"), ("Laura", "Mary")]
]


@pytest.fixture(scope="module")
def model():
    return hc.load("tiny")


def written(path, lines):
    path.write_text("\n".join(map(json.dumps, lines)))
    return str(path)


def test_the_same_lines_from_every_kind_of_file(model, tmp_path):
    import datasets

    wanted = hc.task(written(tmp_path / "a.jsonl", LINES), model).fingerprint
    with (tmp_path / "a.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["note", *LINES[0]])
        writer.writeheader()
        writer.writerows([{"note": "not read", **line} for line in LINES])
    (tmp_path / "a.json").write_text(json.dumps(LINES))
    made = datasets.Dataset.from_list(LINES)
    made.to_parquet(tmp_path / "a.parquet")
    made.save_to_disk(tmp_path / "saved")
    names = [*(str(tmp_path / f"a.{ending}") for ending in ("csv", "json", "parquet")), f"dataset:{tmp_path / 'saved'}"]
    for name in names:
        assert hc.task(name, model).fingerprint == wanted, name
    assert hc.task(LINES, model).fingerprint == wanted
    assert hc.task(made, model).fingerprint == wanted


def test_splits_of_a_set_are_kept(model, tmp_path):
    import datasets

    sides = {"train": datasets.Dataset.from_list(LINES[:1]), "validation": datasets.Dataset.from_list(LINES[1:])}
    datasets.DatasetDict(sides).save_to_disk(tmp_path / "saved")
    found = hc.task(f"dataset:{tmp_path / 'saved'}", model)
    assert (len(found.train), len(found.test)) == (1, 3)


def test_a_set_whose_offsets_lead_nowhere_is_refused(model, tmp_path):
    """They were followed before, out of the process' memory."""
    import datasets

    datasets.Dataset.from_list(LINES).save_to_disk(tmp_path / "saved")
    (path,) = (tmp_path / "saved").glob("*.arrow")
    ends = np.cumsum([0, *(len(line["clean"]) for line in LINES)]).astype("<i4")
    data = path.read_bytes()
    assert data.count(ends.tobytes()) > 0
    path.write_bytes(data.replace(ends.tobytes(), np.array([*ends[:-1], 2**30], "<i4").tobytes()))
    with pytest.raises(hc.HeadcountError, match="must be one that `save_to_disk` wrote, but it cannot be read so"):
        hc.task(f"dataset:{tmp_path / 'saved'}", model)


def test_a_csv_says_lists_as_json_and_errors_name_its_lines(model, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('prompt,target,choices\nMary and, John,"["" John"", "" Tom""]"\nTom and,,\n')
    assert read_entries(str(path))[2]["choices"] == [" John", " Tom"]
    with pytest.raises(hc.HeadcountError, match="line 3: the field 'target' is missing"):
        hc.task(str(path), model)


def test_every_line_is_told_with_its_tokens_and_the_models_answer(model):
    found = check_entries(model, dict(enumerate(LINES, start=1)))
    assert [line.number for line in found.lines] == [1, 2, 3, 4]
    assert all(line.prompt_tokens == 14 and line.answer_tokens == 1 for line in found.used)
    assert found.chance == 0.5
    assert all(0 <= line.probability <= 1 and line.said for line in found.used)


def test_answers_without_a_space_are_found_and_mended(model, headcount, tmp_path):
    prompt = "When Mary and John went to the park, John gave the ball to"
    other = "When Mary and John went to the park, Mary gave the ball to"
    bare = [{"clean": prompt, "corrupt": other, "answer": "Mary", "wrong": "John"}] * 2
    code, out, _ = headcount("tasks", "check", written(tmp_path / "a.jsonl", bare), "--model", "tiny", "--fix-space")
    assert (code, "no study takes that file yet: The task a.spaced.jsonl" in " ".join(out.split())) == (1, True)
    assert "without a space in front" in out
    mended = tmp_path / "a.spaced.jsonl"
    assert [entry["answer"] for entry in read_entries(str(mended)).values()] == [" Mary", " Mary"]
    code, out, _ = headcount("tasks", "check", mended, "--model", "tiny")
    assert "Accuracy 1.00" in out
    assert "the same as line 1, and counts once" in " ".join(out.split())
    assert "without a space" not in out
    assert "1 line repeats an earlier one, and does not count." in out


def test_a_study_of_answers_without_a_space_names_what_fixes_them(headcount, own_cache, tmp_path):
    names = ("Mary", "John"), ("Tom", "Anna"), ("Paul", "Kate"), ("Mark", "Laura")
    lines = [
        {"clean": f"{a} and {b}: {b} met", "corrupt": f"{a} and {b}: {a} met", "answer": a, "wrong": b}
        for a, b in names
    ]
    file = written(tmp_path / "bare.jsonl", lines)
    arguments = ("run", "heads-kept", "--model", "tiny", "--task", file, "--quick", "--out", tmp_path / "out")
    code, out, said = headcount(*arguments)
    assert "--fix-space" in out + said, (out, said)
    assert code in (0, 2), "where a name is two tokens, it is refused"


GOOD, SHORT = "\n".join(map(json.dumps, LINES)), json.dumps({"clean": "We"})
BARE = json.dumps({**LINES[0], "answer": "Mary", "wrong": "John"})


@pytest.mark.parametrize(
    ("name", "text", "options", "wanted"),
    [
        ("a.jsonl", GOOD, (), 0),
        ("a.jsonl", f"{GOOD}\n{BARE}", ("--fix-space",), 0),
        ("a.jsonl", f"{GOOD}\n{SHORT}", (), 1),
        ("a.jsonl", json.dumps(LINES[0]), (), 1),  # none is left to measure on
        ("a.jsonl", f"{GOOD}\n{BARE}", (), 1),
        ("a.jsonl", f"{GOOD}\n{BARE}\n{SHORT}", ("--fix-space",), 1),
        ("a.csv", "clean,corrupt\nWe,They", (), 1),
        ("a.jsonl", f"{GOOD}\n{{", (), 2),
        ("a.jsonl", f"{GOOD}\n3", (), 2),
        ("a.jsonl", "", (), 2),
        ("a.json", "[", (), 2),
        ("a.parquet", GOOD, (), 2),
        ("a.csv", "a table\nof something else", (), 1),
        ("a.jsonl", None, (), 2),
    ],
)
def test_exit_codes_tell_a_file_that_studies_refuse_from_one_that_is_no_task(
    headcount, tmp_path, name, text, options, wanted
):
    if text is not None:
        (tmp_path / name).write_text(text)
    code, out, said = headcount("tasks", "check", tmp_path / name, "--model", "tiny", *options)
    assert code == wanted, (out, said)
    assert (out == "") == said.startswith("headcount: ") == (wanted == 2), "what could not be checked is an error"
    takes = "that" if "--fix-space" in options else "this"
    assert (f"no study takes {takes} file" in " ".join(out.split())) == (wanted == 1)


@pytest.mark.parametrize("name", ["mine.json", "mine.csv", "mine.parquet"])
def test_a_file_that_is_not_there_is_named_as_the_user_named_it(model, name):
    with pytest.raises(hc.HeadcountError) as error:
        hc.task(name, model)
    assert str(error.value) == f"There is no file or folder {name}. Check the path."


@pytest.mark.usefixtures("no_figures")
def test_a_study_says_how_many_lines_of_a_file_it_leaves_out(own_cache, tmp_path):
    """A line that stands there twice counts once; `split` may fill one side alone."""

    def at(line, place):
        return {**line, **{side: line[side].replace("park", place) for side in ("clean", "corrupt")}}

    lines = [at(line, place) for line in LINES for place in ("park", "house")]
    file = written(tmp_path / "mine.jsonl", [*lines, lines[0]])
    asked = {"points": 2, "draws": 1, "orders": ["absolute"], "method": "attribution"}

    def warned(kind, path=file, **more):
        out = tmp_path / "out"
        found = hc.run(kind, models=["tiny"], tasks=[path], out=out, overrides=more, quiet=True)
        return [words for words in found.summary["warnings"] if "are used" in words]

    assert warned("heads-kept", **asked, n=4, repeats=1) == [f"{file}: 4 of its 8 examples are used; n=8 uses all."]
    in_each = [f"{file}: 4 of its 8 examples are used in each repeat; n=8 uses all."]
    assert warned("heads-kept", **asked, n=4, repeats=2) == in_each
    assert warned("heads-kept", **asked, n=8, repeats=1) == []
    assert warned("heads-kept", "ioi", **asked, n=4, repeats=1) == []
    sides = [{**line, "split": "test" if number < 2 else "train"} for number, line in enumerate(lines)]
    uneven = written(tmp_path / "uneven.jsonl", sides)
    few = [f"{uneven}: 6 of its 8 examples are used; n=12 uses all."]
    assert warned("heads-kept", uneven, **asked, n=8, repeats=1) == few
    fit = {"seeds": 1, "updates": 2, "batch": 2, "ks": [1]}
    assert warned("head-roles", **fit, n=8, test=3) == [f"{file}: 7 of its 8 examples are used; test=0 uses all."]
    both = [f"{file}: 5 of its 8 examples are used; n=8 and test=0 use all."]
    assert warned("head-roles", **fit, n=6, test=2) == both


def test_answers_glued_to_their_prompts_are_told_from_others(tmp_path):
    def said(clean, answer):
        return glued(str(written(tmp_path / "a.jsonl", [{"clean": clean, "corrupt": clean, "answer": answer}])))

    assert "(1 of 1 lines)" in said("gave it to", "Mary")
    assert "tasks check" in said("gave it to", ["Mary", "John"])
    others = ("gave it to", " Mary"), ("from 1732 to 17", "45"), ("他给了", "玛丽"), ([5, 6], 7), ("self.", "x")
    for clean, answer in others:
        assert said(clean, answer) == ""


def test_a_check_refuses_what_a_study_refuses_and_reads_the_other_lines(model, headcount, tmp_path):
    lines = [*LINES, {"clean": "Mary saw", "corrupt": "Mary saw John and", "answer": " Tom", "wrong": " John"}]
    file = written(tmp_path / "a.jsonl", lines)
    with pytest.raises(hc.HeadcountError) as refusal:
        hc.task(str(file), model)
    words = str(refusal.value).removeprefix(f"{tmp_path}/")
    assert words.startswith("a.jsonl, line 5: A pair must have prompts of equal length")
    code, out, _ = headcount("tasks", "check", file, "--model", "tiny")
    told = " ".join(out.split())
    assert code == 1
    assert "Line 5 is REFUSED: A pair must have prompts of equal length" in told
    assert "5 lines: 4 examples, 1 refused." in told
    assert f"Warning: no study takes this file: {words}" in told


def test_a_repeated_line_is_counted_once_by_check_and_study(model, headcount, tmp_path):
    file = written(tmp_path / "a.jsonl", [*LINES, LINES[0], LINES[0]])
    made = hc.task(str(file), model, n=100)
    code, out, _ = headcount("tasks", "check", file, "--model", "tiny", "--json")
    found = json.loads(out)
    assert (code, found["used"]) == (0, len(made.train) + len(made.test)), "examples, however often they stand there"
    assert [line["repeats"] for line in found["lines"]] == [None, None, None, None, 1, 1]
    once = check_entries(model, dict(enumerate(LINES, start=1)))
    assert (found["accuracy"], found["chance"]) == (once.accuracy, once.chance)


def test_splits_that_contradict_each_other_are_told_of_their_line(model):
    lines = [*LINES, {**LINES[0], "split": "test"}]
    *_, last = check_entries(model, dict(enumerate(lines, start=1))).lines
    assert last.error.startswith("the same example stands in line 1, and their splits differ: line 1 has none")


def test_choices_that_begin_alike_are_told(model):
    entry = {"prompt": "Mary saw", "target": " John and Tom", "choices": [" John and Tom", " John and Mary"]}
    (line,) = check_entries(model, {1: entry}).lines
    assert "2 of the choices begin with the same token" in line.warnings


def test_a_number_is_told_as_the_token_that_it_stands_for(model):
    ids = [model.encode(f"Mary saw {name}")[-1] for name in ("John", "Tom")]
    entry = {"clean": "Mary saw", "corrupt": "Mary and", "answer": ids[0], "wrong": ids[1]}
    (line,) = check_entries(model, {1: entry}).lines
    assert line.answer == " John"
    assert line.warnings == (f"{ids[0]} is read as the id of the token ' John'; for the text, write \" {ids[0]}\"",)


def test_a_corrupt_prompt_that_is_the_clean_one_is_told(model):
    entry = {"clean": "Mary saw", "corrupt": "Mary saw", "answer": " John", "wrong": " Tom"}
    (line,) = check_entries(model, {1: entry}).lines
    assert line.warnings == ("clean and corrupt are the same prompt, so that nothing can be told from the difference",)


def test_a_word_that_is_right_and_wrong_is_named(model):
    entry = {"clean": "Mary saw", "corrupt": "Mary and", "answer": " John", "wrong": [" Tom", " John"]}
    (line,) = check_entries(model, {1: entry}).lines
    assert line.error == "An answer cannot be right and wrong at once; ' John' is both."


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.jsonl", "\n\n", "a.jsonl' is empty. It needs one example per line."),
        ("a.csv", "clean,corrupt,answer,wrong\n", "a.csv' is empty"),
        ("a.jsonl", "null\n", "line 1: a line must be a JSON object with clean, corrupt, answer, wrong, or with prompt,"
         " target; got null."),
    ],
)  # fmt: skip
def test_a_file_without_lines_is_bad_input(headcount, tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    code, _, said = headcount("tasks", "check", tmp_path / name, "--model", "tiny")
    assert (code, words in said) == (2, True), said


def test_an_empty_name_is_no_task(headcount):
    code, _, said = headcount("tasks", "check", "", "--model", "tiny")
    assert (code, "got an empty name." in said) == (2, True), said


def test_logits_that_are_no_numbers_answer_nothing():
    config = GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=64)
    broken = hc.load(AutoModelForCausalLM.from_config(config), tokenizer=word_tokenizer())
    broken.hf.transformer.ln_f.weight.data.fill_(torch.inf)
    with pytest.raises(hc.HeadcountError, match="gives logits that are not numbers on line 1"):
        check_entries(broken, {1: {"prompt": "w1 w2", "target": " w3"}})


def test_a_model_at_chance_is_told(headcount, tmp_path):
    nonsense = [
        {"clean": f"We saw {name} and", "corrupt": f"We saw {name} and", "answer": a, "wrong": b}
        for name in ("Mary", "John", "Paul", "Laura") for a, b in [(" Mark", " Kate"), (" Kate", " Mark")]
    ]  # fmt: skip
    _, out, _ = headcount("tasks", "check", written(tmp_path / "a.jsonl", nonsense), "--model", "tiny")
    assert "Accuracy 0.50; guessing gives 0.50" in out
    assert "cannot do this task, roles and circuits mean little" in " ".join(out.split())


@pytest.fixture(scope="module")
def begun():
    """A tiny GPT-2 that knows one text by heart, always behind <s>: without it every position is another one."""
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=64, n_embd=32, n_layer=1, n_head=2, n_positions=32, bos_token_id=0, eos_token_id=1)
    hf, ids = AutoModelForCausalLM.from_config(config), torch.randint(3, 64, (1, 20))
    row = torch.cat([torch.zeros(1, 1, dtype=torch.long), ids], dim=1)
    optimiser = torch.optim.Adam(hf.parameters(), lr=1e-2)
    for _ in range(60):
        optimiser.zero_grad()
        hf(input_ids=row, labels=row).loss.backward()
        optimiser.step()
    return hc.load(hf.eval(), tokenizer=word_tokenizer()), tuple(ids[0].tolist())


def test_a_tokenizer_without_the_beginning_that_its_model_was_trained_with_is_told(begun):
    model, ids = begun
    words = start_warning(model, [hc.Completion(ids[:-1], ids[-1:])])
    assert "puts no <s> in front" in words
    assert "bos=True" in words
    with_start = replace(model, bos=True)
    assert start_warning(with_start, [hc.Completion((0, *ids[:-1]), ids[-1:])]) == ""


def test_a_model_that_does_not_mind_its_beginning_is_left_alone(model):
    assert start_warning(model, hc.task("ioi", model, n=8).test) == ""


def test_tasks_alone_lists_them(headcount):
    code, out, _ = headcount("tasks")
    assert code == 0
    assert "ioi" in out
    assert headcount("tasks", "list")[1] == out


def test_an_answer_that_is_named_twice_counts_once(model):
    (line,) = check_entries(model, {1: {**LINES[0], "answer": [" Mary", " Mary"]}}).lines
    assert line.probability <= 1
    once, twice = (hc.Pair((1, 2), (1, 3), (5,) * times, (6,)) for times in (1, 2))
    assert once == twice
    assert twice.chance == 0.5


def test_tokens_that_no_model_knows_are_refused(model):
    with pytest.raises(hc.HeadcountError, match="Token ids are whole numbers from 0 on; got -1"):
        hc.Pair((1, 2), (1, 3), (-1,), (6,))
    pair = hc.Pair((1, 2), (1, 3), (10**6,), (6,))
    task = hc.Task("mine", "mine", "logit_diff", (pair,), (pair,))
    for ask in (lambda: hc.score(model, task), lambda: hc.sweep(model, task, keep="chance")):
        with pytest.raises(hc.HeadcountError, match="which the model knows; got 1000000"):
            ask()


def test_a_csv_with_a_column_twice_is_refused(model, tmp_path):
    (tmp_path / "a.csv").write_text("clean,corrupt,answer,wrong,answer\na,b, c, d, e\n")
    with pytest.raises(hc.HeadcountError, match="its header names the column 'answer' twice"):
        hc.task(str(tmp_path / "a.csv"), model)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (LINES[:1] * 8, "no study takes this file: The task a.jsonl must hold at least one train and one test example"),
        ([{**LINES[0], "split": "train"}, {**LINES[0], "split": "test"}], "their splits differ"),
    ],
)
def test_what_a_study_would_refuse_is_told(headcount, tmp_path, lines, words):
    code, out, _ = headcount("tasks", "check", written(tmp_path / "a.jsonl", lines), "--model", "tiny")
    assert (code, words in " ".join(out.split())) == (1, True), out


@pytest.mark.parametrize("ask", [
    lambda model, task: hc.measure(model, "ioi", [(0, 0)]),
    lambda model, task: hc.measure("tiny", task, [(0, 0)]),
    lambda model, task: hc.score("tiny", task),
    lambda model, task: hc.score(model, "ioi"),
    lambda model, task: hc.sweep(model, "ioi"),
    lambda model, task: hc.task("ioi", model, n=2.5),
    lambda model, task: hc.task("ioi", model, n="8"),
    lambda model, task: hc.task("ioi", model, n=4, seed=1.5),
    lambda model, task: hc.score(model, task, "attribution-ig", steps=2.5),
    lambda model, task: hc.sweep(model, task, keep="chance", ks=5),
    lambda model, task: hc.sweep(model, task, keep="chance", ks=[1.5]),
    lambda model, task: hc.explain(model, "", " Mary"),
    lambda model, task: hc.attention(model, ["a"]),
    lambda model, task: hc.generate(model, [[10**6]]),
    lambda model, task: hc.generate(model, [[5]], max_new_tokens=0),
    lambda model, task: hc.executor("local", workers=0),
    lambda model, task: hc.cut(model, [(True, False)]).__enter__(),
    lambda model, task: hc.score(model, task).shuffled(-1),
    lambda model, task: hc.run("heads-kept", models=[], tasks=["ioi"]),
    lambda model, task: hc.run("heads-kept", models="tiny"),
    lambda model, task: hc.measure(model, task, [(0, 0)]).values("nope"),
    lambda model, task: hc.measure(model, task, [(0, 0)]).of("accuracy", 90),
    lambda model, task: hc.measure(model, task, [(0, 0)]).curve.units_needed(0.9, aim="x"),
    lambda model, task: hc.measure(model, task, [(0, 0)]).curve.units_needed(0.9, level=1.0),
    lambda model, task: hc.measure(model, task, [(0, 0)]).curve.area("XXX"),
    lambda model, task: hc.score(model, task, "attribution", metric="accuracy"),
    lambda model, task: hc.sweep(model, task, keep="chance", metric="log_prob_per_token"),
    lambda model, task: hc.sweep(model, task, units="attention-edges", metric="accuracy"),
])  # fmt: skip
def test_slips_in_python_are_told_in_a_sentence(model, ask):
    with pytest.raises(hc.HeadcountError):
        ask(model, hc.task("ioi", model, n=4))
