"""Metrics worked out by hand."""

import math

import pytest
import torch

import headcount as hc
from headcount.meters.metrics import METRICS, OF_PAIRS, RANGES, Reference, measure_all, metric_named, range_of
from headcount.tasks.batches import collate

# Probabilities 0.5, 0.2, 0.2, 0.1 for tokens 0 to 3.
LOGITS = torch.tensor([[0.5, 0.2, 0.2, 0.1]] * 2, dtype=torch.float64).log()
BATCH = collate([hc.Pair((0,), (0,), (0,), (1,)), hc.Pair((0,), (0,), (2, 3), (0, 1))], torch.device("cpu"))


@pytest.mark.parametrize(
    ("name", "one_answer", "several"),
    [
        ("logit_diff", math.log(0.5 / 0.2), math.log(0.2 / 0.5)),  # the best of each side
        ("prob_diff", 0.5 - 0.2, 0.3 - 0.7),  # the sums of each side
        ("log_prob", math.log(0.5), math.log(0.3)),
        ("accuracy", 1.0, 0.0),
    ],
)
def test_metric(name, one_answer, several):
    values = metric_named(name)(LOGITS, BATCH)
    torch.testing.assert_close(values, torch.tensor([one_answer, several], dtype=torch.float64))


def test_logits_that_are_no_numbers_are_never_right():
    completion = collate([hc.Completion((0,), (1,))], torch.device("cpu"))
    nothing = torch.full_like(LOGITS, torch.nan)
    assert metric_named("accuracy")(nothing, BATCH).tolist() == [0, 0]
    assert metric_named("accuracy")(nothing[:1], completion).tolist() == [0]


def test_a_shift_of_all_logits_changes_nothing():
    for metric in METRICS.values():
        torch.testing.assert_close(metric(LOGITS + 7, BATCH), metric(LOGITS, BATCH))


def test_kl_is_that_of_the_uncut_model_against_the_cut_one():
    cut = torch.tensor([[0.25] * 4], dtype=torch.float64).log()
    wanted = sum(p * math.log(p / 0.25) for p in (0.5, 0.2, 0.2, 0.1))
    torch.testing.assert_close(
        Reference.of(LOGITS[:1]).kl(cut.log_softmax(-1)), torch.tensor([wanted], dtype=torch.float64)
    )
    assert float(Reference.of(LOGITS).kl(LOGITS.log_softmax(-1)).abs().max()) == 0


def test_all_metrics_come_from_one_pass():
    assert set(measure_all(LOGITS, BATCH, OF_PAIRS, Reference.of(LOGITS))) == {
        "logit_diff",
        "prob_diff",
        "log_prob",
        "accuracy",
        "kl",
    }


def test_metrics_reach_the_ends_of_their_ranges_and_no_further():
    """Logits from flat to all but certain, of all tokens in turn."""
    logits = torch.cat([LOGITS, *(scale * torch.eye(4, dtype=torch.float64) for scale in (1, 10, 400))])
    pair = collate([hc.Pair((0,), (0,), (0,), (1,))] * len(logits), torch.device("cpu"))
    uncut = Reference.of(logits[2].expand_as(logits))
    found = {name: values[0] for name, values in measure_all(logits, pair, OF_PAIRS, uncut).items()}
    found["log_prob_per_token"] = METRICS["log_prob_per_token"](logits, pair)
    for name, values in found.items():
        low, high = range_of(name)
        assert float(values.min()) >= low - 1e-12, name
        assert float(values.max()) <= high + 1e-12, name
        reached = values.aminmax()
        for end, bound in zip(reached, (low, high), strict=True):
            assert not math.isfinite(bound) or float(end) == pytest.approx(bound, abs=1e-6), name
    assert [name for name in found if name not in RANGES] == ["logit_diff"]
    assert range_of("prob_diff_change") == (-2, 2)
    assert range_of("log_prob_change") == range_of("logit_diff_change") == (-math.inf, math.inf)


def test_an_unknown_metric_suggests_the_nearest():
    with pytest.raises(hc.HeadcountError, match="Did you mean 'logit_diff'"):
        metric_named("logit_dif")
