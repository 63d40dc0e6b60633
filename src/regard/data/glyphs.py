"""Glyphs: the characters of some typefaces as small grey pictures, from which words are set on any device.

An atlas is drawn once, from font files, and then needs neither fonts nor a library that reads them. Kerning is left
out: a character moves the pen by its own width and nothing else.
"""

import json
import lzma
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from regard.base import ConfigError, first_line, require
from regard.base.files import parse_json
from regard.data.parallel import DataError

LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"  # what a label may have
MARKS = "&-.,!'$%/:?#"  # what a picture may have beside them, and no label has
CHARACTERS = LETTERS + LETTERS[10:].upper() + MARKS
HIGH, WIDE = 40, 56  # pixels of a cell
PEN = 8  # the column of a cell at which the pen stands: slanted characters begin left of it
LEVELS = 16  # of grey in a file


@dataclass(frozen=True, eq=False)
class Glyphs:
    """An atlas of f faces: a cell for each of `CHARACTERS`, and by how many pixels each moves the pen."""

    masks: Tensor  # uint8 [f c HIGH WIDE], 255 is ink
    advances: Tensor  # int64 [f c]
    faces: tuple[str, ...]

    def __post_init__(self) -> None:
        count = len(self.faces)
        shapes = [tuple(self.masks.shape), tuple(self.advances.shape)]
        if shapes != [(count, len(CHARACTERS), HIGH, WIDE), (count, len(CHARACTERS))] or not count:
            expected = f"[f {len(CHARACTERS)} {HIGH} {WIDE}] and [f {len(CHARACTERS)}], f ≥ 1 faces with their names"
            raise DataError("an atlas of glyphs does not fit", got=f"{shapes} and {count} names", expected=expected)

    def to(self, device: str | torch.device) -> "Glyphs":
        """The same atlas on another device."""
        return replace(self, masks=self.masks.to(device), advances=self.advances.to(device))

    def take(self, faces: Sequence[str]) -> "Glyphs":
        """The faces of these names; a name that is not there is an error."""
        numbers = []
        for name in faces:
            if name not in self.faces:
                raise ConfigError("no such typeface", got=repr(name), expected=f"one of {', '.join(self.faces)}")
            numbers.append(self.faces.index(name))
        return Glyphs(self.masks[numbers], self.advances[numbers], tuple(faces))

    @cached_property
    def ink(self) -> Int[Tensor, "f c 4"]:
        """First and last column and row of the ink of each cell, the last ones excluded: left, right, top, bottom."""
        dark = self.masks > 64
        sides = []
        for along in (2, 3):  # rows are gone: columns are left, and the other way round
            hit = dark.any(along)
            length = hit.shape[-1]
            place = torch.arange(length, device=hit.device)
            sides.append(torch.where(hit, place, length).amin(-1))
            sides.append(torch.where(hit, place + 1, 0).amax(-1))
        return torch.stack(sides, -1)


def draw_glyphs(files: Mapping[str, str | Path]) -> Glyphs:
    """The atlas of some font files by the names of their faces (TrueType, OpenType or WOFF; drawn by Pillow)."""
    masks, advances = [], []
    for name, file in files.items():
        cells, moves = _face(name, Path(file))
        masks.append(cells)
        advances.append(moves)
    if not masks:
        raise DataError("no font file is given", expected="one or more", cure="install a font, or matplotlib")
    return Glyphs(torch.from_numpy(np.stack(masks)), torch.from_numpy(np.stack(advances)), tuple(files))


def has_glyphs(file: str | Path) -> bool:
    """Whether a font has a character of its own for each of `CHARACTERS`."""
    fonts = require("PIL.ImageFont", extra="vision")
    try:
        font = fonts.truetype(str(file), 24)
        missing = bytes(font.getmask("\uffff"))
        return all(
            font.getbbox(character)[2] > 0 and bytes(font.getmask(character)) != missing for character in CHARACTERS
        )
    except (OSError, ValueError):
        return False


def _face(name: str, file: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Cells and advances of one font, in the largest size at which every character fits into its cell."""
    fonts, pictures, drawing = (require(f"PIL.{part}", extra="vision") for part in ("ImageFont", "Image", "ImageDraw"))
    try:
        for size in range(56, 7, -1):
            font = fonts.truetype(str(file), size)
            boxes = np.array([font.getbbox(character, anchor="ls") for character in CHARACTERS])
            high = boxes[:, 3].max() - boxes[:, 1].min()
            if high <= HIGH - 2 and boxes[:, 2].max() <= WIDE - PEN - 1 and boxes[:, 0].min() >= -PEN:
                break
        else:
            raise DataError(f"{file}: no size of this font fits", cure="leave it out")
        base = 1 - int(boxes[:, 1].min()) + (HIGH - 2 - int(high)) // 2
        cells = np.zeros((len(CHARACTERS), HIGH, WIDE), np.uint8)
        for number, character in enumerate(CHARACTERS):
            cell = pictures.new("L", (WIDE, HIGH))
            drawing.Draw(cell).text((PEN, base), character, fill=255, font=font, anchor="ls")
            cells[number] = np.asarray(cell)
        moves = np.array([round(font.getlength(character)) for character in CHARACTERS], np.int64)
    except OSError as error:
        raise DataError(
            f"{file}: the font {name} cannot be read", got=first_line(error), cure="leave it out"
        ) from error
    return cells, moves


def pack_glyphs(glyphs: Glyphs) -> bytes:
    """An atlas as the bytes of a file: a line of JSON, then advances and grey levels of four bits, compressed."""
    head = json.dumps({"faces": glyphs.faces, "characters": CHARACTERS, "cell": [HIGH, WIDE]})
    levels = np.rint(glyphs.masks.numpy() / 255 * (LEVELS - 1)).astype(np.uint8).reshape(-1, 2)
    packed = (levels[:, 0] << 4 | levels[:, 1]).tobytes()
    content = head.encode() + b"\n" + glyphs.advances.numpy().astype(np.uint8).tobytes() + packed
    return lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)


def unpack_glyphs(content: bytes, *, name: str = "an atlas of glyphs") -> Glyphs:
    """The atlas of what `pack_glyphs` wrote."""
    try:
        head, _, body = lzma.decompress(content).partition(b"\n")
        told: dict[str, Any] = parse_json(head)
        faces = tuple(map(str, told["faces"]))
        if told["characters"] != CHARACTERS or told["cell"] != [HIGH, WIDE]:
            raise ValueError("it was made for other characters or cells")
        cells = len(faces) * len(CHARACTERS)
        numbers = np.frombuffer(body, np.uint8)
        packed = numbers[cells:]
        levels = np.stack([packed >> 4, packed & 15], -1).reshape(len(faces), len(CHARACTERS), HIGH, WIDE)
        masks = levels * np.uint8(255 // (LEVELS - 1))
        moves = numbers[:cells].astype(np.int64).reshape(len(faces), len(CHARACTERS))
    except (lzma.LZMAError, EOFError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{name} cannot be read", got=first_line(error), cure="make it anew") from error
    return Glyphs(torch.from_numpy(masks), torch.from_numpy(moves), faces)
