"""Linear interpolation as products, beside torch's own."""

import torch
import torch.nn.functional as F

from regard.data import cut_windows, linear_weights


def test_rows_of_weights_sum_to_one_inside() -> None:
    places = 0.5 + 6 * torch.rand(50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights = linear_weights(places, 7)
    torch.testing.assert_close(weights.sum(1), torch.ones(50, dtype=torch.float64))
    torch.testing.assert_close(weights @ (torch.arange(7).double() + 0.5), places)
    assert linear_weights(torch.tensor([-0.5, 7.5]), 7).abs().sum() == 0


def test_windows_are_those_of_grid_sample() -> None:
    generator = torch.Generator().manual_seed(1)
    frames = torch.rand(3, 2, 1, 9, 7, generator=generator, dtype=torch.float64)
    boxes = torch.tensor([[1.0, 2.0, 5.0, 6.0], [6.5, 0.0, 1.5, 4.0], [-2.0, 5.0, 2.0, 9.5]], dtype=torch.float64)
    cut = cut_windows(frames, boxes, 6, 8)  # enlarged, mirrored, and beyond the edge
    left, top, right, bottom = boxes[..., None].unbind(1)
    x = (left + (right - left) * (torch.arange(8) + 0.5) / 8) / 7
    y = (top + (bottom - top) * (torch.arange(6) + 0.5) / 6) / 9
    grid = 2 * torch.stack([x[:, None].expand(-1, 6, -1), y[..., None].expand(-1, -1, 8)], -1) - 1
    expected = F.grid_sample(frames.squeeze(2), grid, align_corners=False).unsqueeze(2)
    torch.testing.assert_close(cut, expected)


def test_reduced_frames_keep_their_mean() -> None:
    frames = torch.rand(1, 1, 1, 24, 24, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    small = cut_windows(frames, torch.tensor([[0.0, 0.0, 24.0, 24.0]], dtype=torch.float64), 6, 6)
    inner, wide = small[..., 1:-1, 1:-1].mean(), frames[..., 4:-4, 4:-4].mean()
    assert abs(inner - wide) < 0.03
    torch.testing.assert_close(
        cut_windows(frames, torch.tensor([[0.0, 0.0, 24.0, 24.0]], dtype=torch.float64), 24, 24), frames
    )


def test_a_bright_picture_stays_bright_at_every_scale() -> None:
    """Windows inside of a white picture are white, whatever they are reduced by; outside it is black."""
    frames = torch.ones(40, 1, 1, 60, 60, dtype=torch.float64)
    side = torch.linspace(6, 36, 40, dtype=torch.float64)
    inside = torch.stack([30 - side / 2, 30 - side / 2, 30 + side / 2, 30 + side / 2], 1)
    torch.testing.assert_close(cut_windows(frames, inside, 8, 8), torch.ones(40, 1, 1, 8, 8, dtype=torch.float64))
    outside = inside + torch.tensor([100.0, 0.0, 100.0, 0.0])
    assert cut_windows(frames, outside, 8, 8).abs().max() == 0
