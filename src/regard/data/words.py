"""Pictures of single words with their texts: one split in memory, and a reader for one's own.

Texts are compared as people do who measure reading: in lower case, letters and digits alone.

>>> normalised("Café No. 5!")
'cafno5'
>>> spelled(spell("abc"))
'abc'
"""

import csv
import io
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int, UInt8
from numpy import ndarray
from torch import Tensor

from regard.base import ConfigError, require
from regard.data.captions import SUFFIXES, Zip
from regard.data.glyphs import LETTERS
from regard.data.images import read_image
from regard.data.parallel import DataError, read_lines
from regard.data.text import EOS, SPECIALS

STORED = (48, 192)  # rows and columns in which pictures of words are kept, whatever their shape
FIRST = len(SPECIALS)  # the number of the first letter; those below are <pad>, <bos>, <eos> and <unk>
VOCABULARY = FIRST + len(LETTERS)


@dataclass(frozen=True, eq=False)
class WordPictures:
    """One split: grey pictures, all stretched to one size, what is written on them, and how wide they were."""

    images: Tensor  # uint8 [n 1 48 192]
    texts: tuple[str, ...]  # as written
    aspects: Tensor  # float32 [n]: width by height of the picture before it was stretched
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        count = len(self.texts)
        if tuple(self.images.shape) != (count, 1, *STORED) or tuple(self.aspects.shape) != (count,):
            got = f"{list(self.images.shape)}, {list(self.aspects.shape)} and {count} texts"
            raise DataError(
                "pictures of words do not fit their texts", got=got, expected="[n 1 48 192], [n] and n texts"
            )

    @property
    def size(self) -> int:
        """How many words there are."""
        return len(self.texts)

    def take(self, numbers: Sequence[int] | range) -> "WordPictures":
        """Some of them, in this order."""
        rows = list(numbers)
        names = tuple(self.names[row] for row in rows) if self.names else ()
        return WordPictures(self.images[rows], tuple(self.texts[row] for row in rows), self.aspects[rows], names)

    def to(self, device: str | torch.device) -> "WordPictures":
        """The same on another device."""
        return replace(self, images=self.images.to(device), aspects=self.aspects.to(device))


def normalised(text: str) -> str:
    """A text in lower case, its letters a to z and digits alone."""
    return "".join(letter for letter in text.lower() if letter in LETTERS)


def spell(text: str) -> list[int]:
    """The numbers of the letters of a normalised text, without an end."""
    return [FIRST + LETTERS.index(letter) for letter in text]


def spelled(numbers: Iterable[int]) -> str:
    """The text of numbers, up to the end; what is not a letter is left out."""
    letters = []
    for number in numbers:
        if number == EOS:
            break
        if number >= FIRST:
            letters.append(LETTERS[number - FIRST])
    return "".join(letters)


def encode_words(texts: Sequence[str], longest: int) -> Int[Tensor, "n l"]:
    """Numbers of `LETTERS` of normalised texts, −1 after the end; longer texts are cut."""
    table = torch.full((len(texts), longest), -1, dtype=torch.long)
    for row, text in enumerate(texts):
        kept = text[:longest]
        table[row, : len(kept)] = torch.tensor([LETTERS.index(letter) for letter in kept], dtype=torch.long)
    return table


def stored_picture(image: UInt8[ndarray, "h w 3"]) -> tuple[UInt8[ndarray, "48 192"], float]:
    """A picture in grey and in the size in which words are kept, and its width by its height."""
    pillow = require("PIL.Image", extra="vision")
    grey = pillow.fromarray(image).convert("L").resize(STORED[::-1], pillow.Resampling.BICUBIC)
    return np.array(grey), image.shape[1] / image.shape[0]


def join_pictures(pictures: Sequence[ndarray], texts: Sequence[str], names: Sequence[str] = ()) -> WordPictures:
    """A split of these pictures [h w 3], of any sizes, stretched."""
    stored = [stored_picture(image) for image in pictures]
    images = np.stack([grey for grey, _ in stored]) if stored else np.zeros((0, *STORED), np.uint8)
    aspects = torch.tensor([aspect for _, aspect in stored], dtype=torch.float32)
    return WordPictures(torch.from_numpy(images).unsqueeze(1), tuple(texts), aspects, tuple(names))


