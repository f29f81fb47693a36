"""A soft top k: shares that add up to k, in the order of the scores, with an exact gradient."""

import pytest
import torch

from headcount.rank.soft_top import soft_top


def some_scores(rows=3, units=11):
    return torch.randn(rows, units, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("k", [0.3, 1.0, 4.5, 10.0, 10.9])
def test_shares_add_up_to_k_and_follow_the_scores(k):
    scores = some_scores()
    shares = soft_top(scores, torch.full((3,), k))
    assert torch.allclose(shares.sum(1), torch.full((3,), k, dtype=torch.float64), atol=1e-9)
    assert torch.equal(shares.argsort(1), scores.argsort(1))
    assert 0 <= shares.min() <= shares.max() <= 1


def test_every_row_has_a_k_of_its_own_and_nothing_else_of_the_others():
    # With 16 units a row fills the CPU's vectors alone as among others; what is left over is computed otherwise.
    scores, ks = some_scores(units=16), torch.tensor([1.0, 5.0, 9.0])
    alone = [soft_top(scores[row : row + 1], ks[row : row + 1])[0] for row in range(3)]
    assert torch.equal(soft_top(scores, ks), torch.stack(alone))


def test_equal_scores_have_equal_shares():
    assert torch.allclose(soft_top(torch.zeros(1, 8), torch.tensor([2.0])), torch.full((1, 8), 0.25))


def test_a_low_temperature_gives_the_hard_top_k():
    scores = some_scores(1, 9)
    hard = torch.zeros(1, 9, dtype=torch.float64)
    hard[0, scores[0].topk(3).indices] = 1
    assert torch.allclose(soft_top(scores, torch.tensor([3.0]), temperature=1e-4), hard, atol=1e-6)


def test_the_gradient_equals_finite_differences():
    weights = torch.randn(2, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    ks = torch.tensor([1.3, 4.0])

    def loss(scores):
        return (soft_top(scores, ks) * weights).square().sum()

    assert torch.autograd.gradcheck(loss, some_scores(2, 7).requires_grad_(), eps=1e-6, atol=1e-7)


def test_scores_far_apart_give_numbers():
    scores = torch.tensor([[1e6, -1e6, 0.0, 3.0]], requires_grad=True)
    shares = soft_top(scores, torch.tensor([2.0]))
    shares.square().sum().backward()
    assert shares.sum().item() == pytest.approx(2, abs=1e-6)
    assert scores.grad.isfinite().all()
