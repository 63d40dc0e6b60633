import pytest
import torch

from regard.base import ShapeError
from regard.models import TextDetector, TextDetectorConfig


def test_every_cell_of_four_pixels_speaks() -> None:
    model = TextDetector(TextDetectorConfig(channels=4)).eval()
    out = model(torch.randn(2, 1, 32, 48))
    assert out.scores.shape == (2, 8, 12)
    assert out.sides.shape == (2, 4, 8, 12)
    assert (out.sides > 0).all()
    assert torch.sigmoid(out.scores).mean() < 0.3  # it begins with few words
    with pytest.raises(ShapeError, match="the sides of a picture: got 30 × 48; expected multiples of 16"):
        model(torch.randn(1, 1, 30, 48))


def test_moving_a_picture_moves_what_is_said() -> None:
    model = TextDetector(TextDetectorConfig(channels=4)).double().eval()
    picture = torch.zeros(1, 1, 256, 256, dtype=torch.float64)
    picture[..., 112:128, 96:160] = torch.randn(16, 64, dtype=torch.float64)
    first, second = model(picture).scores, model(picture.roll((16, 32), (2, 3))).scores
    torch.testing.assert_close(first[:, 24:36, 20:44], second[:, 28:40, 28:52])
