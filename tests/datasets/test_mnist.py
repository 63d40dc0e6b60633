"""MNIST's files, with what may be wrong with them."""

import gzip
import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest

from regard.data.parallel import DataError
from regard.data.sources import Source
from regard.datasets import mnist as module
from regard.datasets.mnist import SOURCES, mnist, read_idx


def idx(array: np.ndarray) -> bytes:
    head = b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(np.uint8).tobytes()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "HELD_OUT", 2)
    return tmp_path


def put(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, raw: bytes) -> None:
    data = gzip.compress(raw, mtime=0)
    (folder / "mnist").mkdir(exist_ok=True)
    (folder / name).write_bytes(data)
    monkeypatch.setitem(SOURCES, name, Source(name, None, hashlib.sha256(data).hexdigest(), len(data), "free"))


def put_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    arrays = {}
    for split, size in (("train", 7), ("test", 3)):
        images, labels = module.FILES[split]
        arrays[images], arrays[labels] = random.integers(0, 256, (size, 4, 5)), random.integers(0, 10, size)
    for name, array in arrays.items():
        put(folder, monkeypatch, name, idx(array))
    return arrays


def test_mnist(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = list(put_all(folder, monkeypatch).values())
    splits = mnist()
    assert {name: split.size for name, split in splits.items()} == {"train": 5, "valid": 2, "test": 3}
    assert np.array_equal(splits["train"].images[:, 0].numpy(), arrays[0][:5])
    assert splits["valid"].labels.tolist() == arrays[1][5:].tolist()
    assert np.array_equal(splits["test"].images[:, 0].numpy(), arrays[2])


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\0\0", "no idx file of bytes: got 00 00"),
        (b"\0\0\x0d\x01\0\0\0\1\0\0\0\0", "no idx file of bytes: got 00 00 0d 01"),
        (b"\0\0\x08\x03\0\0\0\1", "ends inside its head: got 8 bytes; expected at least 16"),
        (idx(np.zeros((2, 3, 3)))[:-1], "wrong length: got 17 bytes; expected 2 × 3 × 3, as its head says"),
    ],
)
def test_broken_idx(tmp_path: Path, raw: bytes, text: str) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(raw))
    with pytest.raises(DataError) as caught:
        read_idx(path)
    assert text in str(caught.value)


def test_no_gzip(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(b"plain")
    with pytest.raises(DataError, match="cannot be unpacked"):
        read_idx(path)
    path.write_bytes(gzip.compress(bytes(1000))[:-9])
    with pytest.raises(DataError, match="cannot be unpacked"):
        read_idx(path)


def test_files_in_the_wrong_place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = put_all(folder, monkeypatch)
    images, labels = module.FILES["train"]
    put(folder, monkeypatch, images, idx(arrays[labels]))
    with pytest.raises(DataError, match="holds no pictures: got 1 axes"):
        mnist()
    put(folder, monkeypatch, images, idx(arrays[images]))
    put(folder, monkeypatch, labels, idx(arrays[labels] + 5))
    with pytest.raises(DataError, match="holds no labels of digits"):
        mnist()


def test_too_few(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_all(folder, monkeypatch)
    monkeypatch.setattr(module, "HELD_OUT", 7)
    with pytest.raises(DataError, match="too small: got 7; expected more than 7"):
        mnist()


def test_the_same_content_may_be_packed_otherwise() -> None:
    source = SOURCES["mnist/train-images-idx3-ubyte.gz"]
    assert source.num_bytes == 9_912_422
    assert source.others == (("0b367032e93c5d0cea0925647cfdb18614af8ee15f83e6f2fc2ad904a6835971", 9_719_438),)
    assert len(source.mirrors) == 1
