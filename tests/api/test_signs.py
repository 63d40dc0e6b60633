"""Whole signs: lines of boxes, cuts, and what is read of them."""

from typing import Any

import numpy as np
import pytest

from regard.api.model import Model
from regard.api.signs import ReadSign, lines, read_sign
from regard.explanation import Boxes
from regard.tasks import FoundWords, ReadWord

IMAGE = np.zeros((40, 100, 3), np.uint8)
BOXES = np.array([[22, 4, 10, 30], [3, 60, 10, 30], [2, 5, 12, 40]], np.float32)


class Fake(Model):
    """A model that gives what it is told to, and remembers what it was asked."""

    def __init__(self, answer: Any, verb: str) -> None:
        vars(self).update(answer=answer, verb=verb, asked=[])

    def must(self, verb: str) -> None:
        assert verb == vars(self)["verb"]

    def predict(self, inputs: Any, **settings: Any) -> Any:
        vars(self)["asked"].append(inputs)
        return vars(self)["answer"](inputs)


def test_words_are_read_line_by_line() -> None:
    image = IMAGE.copy()
    for number, (top, left, height, width) in enumerate(BOXES.astype(int)):
        image[top : top + height, left : left + width] = 50 * (number + 1)
    finder: Any = Fake(lambda picture: FoundWords("sign.png", BOXES, np.ones(3, np.float32), image), "find")
    names = {50: "c", 100: "b", 150: "a"}
    reader: Any = Fake(
        lambda cuts: [ReadWord("", names[int(np.median(cut[cut > 0]))], 0.0, 1.0, None) for cut in cuts], "read"
    )
    sign = read_sign(reader, finder, "sign.png")
    assert sign.text == "a b\nc"
    assert [word.text for word in sign.words] == ["a", "b", "c"]
    assert sign.boxes.tolist() == BOXES[[2, 1, 0]].tolist()
    [found] = sign.explanations
    assert isinstance(found, Boxes)
    assert list(found.labels) == ["a", "b", "c"]
    assert all(cut.shape[0] >= 10 and cut.shape[1] >= 30 for cut in reader.asked[0])  # the box, and a margin


def test_a_picture_without_words() -> None:
    nothing = np.zeros((0, 4), np.float32)
    finder: Any = Fake(lambda picture: FoundWords("blank.png", nothing, np.zeros(0, np.float32), IMAGE), "find")
    reader: Any = Fake(lambda cuts: pytest.fail("there is nothing to read"), "read")
    sign = read_sign(reader, finder, "blank.png")
    assert isinstance(sign, ReadSign)
    assert sign.text == ""
    assert lines(nothing) == []
