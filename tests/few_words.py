"""A small task of words, and photographs for it that a test makes; `from few_words import SMALL`."""

import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

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


def write_zipped_words(folder: Path, name: str) -> None:
    """The four files of a published set: six training words and four test words, of each of which one has a hyphen."""
    for split, count in (("train", 6), ("test", 4)):
        with zipfile.ZipFile(folder / f"{name}_{split}.zip", "w") as packed:
            rows = ["file,text,orig_w,orig_h,w,h"]
            for number in range(count):
                file = io.BytesIO()
                Image.fromarray(np.full((10, 30, 3), number, np.uint8)).save(file, "WEBP", lossless=True)
                packed.writestr(f"word_{number}.webp", file.getvalue())
                rows.append(f"word_{number}.webp,{split}{'-' if number == 2 else ''}{number},30,10,30,10")
        (folder / f"{name}_{split}.csv.gz").write_bytes(gzip.compress("\n".join(rows).encode()))


ZIPPED_SPLITS = {  # of these words, where two of the training words are held out
    "train": ("train0", "train1", "train-2", "train3"),
    "valid": ("train4", "train5"),
    "test": ("test0", "test1", "test-2", "test3"),
}