def read_pictures(read: Callable[[str], bytes], rows: Sequence[tuple[str, str]]) -> WordPictures:
    """The pictures of a list of names and texts; `read` gives the bytes of a picture by its name."""
    images = [read_image(read(name), name=name) for name, _ in rows]
    return join_pictures(images, [text for _, text in rows], [name for name, _ in rows])


def read_words(folder: str | os.PathLike[str], table: str | os.PathLike[str]) -> WordPictures:
    """One's own words: a folder of pictures, and a file with lines `picture<TAB>text` (or commas, in a .csv file).

    A first line `file,text` or `picture,text` is a heading. Every picture must be there, and every line have a text.
    """
    base, path = Path(folder), Path(table)
    if not base.is_dir():
        cure = "name the folder with the pictures of words"
        raise DataError(f"{base} is not a folder", expected="a folder of pictures, one word each", cure=cure)
    content = "\n".join(read_lines(path))
    delimiter = "," if path.name.lower().removesuffix(".gz").endswith(".csv") else "\t"
    rows: list[tuple[str, str]] = []
    for number, cells in enumerate(csv.reader(io.StringIO(content), delimiter=delimiter), 1):
        if not cells or (
            number == 1 and [cell.strip().lower() for cell in cells[:2]] in (["file", "text"], ["picture", "text"])
        ):
            continue
        if len(cells) < 2 or not cells[0].strip():
            expected = f"picture{'<TAB>' if delimiter == chr(9) else ','}text"
            raise DataError(f"{path}, line {number}: no text", got=repr(delimiter.join(cells)[:60]), expected=expected)
        name = cells[0].strip()
        if not (base / name).is_file():
            cure = f"put it into {base}, or delete the line"
            raise DataError(
                f"{path}, line {number}: a picture is missing", got=name, expected=f"a file in {base}", cure=cure
            )
        if Path(name).suffix.lower() not in SUFFIXES:
            raise DataError(
                f"{path}, line {number}: no picture", got=name, expected=f"one of {', '.join(sorted(SUFFIXES))}"
            )
        rows.append((name, cells[1]))
    if len(rows) < 10:
        raise DataError(f"{path} has too few words", got=len(rows), expected="10 or more: some of them are held out")
    return read_pictures(lambda name: (base / name).read_bytes(), rows)


def read_zipped_words(packed: str | os.PathLike[str], table: str | os.PathLike[str]) -> WordPictures:
    """The words of a zip of pictures, in the order of a .csv file, plain or packed, with columns `file` and `text`."""
    rows = []
    for number, cells in enumerate(csv.reader(read_lines(table)), 1):
        if number == 1:
            if cells[:2] != ["file", "text"]:
                raise DataError(f"{table} has another heading", got=",".join(cells)[:60], expected="file,text,…")
            continue
        if len(cells) < 2:
            raise DataError(f"{table}, line {number}: no text", got=",".join(cells)[:60], expected="file,text,…")
        rows.append((cells[0], cells[1]))
    return read_pictures(Zip(packed), rows)


def read_zipped_splits(path_of: Callable[[str], str | os.PathLike[str]], *, held_out: int) -> dict[str, WordPictures]:
    """Train, valid and test words of a published set; the last of its training words are held out for validation.

    `path_of` gives the paths of its four files: “train.zip” and “train.csv.gz”, “test.zip” and “test.csv.gz”.
    """
    train, test = (
        read_zipped_words(path_of(f"{split}.zip"), path_of(f"{split}.csv.gz")) for split in ("train", "test")
    )
    bound = max(train.size - held_out, 1)
    return {"train": train.take(range(bound)), "valid": train.take(range(bound, train.size)), "test": test}


def split_words(words: WordPictures, *, valid: int, test: int) -> dict[str, WordPictures]:
    """Train, valid and test words, drawn by a fixed seed."""
    if valid + test >= words.size:
        raise ConfigError("too many words are held out", got=valid + test, expected=f"fewer than {words.size}")
    order = np.random.default_rng(0).permutation(words.size).tolist()
    bounds = {"test": (0, test), "valid": (test, test + valid), "train": (test + valid, words.size)}
    return {name: words.take(sorted(order[first:last])) for name, (first, last) in bounds.items()}
