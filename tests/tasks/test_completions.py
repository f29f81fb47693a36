"""Prompts with a target of any length: how they become tokens, what is measured of them, and what cannot be read."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import headcount as hc
from families import prompts, tiny
from headcount.edit import Filler
from headcount.meters import HeadMeter
from headcount.meters.metrics import METRICS
from headcount.tasks import TASKS
from headcount.tasks.batches import collate
from headcount.tasks.source import Item, Tokens, completion, draw_completions
from tokenizers_for_tests import make_tokenizer


@pytest.fixture(scope="module")
def model(folder):
    return hc.load(folder)


@pytest.fixture(scope="module")
def tokens(model):
    return Tokens(model.encode)


# ---------------------------------------------------------------------------------------------------------------------
# From text to tokens


def test_prompt_and_target_together_are_the_text_as_the_tokenizer_writes_it(model, tokens):
    made = completion(Item("We saw Mary and", " Mary went home."), tokens)
    assert list(made.prompt + made.target) == model.encode("We saw Mary and Mary went home.")
    assert made.ids == made.prompt + made.target[:-1]


def test_an_empty_target_is_refused(tokens):
    with pytest.raises(hc.HeadcountError, match="the target is empty"):
        completion(Item("We saw", ""), tokens)


def test_a_target_that_tokenises_across_the_boundary_is_refused(tokens):
    with pytest.raises(hc.HeadcountError, match="tokenises across the boundary.*Move a space"):
        completion(Item("We saw ", "Mary"), tokens)


def test_what_is_longer_than_the_context_is_refused_with_both_lengths(tokens):
    item = Item("We saw Mary", " and Mary and Mary")
    made = completion(item, tokens)
    prompt, target = len(made.prompt), len(made.target)
    enough = replace(tokens, limit=prompt + target - 1)
    assert completion(item, enough) == made, "the target's last token need not be read"
    with pytest.raises(hc.HeadcountError, match=rf"\({prompt} and {target}\), but the model takes {prompt} at most"):
        completion(item, replace(tokens, limit=prompt))


def test_the_target_must_be_among_its_choices(tokens):
    with pytest.raises(hc.HeadcountError, match="must be one of the choices, ' B', ' C'"):
        completion(Item("Answer:", " A", (" B", " C")), tokens)


@pytest.mark.parametrize("bos", [False, True])
def test_an_empty_prompt_is_the_token_that_begins_a_text(bos):
    tokenizer = make_tokenizer("digits", bos)
    tokens = Tokens(lambda text: tokenizer(text)["input_ids"], start=tokenizer.bos_token_id)
    made = completion(Item("", "We saw"), tokens)
    assert made.prompt == (tokenizer.bos_token_id,)
    assert tokenizer.decode(made.target) == "We saw"


def test_an_empty_prompt_without_such_a_token_is_refused(tokens):
    with pytest.raises(hc.HeadcountError, match="the prompt is empty"):
        completion(Item("", "We saw"), tokens)


def test_items_that_cannot_be_read_are_left_out_and_too_few_are_an_error_with_the_number(tokens):
    items = [Item("We saw", " Mary"), Item("We saw ", "Mary"), Item("We saw", " John")]
    train, test = draw_completions((items, items), tokens, 2, "t")
    assert len(train) == len(test) == 2
    with pytest.raises(hc.HeadcountError, match="2 train and 2 test items.*Ask for n=4 or fewer"):
        draw_completions((items, items), tokens, 3, "t")
    with pytest.raises(hc.HeadcountError, match="is empty with this model: all 1 items.*boundary"):
        draw_completions((items[1:2], items), tokens, 1, "t")


@pytest.mark.parametrize("name", [name for name, entry in TASKS.items() if entry.kind == "completions"])
def test_built_in_completions_make_a_task_for_a_model(model, name):
    task = hc.task(name, model, n=12)
    assert (len(task.train), len(task.test), task.metric, task.has_pairs) == (6, 6, "log_prob", False)
    assert task == hc.task(name, model, n=12) != hc.task(name, model, n=12, seed=1)


def test_more_items_than_a_built_in_task_has_is_an_error_with_the_number(model):
    with pytest.raises(hc.HeadcountError, match="items that this model can read, and 5000 of each were asked for"):
        hc.task("math", model, n=10_000)


# ---------------------------------------------------------------------------------------------------------------------
# The user's own


def written(tmp_path, *lines):
    file = tmp_path / "own.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    return file


def test_a_jsonl_of_prompts_and_targets(model, tmp_path):
    lines = [{"prompt": f"We saw {n}", "target": " and Mary", "choices": [" and Mary", " John"]} for n in range(6)]
    task = hc.task(written(tmp_path, *lines), model, n=6)
    assert (len(task.train), len(task.test), task.metric) == (3, 3, "log_prob")
    assert model.tokenizer.decode(task.test[0].others[0]) == " John"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"prompt": "We saw", "target": ""}, "line 2: the target is empty"),
        ({"prompt": "We saw ", "target": "Mary"}, "line 2: the target 'Mary' tokenises across the boundary"),
        ({"prompt": "We saw", "target": " Mary" * 600}, "line 2: prompt and target have .* but the model takes 512"),
        ({"prompt": "We saw"}, "line 2: the field 'target' is missing"),
        ({"prompt": "We saw", "target": 3}, "line 2: 'target' must be a text"),
        ({"prompt": "We saw", "target": " x", "choices": " x"}, "line 2: 'choices' must be a list"),
        ({"prompt": "We saw", "target": " x", "wrong": " y"}, "line 2: unknown field 'wrong'"),
        ({"clean": "a", "corrupt": "b", "answer": " c", "wrong": " d"}, "line 2: the field 'prompt' is missing"),
    ],
)
def test_a_broken_line_is_named_by_its_number(model, tmp_path, line, words):
    good = {"prompt": "We saw", "target": " Mary"}
    with pytest.raises(hc.HeadcountError, match=words):
        hc.task(written(tmp_path, good, line, good), model)


# ---------------------------------------------------------------------------------------------------------------------
# What is measured


def by_hand(model, example, target=None):
    """Log-probability of each target token, one pass an example."""
    target = target or example.target
    ids = torch.tensor([example.prompt + target])
    with torch.no_grad():
        log_probs = model.logits(ids)[0].log_softmax(-1)
    return [float(log_probs[len(example.prompt) - 1 + i, token]) for i, token in enumerate(target)]


def mixed_completions():
    rows = [prompts(1, length, seed=length)[0].tolist() for length in (6, 9, 12, 9)]
    return [hc.Completion(tuple(row[:-n]), tuple(row[-n:])) for row, n in zip(rows, (1, 4, 2, 3), strict=True)]


@pytest.mark.parametrize("max_tokens", [12, 2048])
def test_log_probability_summed_and_per_token(max_tokens):
    model, examples = tiny("llama-gqa", torch.float64), mixed_completions()
    filler = Filler.prepare(model, "zero", examples=examples, reference=examples)
    values = HeadMeter(model, examples, filler, max_tokens=max_tokens).measure(torch.ones(2, 3, 4, dtype=torch.bool))
    tokens = [by_hand(model, example) for example in examples]
    assert set(values) == {"log_prob", "log_prob_per_token", "accuracy"}
    for cut in range(2):
        assert values["log_prob"][cut] == pytest.approx([sum(t) for t in tokens])
        assert values["log_prob_per_token"][cut] == pytest.approx([sum(t) / len(t) for t in tokens])


def test_without_choices_accuracy_asks_for_every_token():
    model = tiny("gpt2", torch.float64)
    prompt = tuple(prompts(1, 7)[0].tolist())
    said = list(prompt)
    for _ in range(3):
        with torch.no_grad():
            said.append(int(model.logits(torch.tensor([said]))[0, -1].argmax()))
    greedy = hc.Completion(prompt, tuple(said[7:]))
    other = hc.Completion(prompt, (*said[7:9], (said[9] + 1) % 60))
    filler = Filler.prepare(model, "zero", examples=[greedy], reference=[greedy])
    values = HeadMeter(model, [greedy, other], filler).measure(torch.ones(1, 3, 4, dtype=torch.bool))
    assert values["accuracy"][0].tolist() == [1, 0]


def test_choices_of_one_token_are_compared_where_they_stand():
    model = tiny("gpt2", torch.float64)
    prompt = tuple(prompts(1, 7)[0].tolist())
    with torch.no_grad():
        order = model.logits(torch.tensor([prompt]))[0, -1].argsort(descending=True).tolist()
    right = hc.Completion(prompt, (order[3],), ((order[5],), (order[9],)))
    wrong = hc.Completion(prompt, (order[5],), ((order[3],), (order[9],)))
    batch = collate([right, wrong], model.device)
    logits = model.last_logits(batch.clean, batch.spots, rows=batch.rows)
    assert METRICS["accuracy"](logits, batch).tolist() == [1, 0]
    assert METRICS["logit_diff"](logits, batch).tolist()[0] > 0 > METRICS["logit_diff"](logits, batch).tolist()[1]


def test_longer_choices_are_read_one_by_one_and_the_most_probable_wins():
    model = tiny("gpt2", torch.float64)
    rows = prompts(12, 9).tolist()
    examples = [hc.Completion(tuple(r[:5]), tuple(r[5:7]), (tuple(r[7:]), tuple(r[6:9]))) for r in rows]
    filler = Filler.prepare(model, "zero", examples=examples, reference=examples)
    values = HeadMeter(model, examples, filler).measure(torch.ones(1, 3, 4, dtype=torch.bool))
    wanted = [
        float(sum(by_hand(model, e)) > max(sum(by_hand(model, e, other)) for other in e.others)) for e in examples
    ]
    assert 0 < sum(wanted) < 12
    assert values["accuracy"][0].tolist() == wanted
    assert values["log_prob"].shape == (1, 12)


# ---------------------------------------------------------------------------------------------------------------------
# Scores and sweeps


def completion_task():
    examples = tuple(mixed_completions())
    return hc.Task("own", "Own", "log_prob", examples, examples)


@pytest.mark.parametrize("method", ["patching", "attribution", "gate-gradient", "gate-gradient-signed", "induction"])
def test_methods_that_need_no_counterfactual_score_completions(method):
    scores = hc.score(tiny("llama-gqa"), completion_task(), method)
    assert scores.by_pair.shape == (4, 3, 4)
    assert np.isfinite(scores.by_pair).all()


def test_patching_a_completion_is_what_its_log_probability_loses_without_the_head():
    model, task = tiny("llama-gqa", torch.float64), completion_task()
    scores = hc.score(model, task, "patching")
    example = task.train[1]
    before = sum(by_hand(model, example))
    with hc.cut(model, [(1, 2)]):
        after = sum(by_hand(model, example))
    assert scores.by_pair[1, 1, 2] == pytest.approx(before - after)


def test_gate_gradients_of_a_completion_equal_finite_differences():
    from headcount.edit import visit_heads

    model, task = tiny("llama-gqa", torch.float64), completion_task()
    scores = hc.score(model, task, "gate-gradient-signed")
    example, step, sides = task.train[2], 1e-3, []
    for scale in (1 + step, 1 - step):

        def change(layer, z, scale=scale):
            if layer == 1:
                z = z.clone()
                z[:, :, 3] *= scale
            return z

        with visit_heads(model, change):
            sides.append(sum(by_hand(model, example)))
    assert scores.by_pair[2, 1, 3] == pytest.approx((sides[0] - sides[1]) / (2 * step), rel=1e-3)


def test_a_sweep_over_completions_removes_to_zero_by_default():
    model, task = tiny("llama-gqa"), completion_task()
    curve = hc.sweep(model, task, hc.score(model, task, "patching"), ks=[6])
    assert (curve.fill, curve.metric) == ("zero", "log_prob")
    assert curve.band().value[[0, -1]].tolist() == [0, 1]


@pytest.mark.parametrize("method", ["attribution-ig", "patching-restore", "direct", "eap"])
def test_methods_that_need_pairs_say_so(method):
    with pytest.raises(hc.HeadcountError, match=f"The method {method} needs a counterfactual prompt"):
        hc.score(tiny("llama"), completion_task(), method)


def test_a_counterfactual_fill_says_that_there_is_none():
    with pytest.raises(hc.HeadcountError, match="The fill counterfactual needs a counterfactual prompt"):
        hc.score(tiny("llama"), completion_task(), "patching", fill="counterfactual")


def test_metrics_that_compare_with_wrong_answers_are_refused():
    with pytest.raises(hc.HeadcountError, match="this task has targets only"):
        hc.score(tiny("llama"), completion_task(), "patching", metric="logit_diff")


@pytest.mark.parametrize(("positions", "first"), [("generated", 0), ("last", 0)])
def test_a_cut_at_answer_positions_leaves_the_prompt_alone(positions, first):
    """With one target token the two are the same; with more, `generated` reaches the target's own positions too."""
    model, task = tiny("gpt2", torch.float64), completion_task()
    values = {
        where: hc.score(model, task, "patching", positions=where).by_pair for where in ("all", "last", "generated")
    }
    assert values["last"][first] == pytest.approx(values["generated"][first])
    assert abs(values["last"][1] - values["generated"][1]).max() > 1e-6
    assert abs(values["all"][1] - values[positions][1]).max() > 1e-6
