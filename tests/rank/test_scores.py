"""Every scoring method against what it approximates or defines, on tiny models in float64."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import headcount as hc
from families import FAMILIES, random_task, tiny
from headcount.edit import head_values, mix_inputs, visit_heads
from headcount.meters import HeadMeter
from headcount.models.norms import NormParts
from headcount.rank import METHODS
from headcount.rank.direct import inputs_of
from headcount.rank.fit import fit_for

TASK = random_task()
GRADIENT_FAMILIES = ("gpt2", "gpt_neox", "llama-gqa", "olmo2", "gemma2")


def metric_with(model, pair, change, ids=None, inputs=None):
    """The logit difference of one clean prompt when z of each layer is changed by hand."""
    ids = torch.tensor([pair.clean]) if ids is None else ids
    with torch.no_grad(), visit_heads(model, change):
        logits = model.logits(ids)[0, -1]
    return float(logits[pair.answers[0]] - logits[pair.wrongs[0]])


def only(layer, head, transform):
    def change(at, z):
        if at != layer:
            return None
        z = z.clone()
        z[:, :, head] = transform(z[:, :, head])
        return z

    return change


HEADS = [(0, 0), (1, 3), (2, 2)]


@pytest.mark.parametrize("family", ["gpt2", "llama-gqa"])
def test_patching_is_the_clean_metric_minus_the_metric_without_the_head(family):
    model = tiny(family, torch.float64)
    scores = hc.score(model, TASK, "patching")
    for index, pair in enumerate(TASK.train):
        other = head_values(model, torch.tensor([pair.corrupt]))
        whole = metric_with(model, pair, lambda layer, z: None)
        for layer, head in HEADS:
            cut = metric_with(model, pair, only(layer, head, lambda z: other[layer][:, :, head]))
            assert scores.by_pair[index, layer, head] == pytest.approx(whole - cut, abs=1e-6)


def test_patching_restore_puts_one_clean_head_into_the_counterfactual_run():
    model = tiny("gpt2", torch.float64)
    scores = hc.score(model, TASK, "patching-restore")
    pair = TASK.train[1]
    ids, clean = torch.tensor([pair.corrupt]), head_values(model, torch.tensor([pair.clean]))
    base = metric_with(model, pair, lambda layer, z: None, ids)
    for layer, head in HEADS:
        restored = metric_with(model, pair, only(layer, head, lambda z: clean[layer][:, :, head]), ids)
        assert scores.by_pair[1, layer, head] == pytest.approx(restored - base, abs=1e-6)


@pytest.mark.parametrize("family", GRADIENT_FAMILIES)
@pytest.mark.parametrize("positions", ["all", "last"])
def test_attribution_is_the_derivative_of_patching(family, positions):
    """Move a head's value a little toward the counterfactual: the metric falls at the rate of its score."""
    model = tiny(family, torch.float64)
    scores = hc.score(model, TASK, "attribution", positions=positions)
    pair, step = TASK.train[0], 1e-3
    other = head_values(model, torch.tensor([pair.corrupt]))
    where = torch.ones(len(pair.clean), 1, dtype=torch.float64)
    if positions == "last":
        where[:-1] = 0
    for layer, head in HEADS:
        moved = [
            metric_with(model, pair, only(layer, head, lambda z: z + e * where * (other[layer][:, :, head] - z)))
            for e in (step, -step)
        ]
        slope = (moved[1] - moved[0]) / (2 * step)
        assert scores.by_pair[0, layer, head] == pytest.approx(slope, rel=2e-3, abs=1e-4)


@pytest.mark.parametrize("fill", ["zero", "mean-global"])
def test_attribution_follows_the_fill(fill):
    model = tiny("gpt2", torch.float64)
    attribution = hc.score(model, TASK, "attribution", fill=fill)
    if fill == "zero":
        np.testing.assert_allclose(
            attribution.by_pair, hc.score(model, TASK, "gate-gradient-signed").by_pair, atol=1e-9
        )
    else:
        assert not np.allclose(attribution.values, hc.score(model, TASK, "attribution").values)


