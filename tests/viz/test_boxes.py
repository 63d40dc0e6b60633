import numpy as np

from regard.explanation import Boxes
from regard.viz import draw


def test_every_box_and_label_is_where_it_should_be():
    image = np.zeros((20, 30, 3), dtype=np.uint8)
    ax = draw(Boxes(image, [[2, 3, 5, 10], [12, 1, 6, 20]], ["a", "b"]))
    frames = [(*patch.get_xy(), patch.get_width(), patch.get_height()) for patch in ax.patches]
    assert frames == [(2.5, 1.5, 10, 5), (0.5, 11.5, 20, 6)]
    assert [text.get_text() for text in ax.texts] == ["a", "b"]
    assert ax.get_xlim() == (-0.5, 29.5)
    assert not draw(Boxes(image, [])).patches
