"""Attention with a gate on every edge: open it is the dense model, shut it is silence, drawn it can be learned."""

import itertools
import math

import pytest
import torch

import headcount as hc
from families import FAMILIES, prompts, tiny
from headcount.models.drawn_gates import drawn_weights
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

    def __init__(self, form, open):
        super().__init__(form, 1, start=-0.5)
        self.open, self.mode = open, "noisy"

    def noise(self, p):
        return 1 - self.open.to(p)


@pytest.mark.parametrize("form", FORMS)
def test_gradients_through_the_gates_are_those_of_the_expectation(form):
    """A query and two keys: four settings of the gates. The straight-through gradient, averaged over them with their
    probabilities, is the finite difference of the expected output."""
    torch.manual_seed(0)
    query, value = torch.randn(1, 1, 1, 3, dtype=torch.float64), torch.randn(1, 1, 2, 3, dtype=torch.float64)
    key = torch.randn(1, 1, 2, 3, dtype=torch.float64)
    readout = torch.randn(3, dtype=torch.float64)

    def run(query, offset, bits):
        module = torch.nn.Module()
        gates = Enumerated(form, bits).double()
        del gates.offset
        gates.offset = offset
        module.headcount_gates = gates
        with counted((gates,)):
            weights = gated_weights(module, query, key, None)
        p = gates.probability(query @ key.mT / 3**0.5, (query @ key.mT / 3**0.5).softmax(-1)).detach().flatten()
        chance = torch.where(bits.flatten() > 0, p, 1 - p).prod()
        return (mixed(weights, value)[0, 0, 0] @ readout), chance

    settings = [
        torch.tensor(bits, dtype=torch.float64).view(1, 1, 1, 2) for bits in itertools.product((0, 1), repeat=2)
    ]

    def expectation(query, offset):
        with torch.no_grad():
            return sum(out * chance for out, chance in (run(query, offset, bits) for bits in settings))

    offset = torch.tensor([-0.4], dtype=torch.float64, requires_grad=True)
    query.requires_grad_()
    found_query, found_offset = torch.zeros_like(query), torch.zeros_like(offset)
    for bits in settings:
        out, chance = run(query, offset, bits)
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
    gates.offset.requires_grad_(False)
    logits = torch.tensor([-1.0, 0.3, 2.0]).repeat(40_000, 1)[:, None, None].requires_grad_()
    weights = drawn_weights(gates, logits, torch.ones(1, 1, 1, 3, dtype=torch.bool), False)
    a, p = logits[0, 0, 0].detach().softmax(-1), logits[0, 0, 0].detach().sigmoid()
    g = weights.detach() / a
    assert torch.allclose(g, g.round())
    torch.testing.assert_close(g.mean((0, 1, 2)), p, atol=0.01, rtol=0)
    (found,) = torch.autograd.grad((weights / a).sum(), logits)
    noise = torch.linspace(1e-5, 1 - 1e-5, 200_001).logit()
    relaxed = (logits[0, 0, 0].detach()[:, None] + noise).sigmoid()
    through_gates = {"expected": p * (1 - p), "relaxed": (relaxed * (1 - relaxed)).mean(1)}[gradient]
    through_softmax = (g - a * g.sum(-1, keepdim=True)).mean((0, 1, 2))
    torch.testing.assert_close(found.mean((0, 1, 2)), through_gates + through_softmax, atol=2e-3, rtol=0)