def test_attribution_equals_patching_where_the_model_is_linear_in_its_heads():
    """The last layer's heads reach the logits through the last MLP and the norm alone; without them nothing bends."""
    model = tiny("gpt2", torch.float64)
    model.hf.transformer.ln_f = torch.nn.Identity()
    for block in model.hf.transformer.h:
        torch.nn.init.zeros_(block.mlp.c_proj.weight)
    exact = hc.score(model, TASK, "patching", positions="last").by_pair[:, -1]
    approximate = hc.score(model, TASK, "attribution", positions="last").by_pair[:, -1]
    np.testing.assert_allclose(exact, approximate, atol=1e-9)


def test_integrated_gradients_average_the_derivatives_along_the_stated_grid():
    model, steps, pair = tiny("gpt2", torch.float64), 3, TASK.train[0]
    scores = hc.score(model, TASK, "attribution-ig", steps=steps)
    clean, corrupt = torch.tensor([pair.clean]), torch.tensor([pair.corrupt])
    values, other = head_values(model, clean), head_values(model, corrupt)
    for layer, head in HEADS:
        direction = values[layer][:, :, head] - other[layer][:, :, head]
        slopes = []
        for k in range(steps):  # the corrupt end is on the grid, the clean end is not
            moved = []
            for e in (1e-4, -1e-4):
                with mix_inputs(model, corrupt, clean, [k / steps]):
                    moved.append(metric_with(model, pair, only(layer, head, lambda z: z + e * direction)))
            slopes.append((moved[0] - moved[1]) / 2e-4)
        assert scores.by_pair[0, layer, head] == pytest.approx(np.mean(slopes), rel=1e-4, abs=1e-6)


def test_integrated_gradients_refuse_other_fills():
    with pytest.raises(hc.HeadcountError, match="takes the fill counterfactual; got 'zero'"):
        hc.score(tiny("gpt2"), TASK, "attribution-ig", fill="zero")


@pytest.mark.parametrize("family", GRADIENT_FAMILIES)
def test_gate_gradient_is_the_derivative_of_a_gate(family):
    model = tiny(family, torch.float64)
    signed, absolute = hc.score(model, TASK, "gate-gradient-signed"), hc.score(model, TASK, "gate-gradient")
    pair = TASK.train[2]
    for layer, head in HEADS:
        up, down = (metric_with(model, pair, only(layer, head, lambda z: z * g)) for g in (1.001, 0.999))
        assert signed.by_pair[2, layer, head] == pytest.approx((up - down) / 0.002, rel=2e-3, abs=1e-4)
    np.testing.assert_allclose(absolute.by_pair, np.abs(signed.by_pair))
    assert not np.allclose(absolute.values, np.abs(signed.values)), "the mean of sizes is not the size of the mean"


@torch.no_grad()
@pytest.mark.parametrize("family", FAMILIES)
def test_direct_attributions_and_everything_else_in_the_stream_add_up_to_the_logit_difference(family):
    """Sum over heads of A(z W_O)·u, plus the rest of the residual stream through the same norm, plus its bias."""
    model = tiny(family, torch.float64)
    scores = hc.score(model, TASK, "direct")
    pair = TASK.train[0]
    weight = model.unembedding.weight
    direction = weight[pair.answers[0]] - weight[pair.wrongs[0]]
    values = head_values(model, torch.tensor([pair.clean]))
    with inputs_of([*(model.anatomy.attention_norms or ()), model.anatomy.final_norm]) as streams:
        model.logits(torch.tensor([pair.clean]))
    final = NormParts.probe(model.anatomy.final_norm, like=weight)
    whole = streams[-1][0, -1:]
    written = 0
    for layer in range(model.n_layers):
        heads = torch.einsum("hd,hdm->hm", values[layer][0, -1], model.anatomy.out_weight(layer))
        if model.anatomy.attention_norms is not None:
            heads = NormParts.probe(model.anatomy.attention_norms[layer], weight).share(
                heads[None], streams[layer][0, -1:]
            )[0]
        written = written + heads.sum(0)
    rest = final.share((whole - written)[None], whole)[0, 0] @ direction
    before_cap = (model.anatomy.final_norm(whole) @ direction).item()
    total = scores.by_pair[0].sum() + float(rest) + float(final.bias @ direction)
    assert total == pytest.approx(before_cap, abs=2e-4)


