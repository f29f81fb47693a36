"""Probes: what they read, what they rank first where that is known, and controls that are at chance."""

import numpy as np
import pytest
import torch

import headcount as hc
from families import prompts, reading, tiny
from headcount.edit import head_name, head_values
from headcount.meters.answers import Answers, ask
from headcount.rank.probes.by_head import areas, fit_by_head
from headcount.rank.probes.copying import copy_scores, retrieval_scores
from headcount.rank.probes.joint import JointClassifier, ProbeFit, features, fit_joint
from headcount.rank.probes.probe import Probe, elbow, probe_heads
from headcount.rank.probes.values import answer_values
from headcount.rank.scores import HeadScores
from headcount.tasks.questions import Question, QuestionSet
from headcount.tasks.questions.prompts import answer_places, question_prompts
from planted_copying import COPYING, planted, planted_questions

COPYING_NAMES = {head_name(head) for head in COPYING}
SMALL = ProbeFit(epochs=100, batch=16, rate=3e-3, projection=8, hidden=16)


@pytest.fixture(scope="module")
def answers() -> Answers:
    return ask(planted(), planted_questions().questions, max_new_tokens=4)


@pytest.fixture(scope="module")
def probe(answers) -> Probe:
    return probe_heads(planted(), planted_questions(), answers.tokens[0], fit=SMALL, seeds=3, shuffles=6)


# What is read


def test_the_planted_model_answers_as_it_was_built_to(answers):
    asked = planted_questions().questions
    assert answers.texts[0] == [question.answer for question in asked]


@pytest.mark.parametrize("family", ["gpt2", "llama-gqa", "gemma2"])
@pytest.mark.parametrize("choose", ["first", "last", "mean", "surprisal"])
def test_values_are_those_of_a_plain_run_at_the_positions_that_predict_the_answer(family, choose):
    model = tiny(family, torch.float64)
    asked = [prompts(1, length, seed=length)[0].tolist() for length in (5, 8, 6)]
    said = [prompts(1, length, seed=20 + length)[0].tolist() for length in (4, 1, 3)]
    found = answer_values(model, asked, said, choose=choose, k=2)
    for question, answer, values in zip(asked, said, found, strict=True):
        ids = torch.tensor([question + answer])
        spots = torch.arange(len(answer)) + len(question) - 1
        surprisal = -model.logits(ids)[0, spots].log_softmax(-1)[torch.arange(len(answer)), torch.tensor(answer)]
        chosen = {"first": [0], "last": [-1], "mean": list(range(len(answer))),
                  "surprisal": surprisal.argsort(descending=True)[:2].tolist()}[choose]  # fmt: skip
        for layer, z in enumerate(head_values(model, ids)):
            torch.testing.assert_close(values[layer], z[0, spots[chosen]].mean(0).float(), rtol=1e-5, atol=1e-6)


def test_an_unknown_choice_of_tokens_is_named():
    with pytest.raises(hc.HeadcountError, match="no choice of answer tokens 'middle'.*surprisal"):
        answer_values(tiny("gpt2"), [[3]], [[4]], choose="middle")


def test_features_are_a_heads_value_and_the_mean_of_its_layer():
    values = torch.randn(3, 2, 4, 5)
    found = features(values, layer_mean=True)
    assert found.shape == (3, 8, 10)
    torch.testing.assert_close(found[1, 6, :5], values[1, 1, 2])
    torch.testing.assert_close(found[1, 6, 5:], values[1, 1].mean(0))
    assert features(values, layer_mean=False).shape == (3, 8, 5)


# How it is ranked


def test_importance_is_the_gradient_of_the_own_logit_times_the_projection():
    """Against numerical differences, in float64."""
    torch.manual_seed(0)
    classifier = JointClassifier(6, 4, 3, SMALL).double().eval()
    x, labels = torch.randn(2, 4, 6, dtype=torch.float64), torch.tensor([2, 0])
    found = classifier.importance(x, labels)
    projected, step = classifier.project(x).detach(), 1e-6
    for question, head in np.ndindex(2, 4):
        expected = 0.0
        for dimension in range(SMALL.projection):
            moved = [projected.clone(), projected.clone()]
            moved[0][question, head, dimension] += step
            moved[1][question, head, dimension] -= step
            up, down = (classifier.classify(p)[question, labels[question]].item() for p in moved)
            expected += (up - down) / (2 * step) * projected[question, head, dimension].item()
        assert found[question, head].item() == pytest.approx(expected / SMALL.projection, abs=1e-7)


