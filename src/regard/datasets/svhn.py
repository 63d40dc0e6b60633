"""Street View House Numbers, whole numbers: Netzer et al. 2011. For non-commercial use only.

Crops around the number as in Goodfellow et al. 2013 (the boxes of all digits together, grown by 30 %), 64×64, packed
into sheets of 64×64 tiles. The labels are the digits from left to right and `END`, padded by `IGNORE`.
"""

import csv
import gzip
import io
import zlib
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from regard.base import require
from regard.data.download import find
from regard.data.parallel import DataError
from regard.data.pictures import END, IGNORE, Pictures
from regard.data.sources import listed_sources
from regard.datasets.dataset import Dataset

CLASSES = (*"0123456789", END)
TILE, TILES = 64, 64  # pixels of a side of a tile, tiles of a side of a sheet
DIGITS = 5  # at most; the one longer number of the training set is left out
HELD_OUT = 3000  # the last pictures of the training set are the validation set
SHEETS = {"train": 9, "test": 4}
LICENCE = "for non-commercial use only"
SOURCES = listed_sources(
    """
68cbdcff7971e0d06a79033d5599b162cc4b70a8adda786ddbb4b58812481ed0   349426 svhn/test.csv.gz
9d30a877a637364d8481a5f589d9351c58ef18555ba38257d8e2a72319d2e807  1819725 svhn/test_00.jpg
82c32dfabeda273a6aa0580a93ad2a6aff0a9e43f057dc0b8a6112ba383fa40f  1807856 svhn/test_01.jpg
3c0d9c95e59c36348b9508db267dfe148419faec1453b684084ee58aaf0c4442  1809183 svhn/test_02.jpg
11fa65934ae45126d085e817210440cd01c6a5f6695179dbb0fa21270f2cfa28   350614 svhn/test_03.jpg
91eebf6878079b2d78faa77d4aef25890c60aee2c256651911d651444323dcf4   871030 svhn/train.csv.gz
18a26d5139f5669b85bb3f8e43f70b1b74f11e941afcb6dbc800ada5a78e6ed1  1977821 svhn/train_00.jpg
09e0cb0e0d54ec9ad18a4405c873fee339c26495cbc801f68f8dc37b3650c7b5  1987051 svhn/train_01.jpg
3e9c2906c24aa13ee1e81002f6da64a76df4b71482078b61a03e08462b7ff9c2  1960507 svhn/train_02.jpg
1869e4365b776cdd6e30d5ba9490121c8134e97bf90ca3e4f8b4194288f0d7e4  1972632 svhn/train_03.jpg
6ef9bbd90b73d873c7444f1e8a46ab58074dee9676388bb1d4ae1bac0bcb9fce  1968055 svhn/train_04.jpg
e388f41d2b72dc452352ffdd9c2c4da5f0d3677430c6d0f532a6e9e4cbead407  1975432 svhn/train_05.jpg
1859309fd989d524ac8fc27c8c7c6f69b843f28682d5e0e405b6c7a4ff60b68a  1967839 svhn/train_06.jpg
d0d4bb3b7f2e8620f5701117abbb94dcb69703c040b9de3b9850e640c5c40316  1972237 svhn/train_07.jpg
80d871897df971051441068a0dd3a7438ce5f756efc02a766a51d7c330908848   310773 svhn/train_08.jpg
""",
    licence=LICENCE,
)


def svhn() -> dict[str, Pictures]:
    """30,401 numbers to train on, 3,000 (the last ones of the training set) and 13,068 to judge by; labels [n 6]."""
    both = {name: _split(name, sheets) for name, sheets in SHEETS.items()}
    train = both["train"]
    if train.size <= HELD_OUT:
        raise DataError("SVHN's training set is too small", got=train.size, expected=f"more than {HELD_OUT:,}")
    bound = train.size - HELD_OUT
    return {"train": train.take(slice(0, bound)), "valid": train.take(slice(bound, None)), "test": both["test"]}


def _split(name: str, sheets: int) -> Pictures:
    numbers = _numbers(find(SOURCES[f"svhn/{name}.csv.gz"]))
    paths = [find(SOURCES[f"svhn/{name}_{sheet:02d}.jpg"]) for sheet in range(sheets)]
    tiles = torch.cat([_tiles(path) for path in paths])
    if not (sheets - 1) * TILES**2 < len(numbers) <= len(tiles):
        got, expected = f"{len(numbers):,} numbers", f"up to {len(tiles):,} pictures"
        raise DataError(f"svhn/{name}: numbers and sheets do not fit", got=got, expected=expected)
    short = torch.tensor([len(number) <= DIGITS for number in numbers])
    labels = [_label(number) for number in numbers if len(number) <= DIGITS]
    return Pictures(tiles[: len(numbers)][short], torch.tensor(labels), CLASSES)


def _label(number: str) -> list[int]:
    known = [int(digit) for digit in number] + [len(CLASSES) - 1]
    return known + [IGNORE] * (DIGITS + 1 - len(known))


def _numbers(path: Path) -> list[str]:
    """The column `number` of a table, in its order."""
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(io.StringIO(file.read())))
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read ({error})", cure="replace the file") from error
    numbers = []
    for line, row in enumerate(rows, start=2):
        number = row.get("number") or ""
        if not (number.isascii() and number.isdigit()):
            raise DataError(f"{path}, line {line}", got=repr(number), expected="digits in the column 'number'")
        numbers.append(number)
    return numbers


def _tiles(path: Path) -> UInt8[Tensor, "n 3 64 64"]:
    """The tiles of a sheet, row by row."""
    image = require("PIL.Image", extra="vision")
    try:
        with image.open(path) as sheet:
            pixels = np.asarray(sheet.convert("RGB"))
    except OSError as error:
        raise DataError(f"{path} is no picture ({error})", cure="replace the file") from error
    height, width = pixels.shape[:2]
    if width != TILES * TILE or height % TILE:
        expected = f"{TILES * TILE} wide, a multiple of {TILE} high"
        raise DataError(f"{path} has the wrong size", got=f"{width}×{height}", expected=expected)
    grid = torch.from_numpy(pixels.copy()).view(height // TILE, TILE, TILES, TILE, 3)
    return grid.permute(0, 2, 4, 1, 3).reshape(-1, 3, TILE, TILE).contiguous()


DATASET = Dataset(
    "svhn",
    kind="pictures",
    read=svhn,
    splits=("train", "valid", "test"),
    licence=LICENCE,
    sources=SOURCES,
    exact=False,
    note="46,469 house numbers of up to five digits",
)
