"""The retina: crops and averages, exactly; between pixels, smoothly; beyond the border, zero."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.base import ConfigError
from regard.nn.retina import glimpse, prepare, retina


def crop(images: Tensor, x: int, y: int, size: int, scale: int) -> Tensor:
    """By hand: cut a square around the corner (x, y) of a pixel out of a wide black border, then average."""
    border, wide = 200, size * 2**scale
    padded = F.pad(images, (border, border, border, border))
    left, top = x - wide // 2 + border, y - wide // 2 + border
    return F.avg_pool2d(padded[..., top : top + wide, left : left + wide], 2**scale)


def at(x: float, y: float, images: Tensor) -> Tensor:
    height, width = images.shape[-2:]
    return torch.tensor([[2 * x / width - 1, 2 * y / height - 1]], dtype=images.dtype).expand(len(images), 2)


@pytest.mark.parametrize("place", [(17, 15), (0, 0), (34, 30), (3, 28), (33, 1)])
@pytest.mark.parametrize(("size", "scales"), [(6, 1), (6, 4), (8, 2), (4, 3)])
def test_every_scale_is_an_averaged_crop(place: tuple[int, int], size: int, scales: int) -> None:
    images = torch.rand(3, 2, 30, 34, dtype=torch.float64)
    seen = retina(images, at(*place, images), size=size, scales=scales)
    expected = torch.cat([crop(images, *place, size, scale) for scale in range(scales)], 1)
    torch.testing.assert_close(seen, expected, atol=1e-11, rtol=0)


def test_odd_sizes_are_centred_on_a_pixel() -> None:
    images = torch.rand(2, 1, 20, 20, dtype=torch.float64)
    seen = retina(images, at(7.5, 11.5, images), size=5, scales=1)
    torch.testing.assert_close(seen, images[:, :, 9:14, 5:10], atol=1e-12, rtol=0)


def test_float32_is_near() -> None:
    images = torch.rand(3, 1, 60, 60)
    seen = retina(images, at(31, 12, images), size=12, scales=3)
    expected = torch.cat([crop(images, 31, 12, 12, scale) for scale in range(3)], 1)
    torch.testing.assert_close(seen, expected, atol=2e-5, rtol=0)


def test_picture_and_place_move_together() -> None:
    images = F.pad(torch.rand(2, 1, 12, 12, dtype=torch.float64), (24, 24, 24, 24))
    before = retina(images, at(30.3, 29.8, images), size=6, scales=3)
    moved = images.roll((5, -3), (2, 3))
    after = retina(moved, at(27.3, 34.8, images), size=6, scales=3)
    assert before.abs().sum() > 1
    torch.testing.assert_close(before, after, atol=1e-12, rtol=0)


def test_between_pixels_is_bilinear() -> None:
    images = torch.rand(1, 1, 24, 24, dtype=torch.float64)
    corners = [retina(images, at(x, y, images), size=4, scales=3) for y in (11, 12) for x in (9, 10)]
    weights = [0.75 * 0.6, 0.25 * 0.6, 0.75 * 0.4, 0.25 * 0.4]  # at (9.25, 11.4)
    expected = sum(weight * corner for weight, corner in zip(weights, corners, strict=True))
    torch.testing.assert_close(retina(images, at(9.25, 11.4, images), size=4, scales=3), expected, atol=1e-12, rtol=0)


def test_each_picture_has_its_own_place() -> None:
    images = torch.rand(4, 1, 16, 16)
    where = torch.rand(4, 2) * 2 - 1
    together = retina(images, where, size=4, scales=2)
    one_by_one = [retina(images[i : i + 1], where[i : i + 1], size=4, scales=2) for i in range(4)]
    torch.testing.assert_close(together, torch.cat(one_by_one))


def test_outside_is_zero_and_x_comes_first() -> None:
    images = torch.zeros(1, 1, 16, 16)
    images[..., 2, 13] = 1.0  # up and to the right
    right = retina(images, torch.tensor([[1.0, -1.0]]), size=8, scales=1)
    assert right[0, 0, 4:, :4].sum() == pytest.approx(1.0, abs=1e-4)
    assert not right[0, 0, :4].any()
    assert retina(images, torch.tensor([[-1.0, 1.0]]), size=8, scales=1).sum() == 0
    assert retina(torch.ones_like(images), torch.tensor([[9.0, 0.0]]), size=8, scales=2).sum() == 0


def test_gradients() -> None:
    images = torch.rand(2, 2, 9, 11, dtype=torch.float64, requires_grad=True)
    where = torch.tensor([[0.13, -0.42], [0.97, 0.61]], dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(lambda *inputs: retina(*inputs, size=3, scales=3), (images, where))


def test_prepared_once() -> None:
    images = torch.rand(2, 1, 12, 12)
    pyramid = prepare(images, size=4, scales=2)
    for where in (torch.zeros(2, 2), torch.rand(2, 2)):
        assert glimpse(pyramid, where).equal(retina(images, where, size=4, scales=2))


def test_half_precision_is_made_wide() -> None:
    images = torch.rand(1, 1, 60, 60)
    seen = retina(images.bfloat16(), torch.tensor([[0.31, -0.77]], dtype=torch.bfloat16), size=4, scales=2)
    assert seen.dtype == torch.float32


def test_wrong_sizes() -> None:
    with pytest.raises(ConfigError, match="retina: got size 0, 2 scales"):
        retina(torch.zeros(1, 1, 4, 4), torch.zeros(1, 2), size=0, scales=2)
