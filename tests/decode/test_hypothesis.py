"""Hypotheses and the penalties of GNMT."""

import copy
import math
import pickle
from dataclasses import replace

import pytest
import torch

from regard.decode import Hypothesis, coverage_penalty, length_penalty
from regard.decode.hypothesis import COVERAGE_FLOOR, Seen, many


@pytest.mark.parametrize(
    ("length", "alpha", "expected"),
    [(10, 0.6, 1.732862), (10, 0.2, 1.201124), (1, 0.2, 1), (1, 0.6, 1), (1, 1.0, 1), (20, 1.0, 4.166667), (7, 0.0, 1)],
)
def test_length_penalty(length: int, alpha: float, expected: float) -> None:
    assert length_penalty(length, alpha) == pytest.approx(expected, abs=5e-7)


def test_coverage_penalty() -> None:
    weights = torch.tensor([[0.7, 0.3, 0.0], [0.1, 0.8, 0.1]], dtype=torch.float64)
    assert coverage_penalty(weights.sum(0), 0.2).item() == pytest.approx(-0.505146, abs=5e-7)
    assert coverage_penalty(torch.ones(4), 0.2).item() == 0


def test_zero_coverage_stays_finite() -> None:
    found = coverage_penalty(torch.tensor([0.0, 1.0]), 0.5).item()
    assert found == pytest.approx(0.5 * math.log(COVERAGE_FLOOR))


def test_padding_does_not_count() -> None:
    coverage = torch.rand(2, 3, 6)
    mask = torch.tensor([[True] * 4 + [False] * 2, [True] * 6])
    found = coverage_penalty(coverage, 0.2, mask.unsqueeze(1))
    torch.testing.assert_close(found[0], coverage_penalty(coverage[0, :, :4], 0.2))
    torch.testing.assert_close(found[1], coverage_penalty(coverage[1], 0.2))


def test_length_counts_the_step_of_eos() -> None:
    assert Hypothesis([3, 4], -1.0, -1.0).length == 3
    assert Hypothesis([3, 4], -1.0, -1.0, finished=False).length == 2


def test_hypotheses_are_frozen_and_compare_without_weights() -> None:
    one = Hypothesis([3], -1.0, -0.5, torch.ones(2, 4))
    assert one == Hypothesis([3], -1.0, -0.5)
    assert "weights" not in repr(one)
    with pytest.raises(AttributeError):
        one.score = 0.0


def test_many_hypotheses_cut_their_weights_when_someone_asks() -> None:
    rows = torch.rand(3, 4)
    seen = Seen(rows, [0, 2, 2], [2, 2, 3])
    found = many([[5, 6], [], [7]], [-1.0, 0.0, -2.0], [-1.0, 0.0, -2.0], [False, False, True], seen)
    assert found == [Hypothesis([5, 6], -1.0, -1.0, finished=False), Hypothesis([], 0.0, 0.0, finished=False),
                     Hypothesis([7], -2.0, -2.0)]  # fmt: skip
    first, nothing, last = (one.weights for one in found)
    assert nothing is None
    assert first is not None
    assert last is not None
    torch.testing.assert_close(torch.cat([first, last]), rows)
    assert found[0].weights is first
    for same in (copy.deepcopy(found[2]), pickle.loads(pickle.dumps(found[2])), replace(found[2])):
        torch.testing.assert_close(same.weights, rows[2:])
    assert many([[5]], [0.0], [0.0], [True])[0].weights is None
    with pytest.raises(AttributeError, match="no attribute 'weight'"):
        getattr(found[0], "weight")  # noqa: B009