@torch.no_grad()
def test_direct_attribution_is_the_effect_of_a_head_on_the_answer_when_nothing_lies_in_between():
    """Remove a last-layer head from the stream by hand, with the norm's scale held: the logits fall by its score."""
    model = tiny("gpt2", torch.float64)
    torch.nn.init.zeros_(model.hf.transformer.h[-1].mlp.c_proj.weight)
    torch.nn.init.zeros_(model.hf.transformer.h[-1].mlp.c_proj.bias)
    scores, pair = hc.score(model, TASK, "direct"), TASK.train[0]
    norm = model.hf.transformer.ln_f
    values = head_values(model, torch.tensor([pair.clean]))
    with inputs_of([norm]) as streams:
        model.logits(torch.tensor([pair.clean]))
    x = streams[0][0, -1]
    sigma = (x.var(unbiased=False) + norm.eps).sqrt()
    part = values[2][0, -1, 1] @ model.anatomy.out_weight(2)[1]
    share = (part - part.mean()) / sigma * norm.weight
    direction = model.hf.lm_head.weight[pair.answers[0]] - model.hf.lm_head.weight[pair.wrongs[0]]
    assert scores.by_pair[0, 2, 1] == pytest.approx(float(share @ direction), abs=1e-6)


# ---------------------------------------------------------------------------------------------------------------------
# Patterns


def test_pattern_detectors_read_the_right_places():
    """Uniform attention looks everywhere alike: 1/(i+1) from position i, whichever place a detector reads."""
    model = tiny("gpt2", torch.float64)
    for block in model.hf.transformer.h:
        torch.nn.init.zeros_(block.attn.c_attn.weight)
    uniform = np.mean([1 / (i + 1) for i in range(24, 48)])
    for method in ("previous-token", "duplicate-token", "induction"):
        np.testing.assert_allclose(hc.score(model, TASK, method).values, uniform, rtol=1e-6)


def test_a_head_that_attends_to_the_token_before_is_found():
    """Positions as one-hot vectors, keys shifted by one: head 2 of layer 0 can only look one back."""
    model = tiny("gpt2", torch.float64)
    gpt2 = model.hf.transformer
    n, d = 64, 32
    torch.manual_seed(1)
    code = torch.nn.functional.normalize(torch.randn(n, 8, dtype=torch.float64), dim=-1) * 6
    attention = gpt2.h[0].attn.c_attn
    with torch.no_grad():
        gpt2.wte.weight.zero_()
        gpt2.wpe.weight.zero_()
        gpt2.wpe.weight[:, :8] = code
        gpt2.wpe.weight[1:, 8:16] = code[:-1]
        gpt2.h[0].ln_1 = torch.nn.Identity()
        attention.weight[:, 16:24], attention.bias[16:24] = 0, 0
        attention.weight[:, d + 16 : d + 24], attention.bias[d + 16 : d + 24] = 0, 0
        attention.weight[8:16, 16:24] = torch.eye(8, dtype=torch.float64)  # query: the code of the position before
        attention.weight[:8, d + 16 : d + 24] = torch.eye(8, dtype=torch.float64)  # key: the code of this position
    scores = hc.score(model, TASK, "previous-token")
    assert scores.order()[0] == (0, 2)
    assert scores.values[0, 2] > 0.8


def test_pattern_detectors_leave_the_attention_implementation_as_it_was():
    model = tiny("llama")
    before = model.hf.config._attn_implementation
    hc.score(model, TASK, "induction")
    assert model.hf.config._attn_implementation == before == "sdpa"


# ---------------------------------------------------------------------------------------------------------------------
# All methods


OF_HEADS = [name for name, method in METHODS.items() if method.units == "heads"]
DRIVEN = ("search", "learned", "attribution-iterative")
"""Methods that only measure and differentiate what others do in every family."""


