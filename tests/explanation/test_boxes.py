import numpy as np
import pytest

from regard.base import ConfigError, ShapeError
from regard.explanation import Boxes

IMAGE = np.arange(6 * 8 * 3, dtype=np.uint8).reshape(6, 8, 3)
EXAMPLE = Boxes(IMAGE, [[1.0, 2.0, 3.0, 4.0]], ["exit"], title="t")


def random_example(rng):
    count = int(rng.integers(0, 4))
    boxes = rng.random((count, 4)) * 4 + 0.5
    labels = [rng.choice(["", "выход", "<b>"]).item() for _ in range(count)] if rng.random() < 0.5 else []
    return Boxes(IMAGE, boxes, labels, title=rng.choice(["", "t"]).item())


@pytest.mark.parametrize(("boxes", "labels", "error", "message"), [
    ([[0, 0, 0, 4]], [], ConfigError, "a box has no size"),
    ([[0, 0, 4]], [], ShapeError, r"boxes: got shape \[1, 3\]"),
    ([[0, 0, 4, 4]], ["a", "b"], ShapeError, "labels do not fit"),
])  # fmt: skip
def test_wrong_boxes(boxes, labels, error, message):
    with pytest.raises(error, match=message):
        Boxes(IMAGE, boxes, labels)


def test_a_page_has_a_frame_and_a_label_for_each():
    assert EXAMPLE.html().count("<rect") == 1
    assert ">exit</text>" in EXAMPLE.html()
    assert Boxes(IMAGE, []).boxes.shape == (0, 4)
