import numpy as np

from regard.explanation import Gallery
from regard.viz import draw

TILES = np.random.default_rng(0).integers(0, 256, (2, 3, 4, 5, 3), dtype=np.uint8)


def test_every_tile_is_drawn_at_its_place():
    axes = draw(Gallery.of(TILES, columns=["a", "b", "c"], rows=["first", "second"], title="t"), dark=True)
    assert axes.shape == (2, 3)
    for row in range(2):
        for column in range(3):
            assert np.array_equal(axes[row, column].images[0].get_array(), TILES[row, column])
    assert [ax.get_title(loc="left") for ax in axes[0]] == ["a", "b", "c"]
    assert [axes[row, 0].texts[0].get_text() for row in range(2)] == ["first", "second"]
    assert not draw(Gallery.of(TILES))[0, 0].texts