@pytest.mark.parametrize(
    ("method", "family"),
    [(m, f) for m in OF_HEADS for f in FAMILIES if m not in DRIVEN or f in ("gpt2", "llama-gqa", "gemma2")],
)
def test_every_method_runs_on_every_family_and_repeats_itself(family, method, own_cache, monkeypatch):
    monkeypatch.setattr("headcount.rank.search.MASKS", 40)
    model, fit = tiny(family, layers=2), fit_for(method, None).changed(seeds=2, updates=3, batch=4)
    few = replace(TASK, train=TASK.train[:4])  # two of each length
    first, second = (hc.score(model, few, method, steps=2, fit=fit) for _ in range(2))
    samples = {"gating": 2, "learned": 2, "search": 1, "attribution-iterative": 1}.get(method, 4)
    assert first.by_pair.shape == (samples, 2, 4)
    assert np.isfinite(first.by_pair).all()
    assert np.array_equal(first.by_pair, second.by_pair)
    assert len(set(first.order())) == 8


@pytest.mark.parametrize("method", ["patching", "attribution", "attribution-ig", "gate-gradient", "direct"])
def test_scores_do_not_depend_on_how_prompts_share_a_batch(method):
    model = tiny("llama-gqa", torch.float64)
    one, many = (hc.score(model, TASK, method, max_tokens=tokens).by_pair for tokens in (10, 2000))
    np.testing.assert_allclose(one, many, atol=2e-5)


def test_the_cost_of_exact_patching_is_what_the_table_says():
    model, prompts_run = tiny("gpt2"), []
    hc.score(model, TASK, "patching", advance=prompts_run.append)
    assert sum(prompts_run) == len(TASK.train) * (1 + model.head_count)
    assert METHODS["patching"].forwards(model.head_count, steps=5) == 2 + model.head_count


def test_scores_survive_saving(tmp_path):
    scores = hc.score(tiny("gpt2"), TASK, "attribution")
    loaded = hc.HeadScores.load(scores.save(tmp_path / "kept"))
    assert np.array_equal(loaded.by_pair, scores.by_pair)
    assert loaded.provenance == scores.provenance
    assert {path.suffix for path in (tmp_path / "kept").iterdir()} == {".json", ".safetensors"}
    assert loaded.to_frame().shape == (12, 8)


def test_orders():
    by_pair = np.array([[[0.5, -2.0], [0.0, 1.0]]])
    scores = hc.HeadScores("m", "t", "x", "logit_diff", by_pair)
    assert scores.order("signed") == [(1, 1), (0, 0), (1, 0), (0, 1)]
    assert scores.order("absolute") == [(0, 1), (1, 1), (0, 0), (1, 0)]


def test_a_method_of_the_users_own():
    try:

        @hc.register_method("constant", summary="one for all", cost="0")
        def constant(model, pairs, settings):
            return torch.ones(len(pairs), model.n_layers, model.n_heads)

        assert hc.score(tiny("gpt2"), TASK, "constant").values.tolist() == [[1] * 4] * 3
    finally:
        METHODS._own.pop("constant", None)


def test_an_unknown_method_suggests_the_nearest():
    with pytest.raises(hc.HeadcountError, match="Did you mean 'attribution'"):
        hc.score(tiny("gpt2"), TASK, "atribution")


def test_measuring_the_same_cut_alone_or_among_many_is_the_same():
    """Batch invariance of the evaluator itself."""
    from headcount.edit import Filler

    model = tiny("qwen2", torch.float64)
    keeps = torch.rand(9, 3, 4, generator=torch.Generator().manual_seed(0)) > 0.4
    filler = Filler.prepare(model, "counterfactual", examples=TASK.test, reference=TASK.train)
    together = HeadMeter(model, TASK.test, filler).measure(keeps)
    alone = [HeadMeter(model, TASK.test, filler, max_tokens=1).measure(keep[None]) for keep in keeps]
    for name in together:
        np.testing.assert_allclose(together[name], np.concatenate([one[name] for one in alone]), atol=1e-5)


@pytest.mark.parametrize("method", ["attribution", "patching", "eap"])
def test_scores_that_are_no_numbers_rank_nothing_and_are_refused(method):
    model = tiny("gpt2")
    with torch.no_grad():
        model.hf.lm_head.weight[:] = torch.nan
    with pytest.raises(hc.HeadcountError, match=f"{method} gives scores of 'gpt2' on 'random' that are not finite"):
        hc.score(model, random_task(), method)
