import numpy as np
import pytest

from regard.base import ConfigError, ShapeError
from regard.explanation import Path

IMAGE = np.zeros((40, 20, 3), dtype=np.uint8)


def test_places_in_pixels():
    path = Path(IMAGE, [[-1.0, -1.0], [1.0, 1.0], [0.0, 0.5]], size=8, scales=2, label="7")
    assert path.pixels().tolist() == [[0.0, 0.0], [20.0, 40.0], [10.0, 30.0]]
    assert Path(IMAGE, [], size=8).where.shape == (0, 2)


@pytest.mark.parametrize(("change", "error", "message"), [
    ({"where": [[0.0, 1.5]]}, ConfigError, "places of glimpses: got 0 to 1.5; expected −1 to 1. Try: compute x = 2"),
    ({"where": [[0.0, 1.0, 0.0]]}, ShapeError, r"places of glimpses: got shape \[1, 3\]; expected \[t 2\]"),
    ({"where": [[np.nan, 0.0]]}, ConfigError, "places of glimpses are not finite"),
    ({"size": 0}, ConfigError, "the size of a glimpse: got 0; expected a whole number, 1 or more"),
    ({"scales": 0}, ConfigError, "the scales of a glimpse: got 0"),
    ({"image": np.zeros((4, 4), dtype=np.uint8)}, ShapeError, "an explanation needs a picture"),
])  # fmt: skip
def test_wrong_paths(change, error, message):
    with pytest.raises(error, match=message):
        Path(**{"image": IMAGE, "where": [[0.0, 0.0]], "size": 8, **change})
