import numpy as np

from regard.explanation import Blocks
from regard.viz import draw

SEEN = np.zeros((1, 4, 6))
SEEN[0, 1:3, 2:5] = 1
BLOCKS = Blocks(np.zeros((8, 12, 3), dtype=np.uint8), SEEN / 6, SEEN, [[5, 3]], ["row 5"], title="t")


def test_what_was_not_seen_is_dark_and_the_block_has_a_line_around():
    picture, panel = draw(BLOCKS)
    assert panel.get_title(loc="left") == "row 5"
    veil = panel.images[-1].get_array()
    assert (veil[..., 3] == 0).tolist() == (SEEN[0] == 1).tolist()
    edges = [line for line in panel.lines if line.get_color() == "#56b4e9"]
    assert len(edges) == 2 * (2 + 3)  # sides of cells around a block of 2 × 3
    length = sum(abs(np.diff(line.get_xdata())).sum() + abs(np.diff(line.get_ydata())).sum() for line in edges)
    assert length == 2 * (4 + 6)  # two pixels a cell
    assert len(picture.images) == 1


def test_no_pixels():
    nothing = Blocks(np.zeros((2, 2, 3), dtype=np.uint8), np.zeros((0, 2, 2)), np.zeros((0, 2, 2)), np.zeros((0, 2)))
    assert len(draw(nothing, dark=True)) == 1
