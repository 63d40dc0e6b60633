import numpy as np

from regard.explanation import Video
from regard.viz import draw


def test_a_row_for_each_query_and_the_box_of_who_asks():
    weights = np.zeros((2, 3, 2, 2))
    weights[0, 1, 0, 1] = weights[1, 2, 1, 0] = 1.0
    boxes = [[1, 1, 3, 4], [5, 0, 8, 4]]
    video = Video(np.full((4, 24, 3), 200, np.uint8), weights, boxes, [1, 0], ["sees a jump", "jumps"], 1, "a clip")
    axes = draw(video)
    assert axes.shape == (2, 3)
    assert [ax.texts[0].get_text() for ax in axes[:, 0]] == ["sees a jump", "jumps"]
    for row, person in ((0, 1), (1, 0)):
        other, asks = axes[row, 1].patches  # the one who asks lies on top
        assert asks.get_xy() == (boxes[person][0] - 0.5, boxes[person][1] - 0.5)
        assert asks.get_width() == boxes[person][2] - boxes[person][0]
        assert other.get_xy() != asks.get_xy()
        assert not axes[row, 0].patches
    heat = np.asarray(axes[0, 1].images[1].get_array())[..., 3]
    assert heat[0, 1] == heat.max() > 0.8
    assert np.count_nonzero(heat) == 1
    assert not np.asarray(axes[0, 0].images[1].get_array())[..., 3].any()


def test_many_queries_are_counted():
    video = Video(np.zeros((2, 2, 3), np.uint8), np.ones((14, 1, 1, 1)), [[0, 0, 1, 1]], [0] * 14, [""] * 14)
    axes = draw(video, dark=True)
    assert axes.shape == (12, 1)
    assert any("12 of 14 queries" in text.get_text() for text in axes[0, 0].figure.texts)
