"""Plain normalisation."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.align import identity, normalize, share
from regard.score import inverse_distance


@settings(deadline=None, max_examples=25)
@given(st.floats(0, 1))
def test_inverse_distance_with_two_keys_interpolates(between: float) -> None:
    keys = torch.tensor([[300.0], [400.0]], dtype=torch.float64)
    values = torch.tensor([[30.0], [55.0]], dtype=torch.float64)
    query = torch.tensor([[300 + 100 * between]], dtype=torch.float64)
    context = normalize(inverse_distance(query, keys)) @ values
    expected = np.interp(query.item(), keys[:, 0].numpy(), values[:, 0].numpy())
    assert context.item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("size", [1e-38, 1e-30, 1e-3, 1.0, 1e30, 1e38])
def test_any_scale(size: float) -> None:
    scores = (size * torch.tensor([[1.0, 3.0, 0.0, 2.0]])).requires_grad_()
    weights = normalize(scores)
    torch.testing.assert_close(weights, torch.tensor([[1.0, 3.0, 0.0, 2.0]]) / 6)
    weights[0, 0].backward()
    assert scores.grad.isfinite().all()
    torch.testing.assert_close(scores.grad * size, torch.tensor([[5.0, -1.0, 0.0, -1.0]]) / 36)


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_any_scale_in_float64(size: float) -> None:
    scores = size * torch.tensor([[1.0, 3.0, 4.0]], dtype=torch.float64)
    torch.testing.assert_close(normalize(scores), torch.tensor([[0.125, 0.375, 0.5]], dtype=torch.float64))


def test_sum_beyond_the_range_of_float16() -> None:
    torch.testing.assert_close(
        normalize(torch.full((1, 4), 6e4, dtype=torch.float16)), torch.full((1, 4), 0.25, dtype=torch.float16)
    )


def test_negative_scores_count_as_zero() -> None:
    weights = normalize(torch.tensor([[1.0, -5.0, 3.0]]))
    torch.testing.assert_close(weights, torch.tensor([[0.25, 0.0, 0.75]]))


def test_row_without_a_positive_score_is_zero() -> None:
    scores = torch.tensor([[0.0, -1.0], [-0.0, 0.0]], requires_grad=True)
    weights = normalize(scores)
    assert (weights == 0).all()
    weights.sum().backward()
    assert scores.grad.isfinite().all()


def test_gradient_agrees_with_finite_differences() -> None:
    scores = (torch.rand(2, 3, 5, dtype=torch.float64) + 0.1).requires_grad_()
    mask = torch.rand(2, 3, 5) < 0.8
    assert torch.autograd.gradcheck(lambda scores: normalize(scores, mask), scores)


def test_share_divides_by_the_number_of_allowed_keys() -> None:
    mask = torch.tensor([[True, True, False], [False, False, False]])
    shares = share(torch.tensor([[3.0, -1.0, 5.0], [1.0, 1.0, 1.0]]), mask)
    assert shares.tolist() == [[1.5, -0.5, 0.0], [0.0, 0.0, 0.0]]
    scores = torch.randn(4, 7)
    assert torch.equal(share(scores), scores / 7)


def test_infinite_scores_take_the_row_of_a_share() -> None:
    inf = float("inf")
    scores = torch.tensor([[1.0, inf, -2.0], [inf, inf, 1.0], [2.0, -inf, 4.0]], requires_grad=True)
    shares = share(scores)
    assert shares.tolist() == [[0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [1.0, 0.0, 2.0]]
    shares.sum().backward()
    assert scores.grad.isfinite().all()


def test_gradient_of_a_share_agrees_with_finite_differences() -> None:
    scores = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    mask = torch.rand(2, 3, 5) < 0.8
    assert torch.autograd.gradcheck(lambda scores: share(scores, mask), scores)


def test_identity_gives_the_scores_and_scales_with_them() -> None:
    scores, mask = torch.randn(3, 5, 7), torch.rand(3, 5, 7) < 0.6
    weights = identity(scores, mask)
    assert torch.equal(weights, scores * mask)
    assert torch.equal(identity(4 * scores, mask), 4 * weights)  # a power of two: nothing is rounded


def test_infinite_scores_take_the_row_of_an_identity() -> None:
    inf = float("inf")
    scores = torch.tensor([[1.0, inf, -2.0], [inf, inf, 1.0], [2.0, -inf, 4.0]], requires_grad=True)
    weights = identity(scores)
    assert weights.tolist() == [[0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [2.0, 0.0, 4.0]]
    weights.sum().backward()
    assert scores.grad.isfinite().all()
