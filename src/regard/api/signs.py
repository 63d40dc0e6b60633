"""Whole signs: one model finds the words of a picture, another one reads each of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.api.model import Model
from regard.explanation import Boxes, Displayed, Explanation
from regard.tasks import Picture, ReadWord

MARGIN = 0.08  # of the height of a box, around it, that the reader sees too


@dataclass(frozen=True, eq=False)
class ReadSign(Displayed):
    """The words of a picture in the order in which people read: from top to bottom, and from left to right."""

    name: str
    words: tuple[ReadWord, ...]
    boxes: NDArray[np.float32]  # [n 4]: top, left, height, width in pixels
    image: NDArray[np.uint8]  # [h w 3]

    @property
    def text(self) -> str:
        """All words, line by line; words whose middles lie at one height stand in one line."""
        return "\n".join(" ".join(self.words[number].text for number in line) for line in lines(self.boxes))

    @property
    def explanations(self) -> tuple[Explanation, ...]:
        """The picture with a box and a text for each word; then where each letter was looked for, word by word."""
        labels = [word.text for word in self.words]
        found = Boxes(self.image, self.boxes, labels, title=f"{len(labels)} words found and read")
        return (found, *(each for word in self.words for each in word.explanations))


def read_sign(reader: Model, finder: Model, picture: Picture, **settings: Any) -> ReadSign:
    """Finds the words of a picture with one model and reads them with another; `settings` are those of the reader."""
    reader.must("read")
    finder.must("find")
    found = finder.predict(picture)
    order = [number for line in lines(found.boxes) for number in line]
    boxes = found.boxes[order]
    words: list[ReadWord] = reader.predict([_cut(found.image, box) for box in boxes], **settings) if len(boxes) else []
    return ReadSign(found.name, tuple(words), boxes, found.image)


def lines(boxes: NDArray[np.float32]) -> list[list[int]]:
    """The numbers of boxes [n 4] (top, left, height, width), line by line.

    >>> lines(np.array([[0, 50, 10, 20], [30, 0, 10, 20], [2, 5, 10, 20]], dtype=np.float32))
    [[2, 0], [1]]
    """
    rows: list[list[int]] = []
    for number in np.argsort(boxes[:, 0] + boxes[:, 2] / 2, kind="stable").tolist():
        middle = boxes[number, 0] + boxes[number, 2] / 2
        if rows:
            first = boxes[rows[-1][0]]
            if first[0] < middle < first[0] + first[2]:
                rows[-1].append(number)
                continue
        rows.append([number])
    return [sorted(row, key=lambda number: float(boxes[number, 1])) for row in rows]


def _cut(image: NDArray[np.uint8], box: NDArray[np.float32]) -> NDArray[np.uint8]:
    """The pixels of a box, and a small margin around it."""
    margin = MARGIN * float(box[2])
    first = np.floor(np.maximum(box[:2] - margin, 0)).astype(int)
    last = np.ceil(np.minimum(box[:2] + box[2:] + margin, image.shape[:2])).astype(int)
    return np.ascontiguousarray(image[first[0] : max(last[0], first[0] + 1), first[1] : max(last[1], first[1] + 1)])
