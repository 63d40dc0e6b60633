import numpy as np
import pytest

from regard.base import ConfigError, ShapeError
from regard.explanation import Blocks

IMAGE = np.zeros((4, 6, 3), dtype=np.uint8)
SEEN = np.zeros((2, 4, 6))
SEEN[0, :2], SEEN[1, 1:3, 2:] = 1, 1
WEIGHTS = SEEN / SEEN.sum((1, 2), keepdims=True)
EXAMPLE = Blocks(IMAGE, WEIGHTS, SEEN, [[2, 0], [3, 2]], ["row 2", "row 3"], title="t")


def random_example(rng):
    high, wide, count = rng.integers(2, 6, 3).tolist()
    seen = (rng.random((count, high, wide)) < 0.5).astype(float)
    weights = seen * rng.random((count, high, wide))
    points = np.stack([rng.integers(0, high, count), rng.integers(0, wide, count)], 1)
    return Blocks(rng.integers(0, 256, (high, wide, 3), dtype=np.uint8), weights, seen, points)


def test_what_is_seen_and_what_is_told():
    assert EXAMPLE.shares() == [12 / 24, 8 / 24]
    assert "seen of the picture: 50 %, 33 %" in EXAMPLE.html()
    assert EXAMPLE.places().spots().tolist() == [[2, 0], [3, 2]]
    assert Blocks.from_json(EXAMPLE.to_json()) == EXAMPLE
    assert Blocks(IMAGE, np.zeros((0, 4, 6)), np.zeros((0, 4, 6)), np.zeros((0, 2))).html() == ""


@pytest.mark.parametrize(("change", "error", "message"), [
    ({"seen": SEEN[:1]}, ShapeError, r"seen places do not fit the weights: got shape \[1, 4, 6\]"),
    ({"seen": SEEN / 2}, ConfigError, "seen places: got 0 to 0.5; expected 0 or 1"),
    ({"weights": np.full((2, 4, 6), 0.1)}, ConfigError, "a weight is outside of the block that was seen"),
    ({"points": [[9, 0], [0, 0]]}, ConfigError, "a point is outside of the picture"),
])  # fmt: skip
def test_wrong_blocks(change, error, message):
    fields = {"image": IMAGE, "weights": WEIGHTS, "seen": SEEN, "points": [[2, 0], [3, 2]]}
    with pytest.raises(error, match=message):
        Blocks(**(fields | change))
