"""The soft alignment."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.align import Softmax, softmax


def test_golden_values() -> None:
    expected = torch.tensor([[0.0486, 0.3592, 0.5922]])
    torch.testing.assert_close(softmax(torch.tensor([[-2.0, 0.0, 0.5]])), expected, rtol=0, atol=5e-5)


def test_without_mask_it_is_the_softmax_of_torch() -> None:
    scores = torch.randn(2, 3, 5)
    torch.testing.assert_close(softmax(scores), scores.softmax(-1), rtol=0, atol=0)


@pytest.mark.parametrize("temperature", [0.1, 0.5, 1.0, 4.0])
def test_temperature_divides_the_scores(temperature: float) -> None:
    scores = torch.randn(2, 3, 5)
    torch.testing.assert_close(Softmax(temperature)(scores).weights, (scores / temperature).softmax(-1))


def test_temperature_limits() -> None:
    scores = torch.tensor([[1.0, 3.0, 2.0]])
    torch.testing.assert_close(softmax(scores, temperature=1e-3), torch.tensor([[0.0, 1.0, 0.0]]))
    torch.testing.assert_close(softmax(scores, temperature=1e6), torch.full((1, 3), 1 / 3))


@pytest.mark.parametrize("temperature", [1e-6, 0.1, 1.0, 10.0])
def test_infinities_at_every_temperature(temperature: float) -> None:
    scores = torch.tensor([[1.0, math.inf, 2.0], [math.inf, 0.0, math.inf], [-math.inf, 0.0, 0.0], [-math.inf] * 3])
    expected = torch.tensor([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.5], [0.0] * 3])
    torch.testing.assert_close(softmax(scores, temperature=temperature), expected)


def test_large_scores_in_float16() -> None:
    scores = torch.tensor([[6e4, 6e4, -6e4], [6e4, 5e4, 0.0]], dtype=torch.float16)
    assert softmax(scores).tolist() == [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(-50, 50), min_size=1, max_size=8), st.floats(-1e3, 1e3))
def test_adding_a_constant_changes_nothing(row: list[float], shift: float) -> None:
    scores = torch.tensor([row], dtype=torch.float64)
    torch.testing.assert_close(softmax(scores + shift), softmax(scores), rtol=0, atol=1e-12)


def test_appending_masked_keys_changes_no_bit() -> None:
    scores, mask = torch.randn(2, 3, 5), torch.tensor([True] * 5 + [False] * 3)
    padded = torch.cat([scores, 100 * torch.randn(2, 3, 3)], -1)
    torch.testing.assert_close(softmax(padded, mask)[..., :5], softmax(scores), rtol=0, atol=0)


def test_repr_shows_the_temperature() -> None:
    assert repr(Softmax()) == "Softmax()"
    assert repr(Softmax(0.5)) == "Softmax(temperature=0.5)"


@pytest.mark.parametrize("temperature", [1e-3, 1e38, 1e300])
def test_masked_keys_stay_out_at_any_temperature(temperature: float) -> None:
    weights = softmax(torch.zeros(1, 4), torch.tensor([[True, False, True, False]]), temperature=temperature)
    torch.testing.assert_close(weights, torch.tensor([[0.5, 0.0, 0.5, 0.0]]))
