"""Attention with a gate on every edge: open it is the dense model, shut it is silence, drawn it can be learned."""

import itertools
import math

import pytest
import torch

import headcount as hc
from families import FAMILIES, prompts, tiny
from headcount.models.gates import FORMS, Gates, add_gates, counted, drawn, gated_weights, gates_of, mixed

GATED = [family for family in FAMILIES if family != "gptj"]


def sparse(family, form="log-prob", start=-2.0, sharpness=1.0, dtype=torch.float32):
    model = tiny(family, dtype)
    add_gates(model, form, start, sharpness)
    model.hf.requires_grad_(False)
    return model


@pytest.mark.parametrize("family", GATED)
@torch.no_grad()
def test_open_gates_give_the_dense_model(family):
    ids, mask = prompts(3, 10), torch.ones(3, 10, dtype=torch.long)
    mask[0, :4] = mask[1, :2] = 0  # padded on the left, as in generation
    model = tiny(family)
    plain, padded = model.logits(ids), model.logits(ids, mask)
    gates = add_gates(model, "log-prob", -2.0)
    with drawn(gates, "open"):
        torch.testing.assert_close(model.logits(ids), plain, atol=1e-5, rtol=0)
        real = mask.bool()
        torch.testing.assert_close(model.logits(ids, mask)[real], padded[real], atol=1e-5, rtol=0)
    assert (model.logits(ids) - plain).abs().max() > 0.1  # and hard ones do not


@pytest.mark.parametrize("form", FORMS)
@torch.no_grad()
def test_padding_changes_nothing(form):
    model = sparse("llama-gqa", form, start=-2.0 if form == "log-prob" else 0.5)
    ids = prompts(1, 8)
    padded = torch.cat([torch.zeros(1, 3, dtype=torch.long), ids], dim=1)
    mask = (torch.arange(11) >= 3).long()[None]
    places = (mask.cumsum(1) - 1).clamp(min=0)
    with counted(gates_of(model)) as ledger:
        alone = model.logits(ids)
        beside = model.hf(input_ids=padded, attention_mask=mask, position_ids=places, use_cache=False).logits[:, 3:]
    torch.testing.assert_close(beside, alone, atol=1e-5, rtol=0)
    first, second = ledger.open[: model.n_layers], ledger.open[model.n_layers :]
    for without, within in zip(first, second, strict=True):  # and padding is neither open nor counted
        assert torch.equal(within[..., 3:], without)
        assert within[..., :3].sum() == 0
    assert int(ledger.edges[-1].sum()) == 8 * 9 // 2


@torch.no_grad()
def test_a_row_whose_gates_are_all_shut_is_exactly_zero():
    model = sparse("llama-gqa", start=0.5)  # no weight lies above a threshold beyond 1
    seen = []
    projection = model.anatomy.out_projections[0]
    handle = projection.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    model.logits(prompts())
    handle.remove()
    assert torch.equal(seen[0], torch.zeros_like(seen[0]))


@torch.no_grad()
def test_gates_apply_after_the_softmax_with_no_renormalisation():
    query, key, value = torch.randn(3, 1, 2, 4, 5).unbind(0)
    module = torch.nn.Module()
    module.headcount_gates = Gates("log-prob", 2, start=-1.2)
    dense = (query @ key.mT / 5**0.5).masked_fill(~torch.ones(4, 4).tril().bool(), -torch.inf).softmax(-1)
    kept = dense * (dense > torch.tensor(-1.2).exp())
    weights = gated_weights(module, query, key, None)
    torch.testing.assert_close(weights, kept)
    torch.testing.assert_close(mixed(weights, value), (kept @ value).transpose(1, 2))


@torch.no_grad()
def test_the_two_forms_open_where_they_say():
    scores = torch.tensor([[[[2.0, -1.0, 0.5]]]])
    weights = scores.softmax(-1)
    logit, log_prob = Gates("logit", 1, start=0.7, sharpness=3.0), Gates("log-prob", 1, start=-1.0, sharpness=3.0)
    torch.testing.assert_close(logit.probability(scores, weights), (3 * (scores + 0.7)).sigmoid())
    torch.testing.assert_close(log_prob.probability(scores, weights), (3 * (weights.log() + 1.0)).sigmoid())
    assert logit.draw(logit.probability(scores, weights)).tolist() == [[[[1.0, 0.0, 1.0]]]]
    # Adding the same to a whole row changes no weight, and so no gate of the second form.
    moved = scores + 5
    torch.testing.assert_close(log_prob.probability(moved, moved.softmax(-1)), log_prob.probability(scores, weights))


