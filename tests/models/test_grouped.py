"""Grouped attention of one token: the numbers of Hugging Face's own, without its copies."""

import pytest
import torch
from transformers import DynamicCache

from families import FAMILIES, prompts, tiny
from headcount.models.attention import NAME, grouped_attention


def two_steps(model, ids, mask):
    """Logits of a prompt's last token, its first tokens being in a cache; prompts are padded on the left."""
    cache = DynamicCache(config=model.hf.config)
    places = (mask.cumsum(1) - 1).clamp(min=0)
    model.hf(input_ids=ids[:, :-1], attention_mask=mask[:, :-1], position_ids=places[:, :-1], past_key_values=cache)
    return model.hf(
        input_ids=ids[:, -1:], attention_mask=mask, position_ids=places[:, -1:], past_key_values=cache
    ).logits[:, 0]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_next_token_is_predicted_as_without_it(family):
    model = tiny(family)
    ids = prompts(3, 9)
    mask = torch.ones_like(ids)
    mask[1, :4] = 0
    with torch.no_grad():
        plain = two_steps(model, ids, mask)
        with grouped_attention(model):
            grouped = two_steps(model, ids, mask)
    torch.testing.assert_close(grouped, plain, rtol=1e-5, atol=1e-5)


def test_keys_and_values_are_not_repeated(monkeypatch):
    """Hugging Face's own attention is left alone for single tokens of a grouped model, and used for whole prompts."""
    from transformers.integrations import sdpa_attention

    seen = []
    original = sdpa_attention.repeat_kv
    monkeypatch.setattr(sdpa_attention, "repeat_kv", lambda x, n: seen.append(x.shape[2]) or original(x, n))
    model = tiny("llama-gqa")
    ids = prompts(2, 6)
    with torch.no_grad(), grouped_attention(model):
        two_steps(model, ids, torch.ones_like(ids))
    assert set(seen) <= {5}, "only for the five tokens of the prompt"


def test_it_is_gone_afterwards_also_after_an_error():
    model = tiny("llama-gqa")
    before = model.hf.config._attn_implementation
    with pytest.raises(KeyError), grouped_attention(model):
        assert model.hf.config._attn_implementation == NAME
        raise KeyError
    assert model.hf.config._attn_implementation == before == "sdpa"


def test_a_model_that_attends_otherwise_is_left_alone():
    model = tiny("llama-gqa")
    model.hf.set_attn_implementation("eager")
    with grouped_attention(model):
        assert model.hf.config._attn_implementation == "eager"
