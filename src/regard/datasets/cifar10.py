"""CIFAR-10 (Krizhevsky 2009): 60,000 coloured pictures of 32×32 pixels, in ten classes.

The publishers' binary release comes in an archive, or unpacked in `cifar10/cifar-10-batches-bin` below `REGARD_DATA`. A
smaller copy has each 10,000 pictures as one JPEG of 100×100 tiles. What is lost counts: a ResNet-20 that learnt from
published pixels is wrong on 8.8 % of the test pictures, and on 13.1 % of their copies.
"""

import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.data.download import find
from regard.data.images import MAX_PIXELS, read_image
from regard.data.parallel import DataError
from regard.data.pictures import Pictures
from regard.data.sources import listed_sources
from regard.datasets.dataset import Dataset

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SPLITS = {"train": tuple(f"data_batch_{number}" for number in range(1, 6)), "test": ("test_batch",)}
ARCHIVE, UNPACKED = "cifar10/cifar-10-binary.tar.gz", "cifar-10-batches-bin"
SIDE = 32  # pixels
TILES = 100  # in a row of a sheet, and rows of it
LICENCE = "none stated; the publishers ask that Krizhevsky (2009) be cited"
PUBLISHED = listed_sources(
    """
c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd 170052171 cifar10/cifar-10-binary.tar.gz
""",
    licence=LICENCE,
    addresses=("https://www.cs.toronto.edu/~kriz/",),
)
COPY = listed_sources(  # sheets, which nobody publishes
    """
ae46f31fba02155b0196db0079b7cb598d8a095ee07ca46e55f9e40f37666947  4677639 cifar10/data_batch_1.jpg
881437d240d0d18546f7d5c9fec2d03f96e4d07d96a7ca0c90c34be7279869fa  4689036 cifar10/data_batch_2.jpg
fb66756a6b21772fa974ad9a72b5725c0706a40d9bd1860bbb2b6a1005653233  4687920 cifar10/data_batch_3.jpg
9dda3a437d365696c71904aca7e5271e43032878dbdd285fd165c23baac55f8e  4677268 cifar10/data_batch_4.jpg
a75d2212cedb4498ed56f38bf0d462b939d3b27c07acf1cf8ce88945394fce0f  4671376 cifar10/data_batch_5.jpg
993056c478ce109f9c43dc43bd6098afc3eb91a3c22b7f8157bcc6ae86ad76cb  4682596 cifar10/test_batch.jpg
100457827cb30b2869dbdce3761c5279714820de9a8c6fa4d0dcc7cbc3037527    30265 cifar10/labels.npz
""",
    licence=LICENCE,
)
SOURCES = PUBLISHED | COPY

Reader = Callable[[str], tuple[Tensor, Tensor]]  # the name of a file → images [n 3 h w] and labels [n]


def cifar10() -> dict[str, Pictures]:
    """45,000 train, 5,000 valid (the last ones of the 50,000 that were published for training) and 10,000 test.

    Below `REGARD_DATA` the binary release is looked for first, unpacked or not, then the sheets. Where neither is, the
    archive is fetched (170 MB). Nothing is unpickled.
    """
    chosen = os.environ.get("REGARD_DATA")
    folder = Path(chosen).expanduser() / "cifar10" if chosen else None
    if folder is not None and (folder / UNPACKED).is_dir():
        return _splits(lambda name: _from_binary(*_content(folder / UNPACKED / f"{name}.bin")))
    if folder is not None and (folder / "labels.npz").exists() and not (folder.parent / ARCHIVE).exists():
        labels = _read_labels(find(SOURCES["cifar10/labels.npz"]))
        return _splits(lambda name: (_from_sheet(find(SOURCES[f"cifar10/{name}.jpg"])), labels[name]))
    members = dict(_unpack(find(SOURCES[ARCHIVE])))
    return _splits(lambda name: _from_binary(members.get(f"{name}.bin", b""), f"{name}.bin in {ARCHIVE}"))