def by_autograd(gates, scores, allowed, price, row_cost, noise):
    """Weights and expected cost of drawn gates, with the gradients that autograd finds: the straight-through formulas
    as they are written on paper."""
    scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
    a = gates.beside_sink(scores, scores.softmax(-1)) * allowed
    p = gates.probability(scores, a) * allowed
    drawn_from = p
    if gates.gradient == "relaxed":
        drawn_from = torch.sigmoid(torch.logit(p, eps=1e-7) - torch.logit(noise.clamp(1e-6, 1 - 1e-6)))
    weights = a * ((noise < p).to(p) + (drawn_from - drawn_from.detach()))
    cost = (p * price).sum((0, 2, 3)) + row_cost * (1 - (1 - p).prod(-1)).sum((0, 2))
    most = (price.sum() + row_cost * allowed.any(-1).sum()) * (len(scores) // len(allowed))
    return weights, cost / most


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("gradient", ["expected", "relaxed"])
@pytest.mark.parametrize(("sinks", "padded"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize(("power", "row_cost", "together"), [(None, 0.0, 2**18), (-0.5, 2.0, 100)])  # all, or two
def test_the_gradient_that_is_written_out_is_autograds(
    form, gradient, sinks, padded, power, row_cost, together, monkeypatch
):
    monkeypatch.setattr("headcount.models.drawn_gates.IN_CACHE", together)
    torch.manual_seed(0)
    gates = Gates(form, 2, start=-1.0, sharpness=2.0, sinks=sinks).double()
    gates.mode, gates.gradient = "noisy", gradient
    if sinks:
        gates.sink.data = torch.tensor([0.4, -0.6], dtype=torch.float64)
    noise = torch.rand(3, 2, 5, 5, dtype=torch.float64)
    rows = iter(noise)
    gates.noise = lambda p: torch.stack([next(rows) for _ in p])
    allowed = torch.ones(5, 5).tril().bool()[None, None]
    if padded:
        allowed = allowed.repeat(3, 1, 1, 1)
        allowed[0, ..., :2] = False  # the first two tokens of a row see nothing
    scores = torch.randn(3, 2, 5, 5, dtype=torch.float64, requires_grad=True)
    low = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
    with counted((gates,), power, row_cost) as ledger:
        weights = drawn_weights(gates, low, allowed, padded)
    at = torch.arange(5)
    price = allowed.double() * ((at[:, None] - at).clamp(min=0) + 1.0).pow(power or 0.0)
    wanted_weights, wanted_cost = by_autograd(gates, scores, allowed, price, row_cost, noise)
    torch.testing.assert_close(weights, wanted_weights)
    torch.testing.assert_close(ledger.expected[0], wanted_cost)
    assert torch.equal(ledger.open[0], (wanted_weights > 0).double().sum(-1))
    of = [scores, gates.offset, *([gates.sink] if sinks else [])]
    readout, prices = torch.randn_like(weights), torch.randn(2, dtype=torch.float64)
    found = torch.autograd.grad((weights * readout).sum() + ledger.expected[0] @ prices, of)
    wanted = torch.autograd.grad((wanted_weights * readout).sum() + wanted_cost @ prices, of)
    for mine, autograds in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, autograds, atol=1e-9, rtol=1e-6)


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


def ledger_of(scores, row_cost=0.0, power=None):
    """What gates of known probabilities cost: in the form `logit`, sigmoid(score)."""
    gates = Gates("logit", 1, 0.0).double()
    allowed = torch.ones(scores.shape[-2:]).tril().bool()[None, None]
    low = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
    with counted((gates,), power, row_cost) as ledger:
        drawn_weights(gates, low, allowed, False)
    return ledger


def test_long_edges_count_more_with_a_distance_power():
    for place, share in {(2, 0): 3 / 10, (2, 2): 1 / 10}.items():
        scores = torch.full((1, 1, 3, 3), -1e3, dtype=torch.float64)
        scores[0, 0, *place] = 1e3
        found = ledger_of(scores, power=1.0).expected[0].detach()
        assert float(found) == pytest.approx(share)  # 1 + 2 + 1 + 3 + 2 + 1 = 10 in all


def test_the_first_edge_of_a_row_can_cost_more_than_the_second():
    """Against every setting of the gates, with its probability: an edge costs 1, a row that opens at all 2 more."""
    p = torch.tensor([[[[0.3, 0.5], [0.6, 0.2]]]], dtype=torch.float64)
    wanted = 0.0
    for gates in itertools.product((0, 1), repeat=3):
        chance = math.prod(q if g else 1 - q for g, q in zip(gates, (0.3, 0.6, 0.2), strict=True))
        rows = gates[0] + max(gates[1:])
        wanted += chance * (sum(gates) + 2 * rows) / (3 + 2 * 2)
    assert float(ledger_of(p.logit(), row_cost=2.0).expected[0].detach()) == pytest.approx(wanted)


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
