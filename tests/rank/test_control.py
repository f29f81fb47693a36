"""Controls with shuffled labels: how far from chance they are, false alarms no more often than they say, leaks found.

The simulated heads carry what real ones do: questions of a function lie close together, those of a template closer
still, so that a fit to shuffled labels guesses whole templates alike.
"""

import numpy as np
import pytest

from headcount.rank.probes import control
from headcount.rank.probes.control import ALARM, guess_table, judge, shuffled_labels

FUNCTIONS, SHUFFLES = 8, 5
BALANCED = (16,) * FUNCTIONS
UNBALANCED = (40, 32, 20, 12, 8, 6, 6, 4)
"""Questions a template, function by function."""


def test_excess_is_accuracy_minus_that_of_the_same_guesses_on_shuffled_questions():
    rng = np.random.default_rng(0)
    guesses, labels = rng.integers(0, 3, 50), np.array([0] * 30 + [1] * 20)
    shuffled = [(rng.permutation(guesses) == labels).mean() for _ in range(4000)]
    table = guess_table(guesses, labels, 3)
    assert judge(table[None]).excess == pytest.approx((guesses == labels).mean() - np.mean(shuffled), abs=0.01)
    both = guess_table(np.stack([guesses, guesses[::-1]], axis=1), labels, 3)
    np.testing.assert_allclose(both, (table + guess_table(guesses[::-1], labels, 3)) / 2)


def test_how_often_chance_does_it_is_counted_over_all_ways_to_name_the_guesses(monkeypatch):
    """Three functions, one shuffle: six renamings, by which three, one (three times) or none (twice) are right."""
    monkeypatch.setattr(control, "RENAMINGS", 60_000)
    assert judge(10 * np.eye(3)[None]).by_chance == pytest.approx(1 / 6, abs=0.01)
    assert judge(10 * np.roll(np.eye(3), 1, axis=0)[None]).by_chance == pytest.approx(3 / 6, abs=0.01)
    assert judge(np.ones((2, 3, 3))).by_chance == 1


def test_with_two_functions_a_few_shuffles_can_never_raise_an_alarm():
    """A fit that tells the two apart names them right in half of all shuffles, so that five say little."""
    assert judge(np.stack([20 * np.eye(2)] * 5)).by_chance == pytest.approx(2 / 32, abs=0.01)


def simulated(rng: np.random.Generator, counts=BALANCED, leak=0.0, width=12):
    """Tables of guesses of fits to shuffled labels, and the excess by template. `leak`: the share of labels that are
    the true ones."""
    centers = rng.normal(size=(FUNCTIONS, width))

    def side(templates):
        values, labels, names = [], [], []
        for function, count in enumerate(counts):
            for template in range(templates):
                center = centers[function] + 0.4 * rng.normal(size=width)
                values.append(center + 0.3 * rng.normal(size=(count, width)))
                labels += [function] * count
                names += [function * templates + template] * count
        return np.concatenate(values), np.array(labels), np.array(names)

    (train, labels, _), (held, asked, names) = side(6), side(3)
    solve = np.linalg.inv(train.T @ train + np.eye(width)) @ train.T
    tables, by_template = [], []
    for _ in range(SHUFFLES):
        dealt = shuffled_labels(len(labels), FUNCTIONS, int(rng.integers(2**31))).numpy()
        mixed = np.where(rng.random(len(labels)) < leak, labels, dealt)
        guesses = (held @ (solve @ np.eye(FUNCTIONS)[mixed])).argmax(1)
        tables.append(guess_table(guesses, asked, FUNCTIONS))
        share = np.bincount(guesses, minlength=FUNCTIONS) / len(guesses)
        right = (guesses == asked) - share[asked]
        by_template.append([right[names == name].mean() for name in np.unique(names)])
    return np.stack(tables), np.array(by_template)


@pytest.mark.parametrize("counts", [BALANCED, UNBALANCED], ids=["as many of each", "more of some"])
def test_false_alarms_are_no_more_frequent_than_it_says(monkeypatch, counts):
    monkeypatch.setattr(control, "RENAMINGS", 1_000)
    rng, runs = np.random.default_rng(1), 200
    found = [simulated(rng, counts) for _ in range(runs)]
    chances = np.array([judge(tables).by_chance for tables, _ in found])
    for level in (0.2, 0.05, 0.01):
        error = (level * (1 - level) / runs) ** 0.5
        assert (chances <= level).mean() <= level + 2.5 * error
    # The number is not merely shy: it is spread as a chance should be.
    assert 0.4 < np.median(chances) < 0.62
    # Shuffles x templates counted as independent, at three standard errors, are wrong many times as often as they say.
    errors = [excess.std(ddof=1) / excess.size**0.5 for _, excess in found]
    naive = np.mean([abs(excess.mean()) > 3 * error for (_, excess), error in zip(found, errors, strict=True)])
    assert naive > 10 * 0.0027


@pytest.mark.parametrize("leak", [0.3, 1.0])
def test_labels_that_were_not_shuffled_are_found_out(leak):
    rng = np.random.default_rng(2)
    found = [judge(simulated(rng, leak=leak)[0]) for _ in range(10)]
    assert sum(each.by_chance < ALARM / 2 for each in found) >= 9
    assert all(each.excess > 0 for each in found)
