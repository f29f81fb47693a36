"""Questions as prompts, and answers as texts."""

import pytest
import torch

import headcount as hc
from families import reading, tiny
from headcount.meters.answers import Answers, ask
from headcount.meters.generation import Cuts
from headcount.tasks.questions import Question
from headcount.tasks.questions.prompts import SHORT, SHOTS, question_prompts, stop_strings
from planted_copying import planted
from tokenizers_for_tests import make_tokenizer

RIVER = Question("retrieval", "t", "Mary is in the store. Who is there?", "Mary")


def plain_model() -> hc.Model:
    """One whose tokenizer has no chat template."""
    return reading(make_tokenizer("digits"), "plain")


def chat_model(template: str) -> hc.Model:
    from copy import deepcopy

    tokenizer = deepcopy(make_tokenizer("digits", bos=True))
    tokenizer.chat_template = template
    return reading(tokenizer, "chat")


def test_a_model_without_a_chat_template_sees_a_few_answered_questions_first():
    model = plain_model()
    (ids,) = question_prompts(model, [RIVER])
    text = model.tokenizer.decode(ids)
    assert text.endswith(f"Question: {RIVER.text}\nAnswer:")
    assert all(f"Question: {asked}\nAnswer: {answer}\n" in text for asked, answer in SHOTS)
    assert stop_strings(model) == ("\n",)


def test_a_chat_template_is_used_once_and_its_special_tokens_are_not_doubled():
    model = chat_model("<s>{{ messages[0]['content'] }}</s>{% if add_generation_prompt %}<s>{% endif %}")
    (ids,) = question_prompts(model, [RIVER])
    assert model.tokenizer.decode(ids) == f"<s>{RIVER.text} {SHORT}</s><s>"
    assert ids.count(model.tokenizer.bos_token_id) == 2
    assert stop_strings(model) == ()


def test_a_model_without_a_tokenizer_cannot_be_asked():
    with pytest.raises(hc.HeadcountError, match="loaded without a tokenizer, and this needs one"):
        ask(tiny("llama"), [RIVER])


def test_answers_are_texts_without_special_tokens_and_spaces_around():
    found = ask(planted(), [Question("retrieval", "t", "f1 v2 f3", "v2")], max_new_tokens=5)
    assert found.texts == [["v2"]]
    assert found.tokens == [[planted().tokenizer("v2")["input_ids"]]]


def test_empty_answers_are_counted():
    model = planted()
    keep = torch.ones(1, 2, 4, dtype=torch.bool)
    found = ask(model, [RIVER], Cuts(keep), max_new_tokens=2)
    assert Answers([[[], [3]], [[], []]], [["", "d0"], ["", ""]]).empty == 3
    assert found.empty == sum(not text for text in found.texts[0])


def test_answers_are_the_same_after_saving(tmp_path):
    made = Answers([[[1, 2], []]], [["é ü", ""]])
    made.save(tmp_path)
    assert Answers.load(tmp_path) == made