def test_the_heads_that_copy_come_first_in_both_probes_and_in_the_copy_score(probe, answers):
    assert set(probe.scores("retrieval").top(2)) == COPYING_NAMES
    assert set(probe.scores("retrieval", "probe-by-head").top(2)) == COPYING_NAMES
    copied = retrieval_scores(planted(), planted_questions(), answers)
    assert set(copied.top(2)) == COPYING_NAMES
    assert sorted(copied.values.ravel())[-2:] == [1, 1]
    assert sorted(copied.values.ravel())[-3] < 0.5


def test_seeds_agree_and_are_all_there(probe):
    assert probe.importance.shape == (3, 2, 2, 4)
    assert not np.array_equal(probe.importance[0], probe.importance[1])
    assert probe.seed_agreement("retrieval") > 0.5
    assert probe.joint_accuracy.shape == (3,)


def test_a_probe_is_fitted_on_train_and_judged_on_validation_only(answers):
    """Labels of the test questions, and the answers to them, play no part."""
    asked = planted_questions()
    without = QuestionSet(asked.name, asked.train, asked.validation, asked.test[:2])
    count = len(asked.train) + len(asked.validation)
    one = probe_heads(planted(), asked, answers.tokens[0], fit=SMALL, seeds=1, shuffles=1)
    other = probe_heads(planted(), without, answers.tokens[0][: count + 2], fit=SMALL, seeds=1, shuffles=1)
    np.testing.assert_array_equal(one.importance, other.importance)
    np.testing.assert_array_equal(one.by_head, other.by_head)


def test_the_same_seed_gives_the_same_fit_and_leaves_the_callers_random_numbers_alone():
    values, labels = torch.randn(20, 2, 2, 3), torch.arange(20) % 2
    torch.manual_seed(5)
    first = fit_joint(values, labels, 2, SMALL, seed=1)
    drawn = torch.rand(1)
    torch.manual_seed(5)
    assert torch.rand(1) == drawn
    second = fit_joint(values, labels, 2, SMALL, seed=1)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


# Controls


def test_shuffled_labels_are_at_chance_and_then_nothing_is_said(probe):
    assert abs(probe.controls()["mean probe of a head"].excess) < 0.15
    assert probe.head_control.shape == (6, 2, 2), "a table of guesses a shuffle"
    np.testing.assert_allclose(probe.head_control.sum((1, 2)), len(planted_questions().validation))
    assert probe.control_words() == []
    assert probe.head_accuracy.max() == 1


def test_a_control_that_is_not_at_chance_is_said_in_words(probe):
    from dataclasses import replace

    leaking = replace(probe, joint_control=np.stack([np.full((8, 8), 3) + 12 * np.eye(8)] * 2))
    (sentence,) = leaking.control_words()
    assert "joint probe" in sentence
    assert "+29.2%" in sentence
    assert "should not be trusted" in sentence


def test_a_probe_by_head_scores_a_function_it_knows_and_not_one_it_does_not():
    from sklearn.metrics import roc_auc_score

    rng = torch.Generator().manual_seed(0)
    labels = np.arange(300) % 3
    values = torch.randn(300, 1, 2, 4, generator=rng)
    values[:, 0, 0, 1] += torch.from_numpy(labels == 1) * 3.0
    told = fit_by_head(values[:150], labels[:150], values[150:])
    scores = areas(told, labels[150:])
    assert scores[1, 0, 0] > 0.45
    for function, layer, head in np.ndindex(scores.shape):
        wanted = roc_auc_score(labels[150:] == function, told[:, layer, head, function]) - 0.5
        assert scores[function, layer, head] == pytest.approx(wanted, abs=1e-12)
    assert abs(scores[1, 0, 1]) < 0.15
    assert abs(scores[0, 0, 0] - scores[2, 0, 0]) < 0.2


# Copying


