"""How few heads suffice: search against trying all subsets, and what it promises."""

from itertools import chain, combinations

import numpy as np
import pytest
import torch

import headcount as hc
from families import pairs, random_task, six_heads, tiny
from headcount.edit import Filler
from headcount.meters import HeadMeter

TASK = random_task(8)
COMPLETIONS = hc.Task(
    *("completions", "Completions", "log_prob"),
    *(tuple(hc.Completion(pair.clean, pair.answers + pair.wrongs) for pair in pairs(6, seed)) for seed in (0, 1)),
)


def explained_by_all_subsets(model, task, fill):
    """Every set of heads and its explained effect on train."""
    count = model.head_count
    sets = [*chain.from_iterable(combinations(range(count), size) for size in range(count + 1))]
    keeps = torch.zeros(len(sets), count, dtype=torch.bool)
    for row, heads in zip(keeps, sets, strict=True):
        row[list(heads)] = True
    filler = Filler.prepare(model, fill, examples=task.train, reference=task.train)
    meter = HeadMeter(model, task.train, filler)
    means = meter.measure(keeps.view(-1, model.n_layers, model.n_heads))[task.metric].mean(1)
    return dict(zip(sets, (means - means[0]) / (means[-1] - means[0]), strict=True))


def places(found, model):
    return tuple(sorted(int(name[1]) * model.n_heads + int(name.split(".h")[1]) for name in found.heads))


MEETS = {"faithful": lambda effect: abs(1 - effect) <= 0.1 + 1e-9, "reached": lambda effect: effect >= 0.9 - 1e-9}


@pytest.mark.parametrize("aim", ["faithful", "reached"])
@pytest.mark.parametrize(("task", "fill"), [(TASK, "counterfactual"), (TASK, "mean"), (COMPLETIONS, "zero")])
def test_search_finds_the_fewest_heads_there_are(task, fill, aim):
    for seed in range(3):
        model = six_heads(seed)
        by_hand = explained_by_all_subsets(model, task, fill)
        fewest = min(len(heads) for heads, effect in by_hand.items() if MEETS[aim](effect))
        scores = hc.score(model, task, "attribution", fill=fill)
        found = hc.search(model, task, scores, fill=fill, aim=aim)
        assert len(found.heads) == fewest
        assert found.optimal
        assert found.explained == pytest.approx(by_hand[places(found, model)], abs=1e-9)
        assert found.masks <= len(by_hand) + 1


def test_the_greedy_part_alone_comes_close_and_never_claims_what_does_not_hold():
    """With too few masks to try all smaller sets, in ten models."""
    short = 0
    for seed in range(10):
        model = six_heads(seed)
        by_hand = explained_by_all_subsets(model, TASK, "counterfactual")
        fewest = min(len(heads) for heads, effect in by_hand.items() if MEETS["faithful"](effect))
        scores = hc.score(model, TASK, "attribution")
        found = hc.search(model, TASK, scores, masks=30)
        assert MEETS["faithful"](by_hand[places(found, model)])
        assert fewest <= len(found.heads) <= found.ranked
        assert len(found.heads) == fewest or not found.optimal
        short += len(found.heads) - fewest
    assert short <= 1, "heads more than the optimum, over ten models together"


def test_what_the_ranking_takes_is_counted_in_the_better_of_its_orders():
    model = six_heads(0)
    by_hand = explained_by_all_subsets(model, TASK, "counterfactual")
    scores = hc.score(model, TASK, "attribution")

    def needed(by):
        order = [layer * 3 + head for layer, head in scores.order(by)]
        return next(k for k in range(7) if MEETS["faithful"](by_hand[tuple(sorted(order[:k]))]))

    found = hc.search(model, TASK, scores)
    assert found.ranked == min(needed("absolute"), needed("signed")) == needed(found.ranked_by)
    assert found.gap == found.ranked - len(found.heads)
    assert str(found).startswith(f"{found.ranked} heads by ranking, {len(found.heads)} by search")


def test_the_nested_order_begins_with_the_heads_found_and_is_swept_as_scores():
    model = tiny("llama-gqa", torch.float64)
    scores = hc.score(model, TASK, "patching")
    found = hc.search(model, TASK, scores)
    assert found.order[: len(found.heads)] == found.heads
    assert sorted(found.order) == sorted(scores.top(12))
    made = found.scores()
    assert made.top(12) == found.order
    assert not made.signed
    twin = hc.Task("twin", "Twin", TASK.metric, TASK.train, TASK.train)
    curve = hc.sweep(model, twin, made, ks="all")
    assert curve.ranking == found.order
    assert curve.band().value[len(found.heads)] == pytest.approx(found.explained, abs=1e-9)
    with pytest.raises(hc.HeadcountError, match="have no sign"):
        hc.sweep(model, TASK, made, keep="signed")


def test_the_method_search_is_the_function_from_an_integrated_gradient():
    model = tiny("gpt2", torch.float64)
    start = hc.score(model, TASK, "attribution-ig")
    assert hc.score(model, TASK, "search").order() == hc.search(model, TASK, start).scores().order()
    start = hc.score(model, COMPLETIONS, "attribution", fill="mean")
    found = hc.search(model, COMPLETIONS, start, fill="mean")
    assert hc.score(model, COMPLETIONS, "search", fill="mean").order() == found.scores().order()


def test_a_search_repeats_itself_and_survives_saving(tmp_path):
    model = tiny("qwen2")
    scores = hc.score(model, TASK, "attribution")
    first, second = (hc.search(model, TASK, scores, masks=60) for _ in range(2))
    assert first == second
    assert hc.Found.load(first.save(tmp_path)) == first
    assert first.masks <= 60


def test_every_mask_is_counted_and_none_is_run_twice():
    model, prompts_run = six_heads(1), []
    found = hc.search(model, TASK, hc.score(model, TASK, "attribution"), advance=prompts_run.append)
    assert sum(prompts_run) == found.masks * len(TASK.train)
    assert found.masks <= 64


def test_what_cannot_be_searched_is_said():
    model = tiny("gpt2")
    scores = hc.score(model, TASK, "attribution")
    with pytest.raises(hc.HeadcountError, match="There is no aim 'best'"):
        hc.search(model, TASK, scores, aim="best")
    with pytest.raises(hc.HeadcountError, match="above 0 and not above 1; got 1.5"):
        hc.search(model, TASK, scores, threshold=1.5)
    with pytest.raises(hc.HeadcountError, match="these are scores of edges"):
        hc.search(model, TASK, hc.score(model, TASK, "eap"))
    with pytest.raises(hc.HeadcountError, match="scores are of 4 heads, but gpt2 has 12"):
        hc.search(model, TASK, hc.HeadScores("m", "t", "x", "logit_diff", np.zeros((1, 2, 2))))
    same = tuple(hc.Pair(pair.clean, pair.clean, pair.answers, pair.wrongs) for pair in TASK.train)
    with pytest.raises(hc.HeadcountError, match="there is no effect whose heads could be searched for"):
        hc.search(model, hc.Task("same", "Same", "logit_diff", same, same), scores)
