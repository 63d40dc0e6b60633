"""The sigmoid gate."""

import math

import pytest
import torch

from regard.align import Sigmoid, sigmoid
from regard.base import ShapeError


def test_each_key_is_judged_alone() -> None:
    scores = torch.randn(2, 3, 5)
    weights = sigmoid(scores)
    torch.testing.assert_close(weights, scores.sigmoid())
    torch.testing.assert_close(sigmoid(scores[..., :2]), weights[..., :2])


def test_offset_is_added_to_the_scores() -> None:
    scores = torch.randn(2, 3, 5)
    torch.testing.assert_close(Sigmoid(-1.5)(scores).weights, (scores - 1.5).sigmoid())
    zeros = torch.zeros(1, 1, 1000)
    assert 0.9 < Sigmoid(-math.log(1000))(zeros).weights.sum() < 1.1


def test_infinite_scores() -> None:
    assert sigmoid(torch.tensor([[math.inf, -math.inf, 0.0]])).tolist() == [[1.0, 0.0, 0.5]]


def test_a_mask_that_allows_everything_changes_nothing() -> None:
    numbers = [[3.0, -200.0, math.inf, -math.inf, 0.5]]
    results = []
    for mask in (None, torch.ones(1, 5, dtype=torch.bool)):
        scores = torch.tensor(numbers, requires_grad=True)
        weights = sigmoid(scores, mask)
        results.append((weights, torch.autograd.grad(weights.sum(), scores)[0]))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])


def test_no_keys_are_refused() -> None:
    for mask in (None, torch.ones(3, 0, dtype=torch.bool)):
        with pytest.raises(ShapeError, match=r"there are no keys to align: got \[2, 3, 0\]"):
            sigmoid(torch.zeros(2, 3, 0), mask)
