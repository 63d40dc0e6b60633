"""MNIST (LeCun et al. 1998): 70,000 handwritten digits, white on black, 28×28."""

import gzip
import zlib

import numpy as np
import torch
from jaxtyping import UInt8
from numpy.typing import NDArray
from torch import Tensor

from regard.data.download import find
from regard.data.parallel import DataError
from regard.data.pictures import Pictures
from regard.data.sources import listed_sources
from regard.datasets.dataset import Dataset

CLASSES = tuple("0123456789")
HELD_OUT = 5000  # the last pictures of the training set are the validation set
FILES = {
    "train": ("mnist/train-images-idx3-ubyte.gz", "mnist/train-labels-idx1-ubyte.gz"),
    "test": ("mnist/t10k-images-idx3-ubyte.gz", "mnist/t10k-labels-idx1-ubyte.gz"),
}
LICENCE = "CC BY-SA 3.0, as Keras documents it; © Yann LeCun and Corinna Cortes"
# as published; below, the same content packed anew
SOURCES = listed_sources(
    """
440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609  9912422 mnist/train-images-idx3-ubyte.gz
3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c    28881 mnist/train-labels-idx1-ubyte.gz
8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6  1648877 mnist/t10k-images-idx3-ubyte.gz
f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6     4542 mnist/t10k-labels-idx1-ubyte.gz
1a1a05eab793c14bb050b398624a11b0ffd1a2953baed553b1b9bd079e2a20be  1616508 mnist/t10k-images-idx3-ubyte.gz
b91679a0acfe4ba0e50a2437a903084cba1f5f92592b016a25a7dfd00455798b     4517 mnist/t10k-labels-idx1-ubyte.gz
0b367032e93c5d0cea0925647cfdb18614af8ee15f83e6f2fc2ad904a6835971  9719438 mnist/train-images-idx3-ubyte.gz
1787548bbe0bff1ec2ecdc0ef292b02df999e2d1a6002d27500982c652b17203    28857 mnist/train-labels-idx1-ubyte.gz
""",
    licence=LICENCE,
    addresses=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
)


def mnist() -> dict[str, Pictures]:
    """55,000 to train on, 5,000 (the last ones of the training set) and 10,000 to judge by (LeCun et al. 1998)."""
    both = {}
    for name, files in FILES.items():
        images, labels = (find(SOURCES[file]) for file in files)
        both[name] = Pictures(_images(images), _labels(labels), CLASSES)
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
    pixels = read_idx(path)
    if pixels.ndim != 3:
        raise DataError(f"{path} holds no pictures", got=f"{pixels.ndim} axes", expected="3: pictures, rows, columns")
    return torch.from_numpy(pixels.copy()).unsqueeze(1)


def _labels(path: object) -> Tensor:
    labels = read_idx(path)
    if labels.ndim != 1 or labels.max(initial=0) > 9:
        got = f"{labels.ndim} axes, labels up to {labels.max(initial=0)}"
        raise DataError(f"{path} holds no labels of digits", got=got, expected="1 axis, 0 to 9")
    return torch.from_numpy(labels.astype(np.int64))


DATASET = Dataset(
    "mnist",
    kind="pictures",
    read=mnist,
    splits=("train", "valid", "test"),
    licence=LICENCE,
    sources=SOURCES,
    note="70,000 handwritten digits",
)