def test_a_token_is_copied_when_the_most_looked_at_place_of_the_needle_holds_it():
    """By hand from Hugging Face's own attention weights."""
    model = tiny("llama-gqa")
    asked, said = [prompts(1, 9)[0].tolist()], [[7, 9, 7]]
    asked[0][2], asked[0][5] = 7, 9
    needle = [2, 5]
    found = copy_scores(model, asked, said, [needle])[0]
    model.hf.set_attn_implementation("eager")
    patterns = model.hf(torch.tensor([asked[0] + said[0]]), output_attentions=True).attentions
    for layer, head in np.ndindex(model.n_layers, model.n_heads):
        looked = patterns[layer][0, head, 8:11].argmax(-1).tolist()
        copied = {token for place, token in zip(looked, said[0], strict=True)
                  if place in needle and asked[0][place] == token}  # fmt: skip
        assert found[layer, head] == len(copied) / 2


@pytest.mark.parametrize("template", [None, "<s>{{ messages[0]['content'] }} Answer:"])
def test_the_needle_is_where_the_answer_stands_as_a_whole_word_of_the_question(template):
    from copy import deepcopy

    from tokenizers_for_tests import make_tokenizer

    tokenizer = deepcopy(make_tokenizer("digits", bos=True))
    tokenizer.chat_template = template
    model = reading(tokenizer, "spoken")
    question = Question("retrieval", "t", "Anna has a cat. A catfish is red. The CAT is old.", "cat", ("a cat",))
    places = answer_places(model, question)
    prompt = question_prompts(model, [question])[0]
    assert tokenizer.decode([prompt[place] for place in places]).split() == ["cat", "CAT"]
    assert answer_places(model, Question("retrieval", "t", "Anna has a dog.", "cat")) == []
    # An accepted answer, where the right one is not said as it is.
    other = answer_places(model, Question("retrieval", "t", "It is in row 7.", "seven", ("7",)))
    assert tokenizer.decode([question_prompts(model, [Question("retrieval", "t", "It is in row 7.", "seven")])[0][place]
                             for place in other]).strip() == "7"  # fmt: skip


# Other


def test_the_elbow_is_the_point_farthest_below_the_chord():
    sizes = np.array([10, 9, 8, 1, 0.9, 0.8, 0.7, 0.6])
    scores = HeadScores("m", "t", "probe", "x", sizes.reshape(1, 2, 4) * [[[1, -1, 1, 1], [1, -1, 1, 1]]])
    assert elbow(scores) == 3


def test_a_probe_is_the_same_after_saving(probe, tmp_path):
    probe.save(tmp_path)
    loaded = Probe.load(tmp_path)
    for name, value in vars(probe).items():
        np.testing.assert_array_equal(value, getattr(loaded, name))


def test_empty_answers_are_left_out_and_counted(answers):
    tokens = [*answers.tokens[0]]
    tokens[3] = []
    found = probe_heads(planted(), planted_questions(), tokens, fit=SMALL, seeds=1, shuffles=1)
    assert found.skipped == {"empty answers": 1}


def test_a_function_whose_answers_are_all_empty_is_left_out(answers):
    asked = planted_questions()
    third = QuestionSet("three", *(
        (*side, Question("inference", "t", "f1 f2", "d0")) for side in (asked.train, asked.validation, asked.test)
    ))  # fmt: skip
    tokens = [[3] if q.function != "inference" else [] for q in third.questions]
    found = probe_heads(planted(), third, tokens, fit=SMALL, seeds=1, shuffles=1)
    assert found.functions == ("retrieval", "knowledge-recall")
    assert found.skipped == {"empty answers": 2}


def test_unknown_functions_and_methods_are_named(probe):
    with pytest.raises(hc.HeadcountError, match="nothing about 'inference'.*retrieval"):
        probe.scores("inference")
    with pytest.raises(hc.HeadcountError, match="no probe 'copy'"):
        probe.scores("retrieval", "copy")


def test_one_function_alone_cannot_be_told_from_others(answers):
    asked = planted_questions()
    sides = [
        tuple(q for q in side if q.function == "retrieval") for side in (asked.train, asked.validation, asked.test)
    ]
    only = QuestionSet("one", *sides)
    with pytest.raises(hc.HeadcountError, match="needs two or more"):
        probe_heads(planted(), only, [[5]] * len(only.questions), fit=SMALL)
