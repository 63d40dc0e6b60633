"""Regions of interest: the features inside of boxes, as a small grid for each box (He et al. 2017, RoIAlign)."""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.base import ConfigError, ShapeError
from regard.data.windows import linear_weights

SAMPLES = 2  # places along each side of a bin, whose interpolated features are averaged


def pool_boxes(
    features: Float[Tensor, "b t h w d"], boxes: Float[Tensor, "b r 4"], size: int
) -> Float[Tensor, "b r t size size d"]:
    """The features inside of each box, averaged in size × size bins, at every time of the map.

    `boxes` are left, top, right and bottom as shares of width and height. Features are interpolated linearly between
    the middles of cells, and what lies outside of the map is zero. Two products do it, one an axis, so gradients are
    the same at every run.

    >>> plane = torch.arange(4.0).view(1, 1, 1, 4, 1).expand(1, 1, 4, 4, 1)  # each cell holds its column
    >>> pool_boxes(plane, torch.tensor([[[0.25, 0.25, 0.75, 0.75]]]), 1).flatten()
    tensor([1.5000])
    """
    if features.ndim != 5 or boxes.ndim != 3 or boxes.shape[-1] != 4 or len(boxes) != len(features):
        got = f"features {list(features.shape)}, boxes {list(boxes.shape)}"
        raise ShapeError("pooling of boxes", got=got, expected="features [b t h w d] and boxes [b r 4]")
    if size < 1:
        raise ConfigError("the bins of a box along a side", got=size, expected="1 or more")
    height, width = features.shape[2:4]
    rows = _bins(boxes[..., 1], boxes[..., 3], height, size).to(features.dtype)  # [b r size h]
    columns = _bins(boxes[..., 0], boxes[..., 2], width, size).to(features.dtype)  # [b r size w]
    cut = torch.einsum("brih,bthwd->brtiwd", rows, features)
    return torch.einsum("brjw,brtiwd->brtijd", columns, cut)


def _bins(low: Tensor, high: Tensor, cells: int, size: int) -> Float[Tensor, "b r size cells"]:
    """The share that each bin between two edges takes of each cell of an axis."""
    step = (torch.arange(size * SAMPLES, device=low.device, dtype=low.dtype) + 0.5) / (size * SAMPLES)
    places = (low[..., None] + (high - low)[..., None] * step) * cells
    weights = linear_weights(places, cells)
    return weights.view(*weights.shape[:-2], size, SAMPLES, cells).mean(-2)
