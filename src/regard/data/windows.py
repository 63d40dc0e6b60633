"""Windows of frames: linear interpolation written as a matrix, so that cutting and scaling is one product an axis.

Such a product waits for nothing, is the same at every run, and a captured graph may hold it.
"""

import torch
from jaxtyping import Float
from torch import Tensor

BEYOND = 4  # cells outside of a picture that count as zero where a window is reduced


def linear_weights(
    places: Float[Tensor, "*b n"], size: int, *, reach: Float[Tensor, "*#b 1"] | None = None
) -> Float[Tensor, "*b n size"]:
    """The share that each of n places takes of each of `size` cells, whose middles are at 0.5, 1.5, ….

    A place between two middles takes from both: a triangle with the half width `reach`, which is one cell or more.
    What lies outside of the cells counts as zero, so rows of places near the edge sum to less than one.

    >>> linear_weights(torch.tensor([0.5, 1.25]), 3)
    tensor([[1.0000, 0.0000, 0.0000],
            [0.2500, 0.7500, 0.0000]])
    """
    if not isinstance(reach, Tensor):
        middles = torch.arange(size, device=places.device, dtype=places.dtype) + 0.5
        return (1 - (places.unsqueeze(-1) - middles).abs()).clamp(min=0)
    middles = torch.arange(-BEYOND, size + BEYOND, device=places.device, dtype=places.dtype) + 0.5
    triangles = (1 - (places.unsqueeze(-1) - middles).abs() / reach.unsqueeze(-1)).clamp(min=0)
    shares = triangles / triangles.sum(-1, keepdim=True).clamp(min=1e-6)  # of a constant picture, a constant is left
    return shares[..., BEYOND : BEYOND + size]


def cut_windows(
    frames: Float[Tensor, "b t c h w"], boxes: Float[Tensor, "b 4"], height: int, width: int
) -> Float[Tensor, "b t c height width"]:
    """One window of each clip, scaled to height × width; `boxes` are left, top, right, bottom in pixels.

    A window may reach beyond the frame, where everything is zero, and a box whose right is left of its left mirrors.
    Where pixels are many to one, a triangle as wide as the scale averages them.
    """
    left, top, right, bottom = boxes.unsqueeze(-1).unbind(1)  # [b 1] each
    across = left + (right - left) * (torch.arange(width, device=boxes.device) + 0.5) / width
    down = top + (bottom - top) * (torch.arange(height, device=boxes.device) + 0.5) / height
    columns = linear_weights(across, frames.shape[-1], reach=((right - left).abs() / width).clamp(min=1))
    rows = linear_weights(down, frames.shape[-2], reach=((bottom - top).abs() / height).clamp(min=1))
    shape = frames.shape
    flat = torch.matmul(rows[:, None], frames.flatten(1, 2))  # [b t·c height w]
    flat = torch.matmul(flat, columns[:, None].transpose(-1, -2))
    return flat.view(*shape[:3], height, width)
