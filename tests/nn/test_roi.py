"""Pooling of boxes, beside torch's own sampling of pictures."""

import pytest
import torch
import torch.nn.functional as F

from regard.base import ConfigError, ShapeError
from regard.nn import pool_boxes
from regard.nn.roi import SAMPLES


@pytest.mark.parametrize("seed", range(6))
def test_the_same_as_sampling_by_torch(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    b, t, h, w, d, r, size = torch.randint(1, 6, (7,), generator=generator).tolist()
    features = torch.randn(b, t, h, w, d, generator=generator, dtype=torch.float64)
    corners = torch.rand(b, r, 2, 2, generator=generator, dtype=torch.float64).sort(2).values
    boxes = corners.flatten(2)  # left, top, right, bottom
    boxes.requires_grad_()
    features.requires_grad_()
    pooled = pool_boxes(features, boxes, size)

    steps = (torch.arange(size * SAMPLES, dtype=torch.float64) + 0.5) / (size * SAMPLES)
    left, top, right, bottom = boxes[..., None].unbind(2)
    x, y = left + (right - left) * steps, top + (bottom - top) * steps  # [b r s]
    grid = torch.stack([x[:, :, None].expand(-1, -1, len(steps), -1), y[..., None].expand(-1, -1, -1, len(steps))], -1)
    pictures = features.permute(0, 1, 4, 2, 3).flatten(1, 2)  # [b t·d h w]
    sampled = F.grid_sample(pictures, (2 * grid - 1).flatten(1, 2), align_corners=False)
    expected = F.avg_pool2d(sampled.unflatten(2, (r, -1)).movedim(2, 1).flatten(0, 1), SAMPLES)
    expected = expected.view(b, r, t, d, size, size).permute(0, 1, 2, 4, 5, 3)
    torch.testing.assert_close(pooled, expected)
    probe = torch.randn(pooled.shape, generator=generator, dtype=torch.float64)
    ours = torch.autograd.grad(pooled, (features, boxes), probe)
    theirs = torch.autograd.grad(expected, (features, boxes), probe)
    torch.testing.assert_close(ours, theirs)


def test_wrong_shapes() -> None:
    features, boxes = torch.zeros(2, 1, 3, 3, 4), torch.zeros(2, 1, 4)
    with pytest.raises(ConfigError, match="the bins of a box along a side: got 0; expected 1 or more"):
        pool_boxes(features, boxes, 0)


@pytest.mark.bare
def test_a_box_has_four_sides() -> None:
    with pytest.raises(ShapeError, match=r"pooling of boxes: got features .*; expected features \[b t h w d\]"):
        pool_boxes(torch.zeros(2, 1, 3, 3, 4), torch.zeros(2, 1, 3), 2)
