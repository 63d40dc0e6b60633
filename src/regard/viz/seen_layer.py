"""The weights of one layer for one text, as pictures and pages of a trace take them: numbers, labels, thumbnails."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

SPACE = "␣"
_MARKS = {"\n": "⏎", "\r": "⏎", "\t": "⇥", "▁": SPACE, " ": SPACE, "\u00a0": SPACE}
_LEADING = {"Ġ": SPACE, "Ċ": "⏎", "ĉ": "⇥"}  # how byte-level sub-words begin; inside a word these are letters


@dataclass(frozen=True, eq=False)
class SeenLayer:
    """Weights [heads rows columns] of one layer for one text, with the numbers and labels of what was kept.

    `heads` and `rows` are numbers in the model, since a trace may keep some of them only. Labels are None where the
    trace has none; numbers are shown in their place.
    """

    name: str
    weights: Float[ndarray, "heads rows columns"]
    heads: Sequence[int]
    rows: Sequence[int]
    row_labels: Sequence[str] | None = None
    column_labels: Sequence[str] | None = None
    has_heads: bool = True  # False for a layer without an axis of heads, which is shown as head 0

    @property
    def row_words(self) -> list[str]:
        """The label of each row, ready to be shown; its number where there are no labels."""
        return [str(number) for number in self.rows] if self.row_labels is None else list(map(word, self.row_labels))

    @property
    def column_words(self) -> list[str]:
        """The label of each column, ready to be shown; its number where there are no labels."""
        if self.column_labels is None:
            return [str(number) for number in range(self.weights.shape[-1])]
        return list(map(word, self.column_labels))

    @property
    def column_of_row(self) -> list[int | None]:
        """The column that is the same word as a row: in self-attention, the one with the number of the row.

        It is None where the labels differ, and everywhere if only one side has labels.
        """
        if (self.row_labels is None) != (self.column_labels is None):
            return [None] * len(self.rows)
        width = self.weights.shape[-1]
        inside = [number if number < width else None for number in self.rows]
        if self.row_labels is None or self.column_labels is None:
            return inside if len(self.rows) and max(self.rows) < width else [None] * len(self.rows)
        same = all(
            self.column_labels[number] == label
            for number, label in zip(inside, self.row_labels, strict=True)
            if number is not None
        )
        return inside if same else [None] * len(self.rows)


def word(label: str) -> str:
    """A label as it is shown: characters by which sub-words mark a space become ␣, line ends ⏎ and tabs ⇥.

    >>> word("▁house"), word("Ġhouse"), word("a\\tb"), word("")
    ('␣house', '␣house', 'a⇥b', '∅')
    """
    text = str(label)
    rest = text.lstrip("".join(_LEADING))
    start = "".join(_LEADING[character] for character in text[: len(text) - len(rest)])
    return start + "".join(_MARKS.get(character, character) for character in rest) or "∅"


def short_names(names: Sequence[str]) -> list[str]:
    """Names of layers without the words that all of them begin and end with; a single name stays as it is.

    >>> short_names(["model.layers.0.self_attn", "model.layers.1.self_attn"])
    ['0', '1']
    >>> short_names(["encoder.0.inner", "decoder.0.inner", "decoder.0.cross"])
    ['encoder.0.inner', 'decoder.0.inner', 'decoder.0.cross']
    """
    pieces = [name.split(".") for name in names]
    if len(names) < 2:
        return list(names)
    shortest = min(map(len, pieces))
    first = next((place for place in range(shortest) if len({piece[place] for piece in pieces}) > 1), shortest)
    room = shortest - first
    last = next((place for place in range(room) if len({piece[-1 - place] for piece in pieces}) > 1), room)
    short = [".".join(piece[first : len(piece) - last]) for piece in pieces]
    return short if all(short) and len(set(short)) == len(set(names)) else list(names)


def pooled(matrices: Float[ndarray, "heads rows columns"], most: int) -> Float[ndarray, "heads down across"]:
    """The mean weight of each block of rows and columns, so that no side is longer than `most`.

    >>> pooled(np.array([[[1.0, 0.0, 0.5, 0.5]]]), 2)
    array([[[0.5, 0.5]]])
    """
    for axis in (2, 1):
        size = matrices.shape[axis]
        if size > most:
            starts = np.arange(most) * size // most
            counts = np.diff([*starts, size]).reshape([-1, 1] if axis == 1 else [-1])
            matrices = np.add.reduceat(matrices, starts, axis=axis) / counts
    return matrices


def to_bytes(
    values: Float[ndarray, "*lead columns"],
) -> tuple[ndarray, Float[ndarray, "*lead"], Float[ndarray, "*lead"]]:
    """Numbers in steps of one 255th of each line: bytes, the number that 0 stands for, and that of 255.

    The lower number is 0 unless a line has weights below that.

    >>> steps, low, high = to_bytes(np.array([[0.0, 0.25, 0.5]]))
    >>> steps.tolist(), low.tolist(), high.tolist()
    ([[0, 128, 255]], [0.0], [0.5])
    """
    low = np.minimum(values.min(-1, initial=0), 0).astype(np.float32)
    high = values.max(-1, initial=0).astype(np.float32)
    span = np.where(high > low, high - low, 1)[..., None]
    steps = np.rint((values - low[..., None]) / span * 255)
    return np.clip(steps, 0, 255).astype(np.uint8), low, high
