"""Products: dot, scaled dot, general."""

import math

import pytest
import torch

from regard.align import softmax
from regard.score import Dot, General, ScaledDot, dot, general, scaled_dot

QUERY = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
KEYS = torch.tensor([[3.0, 4.0], [-1.0, 0.5], [0.0, 1.0]], dtype=torch.float64)
WEIGHT = torch.tensor([[1.0, 0.5], [0.0, -1.0]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("scores", "expected", "weights"),
    [
        (dot(QUERY, KEYS), (11.0, 0.0, 2.0), (0.999860, 0.000017, 0.000123)),
        (scaled_dot(QUERY, KEYS), (7.778175, 0.0, 1.414214), (0.997863, 0.000418, 0.001719)),
        (general(QUERY, KEYS, WEIGHT), (-3.0, -1.75, -1.5), (0.111457, 0.389025, 0.499518)),
    ],
    ids=["dot", "scaled", "general"],
)
def test_golden_values(scores: torch.Tensor, expected: tuple[float, ...], weights: tuple[float, ...]) -> None:
    torch.testing.assert_close(scores, torch.tensor([expected], dtype=torch.float64), rtol=0, atol=1e-6)
    torch.testing.assert_close(softmax(scores), torch.tensor([weights], dtype=torch.float64), rtol=0, atol=1e-6)


@pytest.mark.parametrize("width", [16, 256])
def test_variance_on_normal_inputs(width: int) -> None:
    query, keys = torch.randn(300, width), torch.randn(300, width)
    assert dot(query, keys).var().item() == pytest.approx(width, rel=0.05)
    assert scaled_dot(query, keys).var().item() == pytest.approx(1, rel=0.05)


def test_unscaled_dot_is_nearly_one_hot_at_width_512() -> None:
    query, keys = torch.randn(200, 512), torch.randn(10, 512)
    assert softmax(dot(query, keys)).amax(-1).mean() > 0.9
    assert softmax(scaled_dot(query, keys)).amax(-1).mean() < 0.5


def test_scaled_times_root_of_width_is_dot() -> None:
    query, keys = torch.randn(2, 3, 5), torch.randn(2, 4, 5)
    torch.testing.assert_close(ScaledDot()(query, keys) * math.sqrt(5), Dot()(query, keys))


def test_general_with_identity_is_dot() -> None:
    query, keys, score = torch.randn(3, 5), torch.randn(4, 5), General(5, 5)
    torch.nn.init.eye_(score.weight)
    torch.testing.assert_close(score(query, keys), dot(query, keys))


def test_general_with_different_widths() -> None:
    query, keys, score = torch.randn(2, 3, 5), torch.randn(2, 4, 7), General(5, 7)
    expected = torch.einsum("bqd,de,bke->bqk", query, score.weight, keys)
    torch.testing.assert_close(score(query, keys), expected)
    torch.testing.assert_close(general(query, keys, score.weight), expected)


def test_scaled_dot_stays_in_range_of_float16() -> None:
    query, keys = torch.full((1, 64), 64.0, dtype=torch.float16), torch.full((1, 64), 64.0, dtype=torch.float16)
    assert scaled_dot(query, keys).item() == 64 * 64 * 8  # the product alone, 262144, is out of range
