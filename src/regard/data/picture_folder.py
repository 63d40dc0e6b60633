"""A folder of pictures: files of any kind, cut to squares and made of one size; sub-folders are classes."""

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import UInt8
from numpy import ndarray
from torch import Tensor

from regard.data.images import read_image
from regard.data.parallel import DataError
from regard.data.pictures import Pictures

ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm")
FEWEST = 10  # pictures: of ten, one is for validation and one for the test


def read_picture_folder(folder: str | Path, size: int) -> dict[str, Pictures]:
    """Train, valid and test pictures of size × size: of each ten, by their names, the last two are held out.

    Where there are sub-folders, their names are the classes; pictures beside them are of the class "". A picture that
    has the size already is taken as it is, pixel by pixel.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}", cure="name a folder that has pictures")
    files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in ENDINGS and file.is_file())
    if len(files) < FEWEST:
        expected = f"{FEWEST} or more, with names that end with {', '.join(ENDINGS)}"
        raise DataError(f"{folder} has too few pictures", got=len(files), expected=expected)
    names = [file.relative_to(folder).parts[0] if file.parent != folder else "" for file in files]
    classes = tuple(sorted(set(names)))
    images = torch.stack([squared(read_image(file), size) for file in files])
    pictures = Pictures(images, torch.tensor([classes.index(name) for name in names]), classes)
    place = torch.arange(len(files)) % FEWEST
    chosen = {"train": place < FEWEST - 2, "valid": place == FEWEST - 2, "test": place == FEWEST - 1}
    return {split: pictures.take(rows) for split, rows in chosen.items()}


def squared(pixels: UInt8[ndarray, "h w 3"], size: int) -> UInt8[Tensor, "3 s s"]:
    """The largest square in the middle of a picture, as size × size pixels."""
    height, width = pixels.shape[:2]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    square = torch.from_numpy(np.ascontiguousarray(pixels[top : top + side, left : left + side])).permute(2, 0, 1)
    if side == size:
        return square.contiguous()
    resized = F.interpolate(square.unsqueeze(0).float(), size=(size, size), mode="bilinear", antialias=True)[0]
    return resized.round().clamp(0, 255).to(torch.uint8)
