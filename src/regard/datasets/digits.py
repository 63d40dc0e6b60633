"""Handwritten digits, white on black, 28×28: a small sample inside the package.

The sample is the test set of "Optical Recognition of Handwritten Digits" by E. Alpaydin and C. Kaynak (UCI Machine
Learning Repository, 1998, CC BY 4.0): 1,797 digits of 8×8 pixels by 13 writers.
"""

from importlib.resources import as_file, files

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from regard.data.pictures import Pictures
from regard.datasets.dataset import Dataset

CLASSES = tuple("0123456789")
FILE = "uci_digits.npz"
LICENCE = "CC BY 4.0; attribution: E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, 1998"


def digits() -> dict[str, Pictures]:
    """1,297 digits to train on, 200 and 300 to judge by, in the order of the file; no download.

    The file goes from writer to writer, so most of those who are judged by have not been trained on.

    >>> {name: split.size for name, split in digits().items()}
    {'train': 1297, 'valid': 200, 'test': 300}
    """
    with as_file(files("regard") / "datasets" / "corpora" / FILE) as path, np.load(path, allow_pickle=False) as packed:
        small, labels = packed["images"], packed["labels"].astype(np.int64)
    pictures = Pictures(_enlarged(torch.from_numpy(small).view(-1, 8, 8)), torch.from_numpy(labels), CLASSES)
    bounds = {"train": slice(0, 1297), "valid": slice(1297, 1497), "test": slice(1497, None)}
    return {name: pictures.take(rows) for name, rows in bounds.items()}


def _enlarged(small: UInt8[Tensor, "n 8 8"]) -> UInt8[Tensor, "n 1 28 28"]:
    """Three times as large by bilinear interpolation, in whole numbers, with a border of 2 black pixels; 16 is 255."""
    x = small.long()
    for axis in (1, 2):
        first, last = x.narrow(axis, 0, 1), x.narrow(axis, 7, 1)
        before = torch.cat([first, x.narrow(axis, 0, 7)], axis)
        after = torch.cat([x.narrow(axis, 1, 7), last], axis)
        x = torch.stack([before + 2 * x, 3 * x, 2 * x + after], axis + 1).flatten(axis, axis + 1)  # thirds
    grey = (x * 255 + 72) // 144
    return torch.nn.functional.pad(grey, (2, 2, 2, 2)).to(torch.uint8).unsqueeze(1)


DATASET = Dataset(
    "digits",
    kind="pictures",
    read=digits,
    splits=("train", "valid", "test"),
    licence=LICENCE,
    embedded=True,
    note="1,797 handwritten digits",
)
