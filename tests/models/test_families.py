"""What must hold on every family: untouched models are untouched, and a cut does what it says."""

import pytest
import torch

from families import FAMILIES, prompts, tiny
from headcount.edit import Filling, cut_heads, head_values, visit_heads
from headcount.meters.selfcheck import check


@pytest.fixture(scope="module", params=FAMILIES)
def model(request):
    return tiny(request.param)


@torch.no_grad()
@pytest.mark.parametrize("padding", ["one prompt", "left", "right"])
def test_without_a_cut_logits_are_bit_identical_to_hugging_face(model, padding):
    ids = prompts(1 if padding == "one prompt" else 3)
    mask = torch.ones_like(ids)
    if padding == "left":
        mask[1, :4] = 0
    elif padding == "right":
        mask[1, -4:] = 0
    wanted = model.hf(input_ids=ids, attention_mask=mask, use_cache=False).logits
    nothing_removed = torch.ones(1, model.n_layers, model.n_heads, dtype=torch.bool)
    with cut_heads(model, nothing_removed, Filling()):
        assert torch.equal(model.logits(ids, mask), wanted)
    with visit_heads(model, lambda layer, z: z):
        assert torch.equal(model.logits(ids, mask), wanted)


@torch.no_grad()
def test_zero_fill_equals_zeroed_output_weights_for_every_head(model):
    ids = prompts()
    for layer in range(model.n_layers):
        for head in range(model.n_heads):
            keep = torch.ones(1, model.n_layers, model.n_heads, dtype=torch.bool)
            keep[0, layer, head] = False
            with cut_heads(model, keep, Filling()):
                cut = model.logits(ids)
            weight = model.anatomy.out_weight(layer)[head]
            before = weight.clone()
            weight.zero_()
            zeroed = model.logits(ids)
            weight.copy_(before)
            torch.testing.assert_close(cut, zeroed, atol=1e-5, rtol=0)
            assert not torch.allclose(cut, model.logits(ids), atol=1e-4), "removing this head changes nothing"


@torch.no_grad()
def test_answer_logits_equal_those_of_the_whole_pass_under_right_padding(model):
    ids, last = prompts(), torch.tensor([9, 5, 7])
    rows = [model.hf(input_ids=ids[i : i + 1, : last[i] + 1]).logits[0, -1] for i in range(3)]
    torch.testing.assert_close(model.last_logits(ids, last), torch.stack(rows), atol=1e-5, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("prefix", [3, 8])  # 8 is longer than the sliding windows of the tiny models
def test_a_run_behind_a_prefix_equals_the_whole_run(model, prefix):
    ids, last = prompts(), torch.tensor([9, 8, 9])
    read = model.read_prefix(ids[:, :prefix])
    for copies in (1, 2):
        past = model.repeated_prefix(read, copies)
        got = model.last_logits(ids[:, prefix:].repeat(copies, 1), (last - prefix).repeat(copies), past)
        wanted = model.last_logits(ids, last).repeat(copies, 1)
        torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_all_heads_from_the_other_run_give_that_runs_logits_where_tokens_agree(model):
    clean, corrupt = prompts(), prompts()
    corrupt[:, 3:6] = prompts(seed=9)[:, 3:6]
    keep = torch.zeros(1, model.n_layers, model.n_heads, dtype=torch.bool)
    with cut_heads(model, keep, Filling(head_values(model, corrupt))):
        mixed = model.logits(clean)
    same = clean == corrupt
    torch.testing.assert_close(mixed[same], model.logits(corrupt)[same], atol=1e-5, rtol=1e-4)
    assert not torch.allclose(mixed[~same], model.logits(corrupt)[~same], atol=1e-2), (
        "the MLPs still see the clean token"
    )


def test_the_self_check_passes(model):
    verdicts = list(check(model))
    assert [v for v in verdicts if not v.passed] == []
    assert len(verdicts) == 8


def test_the_head_size_is_read_off_the_projection(model):
    z = head_values(model, prompts())
    sizes = {"qwen3": 12, "gemma": 12, "gemma2": 12, "gemma3": 12}
    assert z[0].shape == (3, 10, 4, sizes.get(model.name, 8))
