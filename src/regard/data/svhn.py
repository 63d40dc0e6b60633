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

CLASSES = (*"0123456789", END)
TILE, TILES = 64, 64  # pixels of a side of a tile, tiles of a side of a sheet
DIGITS = 5  # at most; the one longer number of the training set is left out
HELD_OUT = 3000  # the last pictures of the training set are the validation set
SHEETS = {"train": 9, "test": 4}


def svhn() -> dict[str, Pictures]:
    """30,401 numbers to train on, 3,000 (the last ones of the training set) and 13,068 to judge by; labels [n 6]."""
    both = {name: _split(name, sheets) for name, sheets in SHEETS.items()}
    train = both["train"]
    if train.size <= HELD_OUT:
        raise DataError("SVHN's training set is too small", got=train.size, expected=f"more than {HELD_OUT:,}")
    bound = train.size - HELD_OUT
    return {"train": train.take(slice(0, bound)), "valid": train.take(slice(bound, None)), "test": both["test"]}


def _split(name: str, sheets: int) -> Pictures:
    numbers = _numbers(find(f"svhn/{name}.csv.gz"))
    paths = [find(f"svhn/{name}_{sheet:02d}.jpg") for sheet in range(sheets)]
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
    found = []
    for line, row in enumerate(rows, start=2):
        number = row.get("number") or ""
        if not (number.isascii() and number.isdigit()):
            raise DataError(f"{path}, line {line}", got=repr(number), expected="digits in the column 'number'")
        found.append(number)
    return found


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
