"""Cuts against the reference numbers, against brute force, and what they leave behind (nothing)."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import headcount as hc
from families import FAMILIES, pairs, prompts, random_task, tiny
from headcount.edit import (
    Fill,
    Filler,
    Filling,
    cut_heads,
    first_reached,
    head_values,
    mean_head_values,
    mix_inputs,
    visit_heads,
)
from headcount.meters import HeadMeter
from headcount.tasks.batches import collate

GOLDEN = Path(__file__).parent.parent / "golden" / "gpt2_tiny"


def one_head_cuts(model):
    heads = model.head_count
    return ~torch.eye(heads, dtype=torch.bool).view(heads, model.n_layers, model.n_heads)


@pytest.mark.parametrize(
    ("name", "fill", "side"),
    [
        ("corrupt_z_into_clean_run", "counterfactual", "clean"),
        ("clean_z_into_corrupt_run", "counterfactual", "corrupt"),
        ("zero_ablation_clean_run", "zero", "clean"),
        ("mean_ablation_clean_run", "mean", "clean"),
    ],
)
def test_reference_numbers(golden_task, name, fill, side):
    """Per-head effects that plain hooks gave elsewhere, for a tiny GPT-2 in float64."""
    model, made = hc.load(GOLDEN, dtype=torch.float64), golden_task.test
    heads = json.loads((GOLDEN / "heads.json").read_text())
    filler = Filler.prepare(model, fill, examples=made, reference=made, side=side)
    values = HeadMeter(model, made, filler).measure(one_head_cuts(model))["logit_diff"]
    wanted = np.array(heads[name]["metric_per_pair"]).reshape(model.head_count, -1)
    np.testing.assert_allclose(values, wanted, atol=1e-6, rtol=0)


# ---------------------------------------------------------------------------------------------------------------------
# Fills


def brute_force(model, pair, keep, fill_of, side="clean"):
    """One prompt, one cut, no batching, no prefix: replace z by hand and read the last logits off the full pass."""
    ids = torch.tensor([pair.clean if side == "clean" else pair.corrupt])
    fill = fill_of(pair)

    def visit(layer, z):
        return torch.where(keep[layer][:, None], z, fill(layer, z))

    with torch.no_grad(), visit_heads(model, visit):
        logits = model.logits(ids)[0, -1]
    return float(logits[pair.answers[0]] - logits[pair.wrongs[0]])


@pytest.mark.parametrize("family", ["gpt2", "llama-gqa", "gemma3", "gpt_neox"])
@pytest.mark.parametrize("fill", ["zero", "mean", "mean-global", "counterfactual", "resample", "scale(0.3)"])
@pytest.mark.parametrize("positions", ["all", "last"])
def test_measuring_in_batches_equals_one_prompt_at_a_time(family, fill, positions):
    model, made, reference = tiny(family, torch.float64), pairs(4), pairs(3, seed=2)
    keeps = torch.rand(3, 3, 4, generator=torch.Generator().manual_seed(1)) > 0.5
    filler = Filler.prepare(model, fill, examples=made, reference=reference, seed=3)
    values = HeadMeter(model, made, filler, positions=positions, max_tokens=40).measure(keeps)["logit_diff"]

    means = mean_by_hand(model, reference, by_position=fill == "mean") if fill.startswith("mean") else None

    @cache
    def fill_of(pair):
        index, length = made.index(pair), len(pair.clean)
        if fill == "zero":
            source = lambda layer, z: torch.zeros_like(z)
        elif fill == "scale(0.3)":
            source = lambda layer, z: 0.3 * z
        elif fill in ("mean", "mean-global"):
            source = lambda layer, z: means[layer][:length] if fill == "mean" else means[layer]
        else:
            ids = torch.tensor([pair.corrupt])
            if fill == "resample":
                ids = filler._donors([index], collate([pair], model.device))
                assert tuple(ids[0].tolist()) in {p.clean for p in made} - {pair.clean}
            source = lambda layer, z, values=head_values(model, ids): values[layer]
        if positions == "all":
            return source
        return lambda layer, z: torch.cat([z[:, :-1], source(layer, z).expand_as(z)[:, -1:]], dim=1)

    wanted = [[brute_force(model, pair, keep, fill_of) for pair in made] for keep in keeps]
    # Some families compute norms and softmax in float32 whatever the model's type.
    np.testing.assert_allclose(values, wanted, atol=1e-5)


def mean_by_hand(model, reference, by_position):
    by_layer = []
    runs = [head_values(model, torch.tensor([pair.clean])) for pair in reference]
    longest = max(len(pair.clean) for pair in (*reference, *pairs(7)))
    for layer in range(model.n_layers):
        rows = [run[layer][0] for run in runs]
        overall = torch.cat(rows).mean(0, keepdim=True)
        if not by_position:
            by_layer.append(overall)
            continue
        at = [[row[i] for row in rows if len(row) > i] for i in range(longest)]
        by_layer.append(torch.stack([torch.stack(found).mean(0) if found else overall[0] for found in at]))
    return by_layer


def test_a_position_that_no_reference_reaches_gets_the_mean_over_all():
    model, reference = tiny("gpt2"), pairs(2, lengths=(4, 6))
    by_position = mean_head_values(model, reference, 8, "clean", by_position=True)
    overall = mean_head_values(model, reference, 8, "clean", by_position=False)
    torch.testing.assert_close(by_position[1][6:], overall[1].expand(2, -1, -1))
    assert not torch.allclose(by_position[1][5], overall[1][0])


def test_resample_falls_back_to_the_counterfactual_where_no_prompt_is_as_long():
    model, made = tiny("gpt2"), pairs(3, lengths=(7, 8, 8))
    filler = Filler.prepare(model, "resample", examples=made, reference=made)
    batch = collate(made[:1], model.device)
    assert tuple(filler._donors([0], batch)[0].tolist()) == made[0].corrupt


@pytest.mark.parametrize("text", ["nothing", "scale(x)", "scale(nan)", "scale", "Zero"])
def test_an_unknown_fill_lists_the_known_ones(text):
    with pytest.raises(hc.HeadcountError, match=r"There is no fill.*counterfactual, resample, scale\(eps\)"):
        Fill.parse(text)


def test_a_fill_reads_back_as_it_is_written():
    for text in ("zero", "mean", "mean-global", "counterfactual", "resample", "scale(0.001)"):
        assert str(Fill.parse(text)) == text


# ---------------------------------------------------------------------------------------------------------------------
# Positions that need no work


def test_only_positions_behind_the_first_difference_are_run_again():
    made = pairs(3, lengths=(10,), same_start=4)
    batch = collate(made, torch.device("cpu"))
    first = min(next(i for i in range(10) if p.clean[i] != p.corrupt[i]) for p in made)
    assert first >= 4
    assert first_reached(batch, Fill.parse("counterfactual"), None) == first
    assert first_reached(batch, Fill.parse("zero"), None) == 0


# ---------------------------------------------------------------------------------------------------------------------
# Hooks


def hook_count(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.hf.modules())


def test_no_hook_survives_also_after_an_exception():
    model, ids = tiny("llama-gqa"), prompts()
    wanted = model.logits(ids)
    last = torch.tensor([9, 9, 9])

    def fail(layer, z):
        raise RuntimeError("on the way")

    for block in (
        lambda: visit_heads(model, fail),
        lambda: hc.cut(model, [(0, 0), (2, 3)]),
        lambda: mix_inputs(model, ids, ids, [0.5]),
    ):
        with pytest.raises(RuntimeError, match="on the way"), block():
            assert hook_count(model) > 0
            model.last_logits(ids, last)
            raise RuntimeError("on the way")
        assert hook_count(model) == 0
    assert torch.equal(model.logits(ids), wanted)


def test_layers_in_which_nothing_is_removed_are_not_touched():
    model = tiny("gpt2")
    keep = torch.ones(2, 3, 4, dtype=torch.bool)
    keep[1, 2, 0] = False
    with cut_heads(model, keep, Filling()):
        assert hook_count(model) == 1


# ---------------------------------------------------------------------------------------------------------------------
# Cuts of the user's own, and generation


@pytest.mark.parametrize("family", FAMILIES)
def test_generation_with_nothing_removed_is_hugging_faces(family):
    model, inputs = tiny(family), left_padded()
    with hc.cut(model, []), visit_heads(model, lambda layer, z: z):
        got = model.hf.generate(**inputs, max_new_tokens=6, do_sample=False, pad_token_id=2)
    assert torch.equal(got, model.hf.generate(**inputs, max_new_tokens=6, do_sample=False, pad_token_id=2))


def left_padded():
    ids = prompts()
    mask = torch.ones_like(ids)
    mask[1, :3] = 0
    return {"input_ids": ids, "attention_mask": mask}


@torch.no_grad()
def test_generated_positions_leave_the_prompt_alone_and_cut_the_rest():
    """With a KV cache the prompt's own values are those of the uncut model, and the answer's are cut at every step."""
    model, ids, heads = tiny("llama-gqa"), prompts(1), [(0, 1), (1, 2)]
    with hc.cut(model, heads, "zero", positions="generated"):
        got = model.hf.generate(ids, max_new_tokens=4, do_sample=False, pad_token_id=2)
    with hc.cut(model, heads, "zero", positions="last"):
        first_only = model.hf.generate(ids, max_new_tokens=4, do_sample=False, pad_token_id=2)
    keep = torch.ones(1, 3, 4, dtype=torch.bool)
    keep[0, 0, 1] = keep[0, 1, 2] = False
    for result, last_cut in ((got, None), (first_only, 9)):
        step_by_step = ids
        for _ in range(4):
            positions = torch.arange(step_by_step.shape[1])
            where = (positions >= 9) if last_cut is None else (positions == last_cut)
            with cut_heads(model, keep, Filling(), where[None]):
                step_by_step = torch.cat([step_by_step, model.logits(step_by_step)[:, -1:].argmax(-1)], dim=1)
        assert torch.equal(result, step_by_step)


@torch.no_grad()
def test_a_cut_of_the_users_own_with_counterfactual_values():
    model, made = tiny("qwen3"), pairs(1)[0]
    clean, corrupt = torch.tensor([made.clean]), torch.tensor([made.corrupt])
    everything = [(layer, head) for layer in range(3) for head in range(4)]
    with hc.cut(model, everything, "counterfactual", other=corrupt):
        torch.testing.assert_close(model.logits(clean)[:, -1], model.logits(corrupt)[:, -1])


@torch.no_grad()
def test_while_a_model_writes_counterfactual_values_are_for_the_prompt_alone():
    """The other prompt has nothing for tokens behind it: written tokens read a cut prompt and are cut no more."""
    model, heads = tiny("llama-gqa"), [(0, 1), (2, 2)]
    clean, corrupt = prompts(1, 6), prompts(1, 6, seed=1)
    asked = {"attention_mask": torch.ones_like(clean), "max_new_tokens": 3, "do_sample": False, "pad_token_id": 0}
    with hc.cut(model, heads, "counterfactual", other=corrupt):
        made = model.hf.generate(input_ids=clean, **asked, output_logits=True, return_dict_in_generate=True)
    with torch.no_grad(), hc.cut(model, heads, "counterfactual", other=corrupt):
        past = model.hf(input_ids=clean, use_cache=True).past_key_values
    for step in (1, 2):  # the whole model, behind the keys and values of the cut prompt
        with torch.no_grad():
            token = made.sequences[:, 5 + step : 6 + step]
            logits = model.hf(input_ids=token, past_key_values=past, use_cache=True).logits[:, -1]
        torch.testing.assert_close(made.logits[step], logits, atol=1e-5, rtol=0)


def test_other_prompts_of_another_length_are_refused():
    model = tiny("gpt2")
    told = pytest.raises(hc.HeadcountError, match="The other prompts have 5 tokens, and prompts of 7 run")
    with told, hc.cut(model, [(0, 0)], "counterfactual", other=prompts(1, 5)):
        model.logits(prompts(1, 7))


def test_heads_may_be_given_by_the_names_that_a_ranking_has():
    model, ids = tiny("gpt2"), prompts()
    with hc.cut(model, ["a1.h2", (0, 3)]):
        named = model.logits(ids)
    with hc.cut(model, [(1, 2), (0, 3)]):
        assert torch.equal(model.logits(ids), named)


def test_a_cut_of_the_users_own_says_what_it_needs():
    model = tiny("gpt2")
    for arguments, words in (
        (([(3, 0)],), "no head \\(3, 0\\)"),
        ((["h3"],), "A head is \\(layer, head\\) or a name such as 'a3.h5'; got 'h3'"),
        (([(0.5, 1)],), "got \\(0.5, 1\\)"),
        (([(0, 0)], 3), "no fill '3'"),
        (([(0, 0)], "counterfactual"), "other=ids"),
        (([(0, 0)], "mean-global"), "reference=task.train"),
        (([(0, 0)], "resample"), "prompts to draw from"),
    ):
        with pytest.raises(hc.HeadcountError, match=words), hc.cut(model, *arguments):
            pass
    with pytest.raises(hc.HeadcountError, match="no positions 'first'"), hc.cut(model, [(0, 0)], positions="first"):
        pass


@pytest.mark.parametrize("family", FAMILIES)
def test_mean_fill_of_a_cut_is_that_of_a_measurement(family):
    model, task = tiny(family), random_task()
    heads = ["a0.h1", "a1.h2", "a2.h0"]
    measured = hc.measure(model, task, heads, "mean").values("logit_diff")
    for example, wanted in zip(task.test, measured, strict=True):
        with hc.cut(model, heads, "mean", reference=task.train), torch.no_grad():
            logits = model.logits(torch.tensor([example.clean]))[0, -1]
        assert float(logits[example.answers[0]] - logits[example.wrongs[0]]) == pytest.approx(wanted, abs=1e-4)


@torch.no_grad()
def test_mean_fill_knows_its_positions_behind_a_cache_and_behind_padding():
    model, task = tiny("llama-gqa", torch.float64), random_task()
    ids = torch.tensor([task.test[0].clean])
    with hc.cut(model, ["a1.h0", "a2.h3"], "mean", reference=task.train):
        whole = model.logits(ids)
        past = model.hf(input_ids=ids[:, :6], use_cache=True).past_key_values
        behind = model.hf(input_ids=ids[:, 6:], past_key_values=past).logits
        padded = torch.cat([torch.full((1, 3), 2), ids], dim=1)
        mask = (torch.arange(padded.shape[1]) >= 3).long()[None]
        places = (mask.cumsum(1) - 1).clamp(min=0)
        shifted = model.hf(input_ids=padded, attention_mask=mask, position_ids=places).logits[:, 3:]
    assert torch.allclose(whole[:, 6:], behind, atol=1e-10)
    assert torch.allclose(whole, shifted, atol=1e-10)
    assert not model.hf._forward_pre_hooks