def _splits(read: Reader) -> dict[str, Pictures]:
    pictures = {}
    for split, names in SPLITS.items():
        images, labels = zip(*map(read, names), strict=True)
        pictures[split] = Pictures(torch.cat(images), torch.cat(labels), CLASSES)
    rest = TILES * TILES // 2
    train, valid = pictures["train"].take(slice(None, -rest)), pictures["train"].take(slice(-rest, None))
    return {"train": train, "valid": valid, "test": pictures["test"]}


def _from_binary(content: bytes, name: str) -> tuple[Tensor, Tensor]:
    """Records of one byte for the class and three planes of pixels."""
    record = 1 + 3 * SIDE * SIDE
    if len(content) != TILES * TILES * record:
        raise _broken(name, f"{len(content):,} bytes", f"{TILES * TILES * record:,}")
    rows = torch.frombuffer(bytearray(content), dtype=torch.uint8).view(-1, record)
    return rows[:, 1:].reshape(-1, 3, SIDE, SIDE), _checked(rows[:, 0].long(), name)


def _from_sheet(path: Path) -> Tensor:
    """Tiles, row by row."""
    sheet = read_image(path, enough_pixels=MAX_PIXELS)
    side = TILES * SIDE
    if sheet.shape[:2] != (side, side):
        raise _broken(str(path), f"{sheet.shape[1]} × {sheet.shape[0]} pixels", f"{side} × {side}")
    tiles = sheet.reshape(TILES, SIDE, TILES, SIDE, 3).transpose(0, 2, 4, 1, 3)
    return torch.from_numpy(np.ascontiguousarray(tiles).reshape(-1, 3, SIDE, SIDE))


def _read_labels(path: Path) -> dict[str, Tensor]:
    """The labels of each sheet."""
    try:
        with np.load(path, allow_pickle=False) as content:
            arrays = {split: content[split].astype(np.int64) for split in SPLITS}
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise _broken(str(path), str(error) or type(error).__name__, "arrays of labels: train, test") from error
    labels_by_file: dict[str, Tensor] = {}
    for split, names in SPLITS.items():
        if arrays[split].shape != (len(names) * TILES * TILES,):
            got, wanted = list(arrays[split].shape), [len(names) * TILES * TILES]
            raise _broken(f"{path}, {split}", f"labels of shape {got}", str(wanted))
        labels = _checked(torch.from_numpy(arrays[split]), f"{path}, {split}")
        labels_by_file.update(zip(names, labels.chunk(len(names)), strict=True))
    return labels_by_file


def _unpack(path: Path) -> Iterator[tuple[str, bytes]]:
    """The batches in the archive, by the names of their files alone."""
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                file = archive.extractfile(member) if member.name.endswith(".bin") else None
                if file is not None:
                    yield Path(member.name).name, file.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise _broken(str(path), str(error), "a whole archive") from error


def _content(path: Path) -> tuple[bytes, str]:
    try:
        return path.read_bytes(), str(path)
    except OSError as error:
        raise _broken(str(path), (error.strerror or str(error)).lower(), "a file of the binary release") from error


def _checked(labels: Tensor, name: str) -> Tensor:
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < len(CLASSES):
        got = f"labels from {int(labels.min())} to {int(labels.max())}"
        raise _broken(name, got, f"0 to {len(CLASSES) - 1}")
    return labels


def _broken(name: str, got: str, expected: str) -> DataError:
    cure = "get the binary release from www.cs.toronto.edu/~kriz/cifar.html"
    return DataError(f"{name} is not of CIFAR-10", got=got, expected=expected, cure=cure)


DATASET = Dataset(
    "cifar10",
    kind="pictures",
    read=cifar10,
    splits=("train", "valid", "test"),
    licence=LICENCE,
    sources=SOURCES,
    exact=False,
    note="60,000 coloured pictures in ten classes",
)
