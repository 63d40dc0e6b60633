"""Thin-plate splines: the identity, affine maps, interpolation, and a rectifier that begins as the identity."""

import pytest
import torch

from regard.base import ConfigError
from regard.nn import Rectifier, frame_points, spline_weights


def pixels(height: int, width: int) -> torch.Tensor:
    y, x = (torch.arange(height) * 2 + 1) / height - 1, (torch.arange(width) * 2 + 1) / width - 1
    return torch.stack([x.repeat(height), y.repeat_interleave(width)], -1)


def test_affine_maps_are_exact() -> None:
    for count in (4, 6, 20):
        points = frame_points(count)
        weights = spline_weights(points, (5, 9))
        matrix, shift = torch.randn(2, 2), torch.randn(2)
        torch.testing.assert_close(weights @ points, pixels(5, 9), atol=1e-5, rtol=0)
        moved = weights @ (points @ matrix + shift)
        torch.testing.assert_close(moved, pixels(5, 9) @ matrix + shift, atol=1e-4, rtol=0)
        torch.testing.assert_close(weights.sum(1), torch.ones(45), atol=1e-4, rtol=0)


def test_control_points_go_where_they_are_sent() -> None:
    """Pixels of a 1 × n picture whose middles are control points."""
    width = 8
    row = pixels(1, width)
    points = torch.cat([row[::2] + torch.tensor([0.0, 1e-9]), frame_points(6)])
    weights = spline_weights(points, (1, width))
    targets = torch.randn(len(points), 2)
    torch.testing.assert_close((weights @ targets)[::2], targets[:4], atol=1e-3, rtol=0)


def test_a_rectifier_begins_as_the_identity_and_learns() -> None:
    images = torch.randn(3, 1, 32, 100)
    rectifier = Rectifier((32, 100))
    torch.testing.assert_close(rectifier(images), images, atol=1e-3, rtol=0)
    rectifier(images).square().sum().backward()
    assert rectifier.move.weight.grad is not None
    assert rectifier.move.bias.grad.abs().sum() > 0
    with pytest.raises(ConfigError, match="control points of a spline: got 5"):
        frame_points(5)
