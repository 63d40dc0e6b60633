"""Handwritten digits, white on black, 28×28: a small sample inside the package, and MNIST by `find`.

The sample is the test set of "Optical Recognition of Handwritten Digits" by E. Alpaydin and C. Kaynak (UCI Machine
Learning Repository, 1998, CC BY 4.0): 1,797 digits of 8×8 pixels by 13 writers.
"""

import gzip
import zlib
from importlib.resources import as_file, files

import numpy as np
import torch
from jaxtyping import UInt8
from numpy.typing import NDArray
from torch import Tensor

from regard.data.download import find
from regard.data.parallel import DataError
from regard.data.pictures import Pictures

CLASSES = tuple("0123456789")
SAMPLE = "uci_digits.npz"
HELD_OUT = 5000  # the last pictures of MNIST's training set are its validation set
FILES = {
    "train": ("mnist/train-images-idx3-ubyte.gz", "mnist/train-labels-idx1-ubyte.gz"),
    "test": ("mnist/t10k-images-idx3-ubyte.gz", "mnist/t10k-labels-idx1-ubyte.gz"),
}


def digits() -> dict[str, Pictures]:
    """1,297 digits to train on, 200 and 300 to judge by, in the order of the file; no download.

    The file goes from writer to writer, so most of those who are judged by have not been trained on.

    >>> {name: split.size for name, split in digits().items()}
    {'train': 1297, 'valid': 200, 'test': 300}
    """
    with as_file(files("regard") / "data" / "corpora" / SAMPLE) as path, np.load(path, allow_pickle=False) as packed:
        small, labels = packed["images"], packed["labels"].astype(np.int64)
    whole = Pictures(_enlarged(torch.from_numpy(small).view(-1, 8, 8)), torch.from_numpy(labels), CLASSES)
    bounds = {"train": slice(0, 1297), "valid": slice(1297, 1497), "test": slice(1497, None)}
    return {name: whole.take(rows) for name, rows in bounds.items()}


def mnist() -> dict[str, Pictures]:
    """55,000 to train on, 5,000 (the last ones of the training set) and 10,000 to judge by (LeCun et al. 1998)."""
    both = {name: Pictures(_images(find(a)), _labels(find(b)), CLASSES) for name, (a, b) in FILES.items()}
    train = both["train"]
    if train.size <= HELD_OUT:
        raise DataError("MNIST's training set is too small", got=train.size, expected=f"more than {HELD_OUT:,}")
    bound = train.size - HELD_OUT
    return {"train": train.take(slice(0, bound)), "valid": train.take(slice(bound, None)), "test": both["test"]}


def read_idx(path: object) -> NDArray[np.uint8]:
    """An idx file of bytes, gzipped: two zeros, the type 8, the number of axes, the axes (big-endian), the bytes."""
    try:
        with gzip.open(str(path)) as file:
            raw = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be unpacked ({error})", cure="replace the file") from error
    if len(raw) < 4 or raw[:3] != b"\0\0\x08" or not 1 <= raw[3] <= 4:
        what = f"{path} is no idx file of bytes"
        raise DataError(what, got=raw[:4].hex(" "), expected="00 00 08 and the number of axes", cure="replace the file")
    start = 4 + 4 * raw[3]
    if len(raw) < start:
        raise DataError(f"{path} ends inside its head", got=f"{len(raw)} bytes", expected=f"at least {start}")
    shape = tuple(int(side) for side in np.frombuffer(raw[4:start], dtype=">u4"))
    if len(raw) - start != np.prod(shape, dtype=np.int64):
        got, expected = f"{len(raw) - start:,} bytes", f"{' × '.join(map(str, shape))}, as its head says"
        raise DataError(f"{path} has the wrong length", got=got, expected=expected, cure="replace the file")
    return np.frombuffer(raw, dtype=np.uint8, offset=start).reshape(shape)


def _images(path: object) -> UInt8[Tensor, "n 1 h w"]:
    found = read_idx(path)
    if found.ndim != 3:
        raise DataError(f"{path} holds no pictures", got=f"{found.ndim} axes", expected="3: pictures, rows, columns")
    return torch.from_numpy(found.copy()).unsqueeze(1)


def _labels(path: object) -> Tensor:
    found = read_idx(path)
    if found.ndim != 1 or found.max(initial=0) > 9:
        got = f"{found.ndim} axes, labels up to {found.max(initial=0)}"
        raise DataError(f"{path} holds no labels of digits", got=got, expected="1 axis, 0 to 9")
    return torch.from_numpy(found.astype(np.int64))


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