@pytest.mark.parametrize("sharpness", [1.0, 2.0, 2.5, 4.0])
def test_every_sharpness_is_the_same_formula(sharpness):
    weights = torch.rand(1, 2, 3, 3, dtype=torch.float64)
    gates = Gates("log-prob", 2, start=-1.5, sharpness=sharpness).double()
    torch.testing.assert_close(
        gates.probability(weights, weights), (sharpness * (weights.log() + 1.5)).sigmoid(), atol=1e-6, rtol=0
    )


class Enumerated(Gates):
    """Gates that take given values, one after the other, so that an expectation can be summed exactly."""

    def __init__(self, form, noise):
        super().__init__(form, 1, start=-0.5)
        self.noise, self.mode = noise, "noisy"

    def draw(self, p):
        return self.noise.to(p) + (p - p.detach())


@pytest.mark.parametrize("form", FORMS)
def test_gradients_through_the_gates_are_those_of_the_expectation(form):
    """A query and two keys: four settings of the gates. The straight-through gradient, averaged over them with their
    probabilities, is the finite difference of the expected output."""
    torch.manual_seed(0)
    query, value = torch.randn(1, 1, 1, 3, dtype=torch.float64), torch.randn(1, 1, 2, 3, dtype=torch.float64)
    key = torch.randn(1, 1, 2, 3, dtype=torch.float64)
    readout = torch.randn(3, dtype=torch.float64)

    def run(query, offset, noise):
        module = torch.nn.Module()
        gates = Enumerated(form, noise).double()
        del gates.offset
        gates.offset = offset
        module.headcount_gates = gates
        with counted((gates,)):
            weights = gated_weights(module, query, key, None)
        p = gates.probability(query @ key.mT / 3**0.5, (query @ key.mT / 3**0.5).softmax(-1)).detach().flatten()
        chance = torch.where(noise.flatten() > 0, p, 1 - p).prod()
        return (mixed(weights, value)[0, 0, 0] @ readout), chance

    settings = [
        torch.tensor(bits, dtype=torch.float64).view(1, 1, 1, 2) for bits in itertools.product((0, 1), repeat=2)
    ]

    def expectation(query, offset):
        with torch.no_grad():
            return sum(out * chance for out, chance in (run(query, offset, noise) for noise in settings))

    offset = torch.tensor([-0.4], dtype=torch.float64, requires_grad=True)
    query.requires_grad_()
    found_query, found_offset = torch.zeros_like(query), torch.zeros_like(offset)
    for noise in settings:
        out, chance = run(query, offset, noise)
        of_query, of_offset = torch.autograd.grad(out, (query, offset))
        found_query += chance * of_query
        found_offset += chance * of_offset
    step = 1e-6
    by_hand = torch.zeros_like(query)
    for place in range(3):
        nudge = torch.zeros_like(query)
        nudge.view(-1)[place] = step
        by_hand.view(-1)[place] = (expectation(query + nudge, offset) - expectation(query - nudge, offset)) / (2 * step)
    torch.testing.assert_close(found_query, by_hand, atol=1e-8, rtol=1e-6)
    difference = (expectation(query, offset + step) - expectation(query, offset - step)) / (2 * step)
    torch.testing.assert_close(found_offset[0], difference, atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("gradient", ["expected", "relaxed"])
def test_drawn_gates_are_open_as_often_as_they_should(gradient):
    torch.manual_seed(0)
    gates = Gates("logit", 1, 0.0)
    gates.mode, gates.gradient = "noisy", gradient
    logits = torch.tensor([-1.0, 0.3, 2.0]).repeat(40_000, 1).requires_grad_()
    p = logits.sigmoid()
    g = gates.draw(p)
    assert set(g.detach().unique().tolist()) == {0.0, 1.0}
    torch.testing.assert_close(g.mean(0), p[0], atol=0.01, rtol=0)
    (found,) = torch.autograd.grad(g.sum(), logits)
    noise = torch.linspace(1e-5, 1 - 1e-5, 200_001).logit()
    relaxed = (logits[0].detach()[:, None] + noise).sigmoid()
    wanted = {"expected": p[0] * (1 - p[0]), "relaxed": (relaxed * (1 - relaxed)).mean(1)}[gradient]
    torch.testing.assert_close(found.mean(0), wanted, atol=2e-3, rtol=0)


@pytest.mark.parametrize("power", [None, 1.0])
def test_the_ledger_has_the_expected_share_of_edges_with_gradients(power):
    model = sparse("gpt2")
    gates = gates_of(model)
    for layer in gates:
        layer.offset.requires_grad_(True)
    with counted(gates, power) as ledger, drawn(gates, "noisy"):
        model.logits(prompts(2, 6))
    assert len(ledger.expected) == model.n_layers
    for shares in ledger.expected:
        assert shares.shape == (model.n_heads,)
        assert ((shares > 0) & (shares < 1)).all()
    torch.stack(ledger.expected).sum().backward()
    assert all((layer.offset.grad < 0).all() for layer in gates)  # a higher threshold shuts edges


@torch.no_grad()
def test_long_edges_count_more_with_a_distance_power():
    p = torch.zeros(1, 1, 3, 3, requires_grad=True)
    from headcount.models.gates import Ledger, _enter

    allowed = torch.ones(3, 3).tril().bool()[None, None]
    for place, share in {(2, 0): 3 / 10, (2, 2): 1 / 10}.items():
        with torch.enable_grad():
            q = p.clone()
            q[0, 0, *place] = 1.0
            ledger = Ledger(distance_power=1.0)
            _enter(ledger, q, q.detach(), allowed)
        assert float(ledger.expected[0].detach()) == pytest.approx(share)  # 1 + 2 + 1 + 3 + 2 + 1 = 10 in all


@torch.no_grad()
def test_the_first_edge_of_a_row_can_cost_more_than_the_second():
    """Against every setting of the gates, with its probability: an edge costs 1, a row that opens at all 2 more."""
    from headcount.models.gates import Ledger, _enter

    allowed = torch.ones(2, 2).tril().bool()[None, None]
    p = torch.tensor([[[[0.3, 0.0], [0.6, 0.2]]]], dtype=torch.float64)
    wanted = 0.0
    for gates in itertools.product((0, 1), repeat=3):
        chance = math.prod(q if g else 1 - q for g, q in zip(gates, (0.3, 0.6, 0.2), strict=True))
        rows = gates[0] + max(gates[1:])
        wanted += chance * (sum(gates) + 2 * rows) / (3 + 2 * 2)
    ledger = Ledger(row_cost=2.0)
    _enter(ledger, p.requires_grad_(), p.detach(), allowed)
    assert float(ledger.expected[0]) == pytest.approx(wanted)


@torch.no_grad()
@pytest.mark.parametrize("family", ["gpt2", "llama-gqa", "gemma2"])
def test_a_sink_is_one_more_logit_in_the_softmax(family):
    """Against a softmax that has it as a last key of value zero; and with gates open it is not there."""
    model = tiny(family)
    gates = add_gates(model, "log-prob", -50.0, sinks=True)  # so low a threshold that every gate is open
    dense = tiny(family).logits(prompts())
    torch.testing.assert_close(model.logits(prompts()), dense)
    for layer in gates:
        layer.sink.fill_(0.3)
    module = model.anatomy.attentions[0]
    torch.manual_seed(0)
    query, key = torch.randn(2, model.n_heads, 5, 4), torch.randn(2, model.n_heads, 5, 4)
    scores = (query @ key.mT / 2).masked_fill(torch.ones(5, 5).triu(1).bool(), float("-inf"))
    wanted = torch.cat([scores, torch.full_like(scores[..., :1], 0.3)], -1).softmax(-1)[..., :-1]
    torch.testing.assert_close(gated_weights(module, query, key, None), wanted)
    assert not torch.allclose(model.logits(prompts()), dense, atol=1e-4)
    with drawn(gates, "open"):
        torch.testing.assert_close(model.logits(prompts()), dense)


def test_a_family_without_the_interface_is_refused_and_left_as_it_was():
    model = tiny("gptj")
    before = model.logits(prompts())
    with pytest.raises(
        hc.HeadcountError, match="GPTJForCausalLM does not take its attention from .*AttentionInterface"
    ):
        add_gates(model, "log-prob", -2.0)
    assert gates_of(model) == ()
    assert torch.equal(model.logits(prompts()), before)


def test_a_fingerprint_tells_gates_of_another_form_or_sharpness_apart():
    made = [sparse("gpt2", form, 0.0, sharpness) for form in FORMS for sharpness in (1.0, 2.0)]
    assert len({model.fingerprint for model in made}) == 4


def test_an_unknown_form_is_refused():
    with pytest.raises(hc.HeadcountError, match="must be one of logit, log-prob. Got 'soft'"):
        add_gates(tiny("gpt2"), "soft", 0.0)


@torch.no_grad()
def test_the_mode_is_back_after_an_exception():
    model = sparse("gpt2")
    gates = gates_of(model)
    with pytest.raises(RuntimeError), drawn(gates, "open"), counted(gates):
        raise RuntimeError
    assert {layer.mode for layer in gates} == {"hard"}
    assert all(layer.ledger is None for layer in gates)


@torch.no_grad()
def test_generation_reads_a_cache_through_the_gates():
    model = sparse("llama-gqa", start=-1.5)
    ids = prompts(2, 6)
    grown = model.hf.generate(ids, max_new_tokens=4, do_sample=False, pad_token_id=2, eos_token_id=None)
    for length in range(6, 10):
        assert torch.equal(model.logits(grown[:, :length])[:, -1].argmax(-1), grown[:, length])
