"""What heads look at: Hugging Face's own eager weights, with tokens, on every family."""

import numpy as np
import pytest
import torch

import headcount as hc
from families import FAMILIES, SENTENCE, tiny, with_words


@pytest.mark.parametrize("family", FAMILIES)
def test_patterns_are_those_of_eager_attention(family):
    model = with_words(family)
    before = model.hf.config._attn_implementation
    found = hc.attention(model, SENTENCE)
    assert model.hf.config._attn_implementation == before
    assert found.tokens == tuple(SENTENCE.split())
    assert found.heads[:5] == ("a0.h0", "a0.h1", "a0.h2", "a0.h3", "a1.h0")
    model.hf.set_attn_implementation("eager")
    ids = torch.tensor([model.encode(SENTENCE)])
    with torch.no_grad():
        wanted = torch.stack(model.hf(input_ids=ids, output_attentions=True).attentions)[:, 0].flatten(0, 1)
    assert np.abs(found.weights - wanted.double().numpy()).max() <= 1e-5
    assert np.allclose(found.weights.sum(-1), 1, atol=1e-5)


def test_some_heads_by_name_or_by_number():
    model = with_words("gpt2")
    every = hc.attention(model, SENTENCE)
    one = hc.attention(model, SENTENCE, (2, 3))
    assert one.heads == ("a2.h3",)
    assert np.array_equal(one.of("a2.h3"), every.of((2, 3)))
    assert hc.attention(model, SENTENCE, "a2.h3").heads == one.heads
    assert hc.attention(model, SENTENCE, ["a2.h3", (0, 1)]).heads == ("a2.h3", "a0.h1")
    with pytest.raises(hc.HeadcountError, match="3 layers of 4 heads"):
        hc.attention(model, SENTENCE, "a3.h0")
    with pytest.raises(hc.HeadcountError, match=r"no head a0\.h0"):
        one.of("a0.h0")


def test_where_the_last_token_looks_most():
    found = hc.attention(with_words("llama-gqa"), SENTENCE)
    position, token, weight = found.look("a1.h2")
    row = found.of("a1.h2")[-1]
    assert (position, weight) == (row.argmax(), row.max())
    assert token == SENTENCE.split()[position]
    assert len(found.rows()) == 12 * 13 * 14 / 2


def test_token_ids_need_no_tokenizer(tmp_path):
    found = hc.attention(tiny("gpt2"), [5, 9, 13], "a0.h0")
    assert found.tokens == ("5", "9", "13")
    found.save(tmp_path)
    again = hc.AttentionPattern.load(tmp_path)
    assert again.tokens == found.tokens
    assert np.array_equal(again.weights, found.weights)


@pytest.mark.parametrize(("prompt", "words"), [([], "empty"), ([64], "between 0 and 63"), ([5] * 65, "64 at most")])
def test_prompts_that_cannot_be_read(prompt, words):
    with pytest.raises(hc.HeadcountError, match=words):
        hc.attention(tiny("gpt2"), prompt)


def test_shut_gates_of_a_sparse_model_take_weight_away():
    found = hc.attention(hc.load("tiny-sparse"), "When Mary and John went to the park, John gave the ball to")
    assert found.weights.sum(-1).min() < 0.5
    assert found.weights.sum(-1).max() <= 1 + 1e-5
