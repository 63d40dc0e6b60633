"""A small task of words, and photographs for it that a test makes; `from few_words import SMALL`."""

import numpy as np

from regard.data import Lettering, WordPictures
from regard.data.words import join_pictures
from regard.tasks import WordReadingConfig

SMALL = WordReadingConfig(
    faces=("DejaVu Sans",), vocabulary=200, longest=8, height=16, width=48, batch_size=8, held_out=12, tested=(),
    lettering=Lettering(strings=0.0, marks=0.0),
)  # fmt: skip


def photographs(count: int = 20, shade: int = 0) -> dict[str, WordPictures]:
    """Words a0, a1, … on pictures of one shade."""
    pictures = [np.full((10, 30 + number, 3), shade + number, np.uint8) for number in range(count)]
    words = join_pictures(
        pictures, [f"A{number}!" for number in range(count)], [f"{number}" for number in range(count)]
    )
    return {"train": words.take(range(12)), "valid": words.take(range(12, 15)), "test": words.take(range(15, count))}
