import numpy as np
import pytest

from regard.base import ShapeError
from regard.explanation import Gallery

TILES = np.arange(2 * 3 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 3, 4, 5, 3)
EXAMPLE = Gallery.of(TILES, columns=["known", "drawn", "<b>"], rows=["a", "b"], title="t")


def random_example(rng):
    down, across, high, wide = rng.integers(1, 4, 4).tolist()
    tiles = rng.integers(0, 256, (down, across, high, wide, 3), dtype=np.uint8)
    return Gallery.of(tiles, columns=["<b>"] * across * int(rng.integers(2)), title="t")


def test_tiles_come_back():
    assert np.array_equal(EXAMPLE.tiles(), TILES)
    assert np.array_equal(EXAMPLE.image[4:, 5:10], TILES[1, 1])
    assert Gallery.from_json(EXAMPLE.to_json()) == EXAMPLE


def test_html_has_every_picture_and_no_markup_of_labels():
    page = EXAMPLE.html()
    assert page.count("<img ") == 6
    assert "<b>" not in page
    assert "known" in page


@pytest.mark.parametrize(("change", "message"), [
    ({"grid": (3, 3)}, "the tiles of a gallery do not fill it: got 3 × 3 tiles in 8 × 15 pixels"),
    ({"grid": (2,)}, r"the grid of a gallery: got \(2,\)"),
    ({"columns": ["a"]}, "columns do not fit the weights: got 1 labels; expected 3"),
])  # fmt: skip
def test_wrong_galleries(change, message):
    fields = {"image": EXAMPLE.image, "grid": (2, 3)}
    with pytest.raises(ShapeError, match=message):
        Gallery(**(fields | change))
    with pytest.raises(ShapeError, match=r"pictures of a gallery: got shape \[2, 2, 3\]"):
        Gallery.of(np.zeros((2, 2, 3), dtype=np.uint8))
