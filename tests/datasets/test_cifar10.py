"""Pictures in ten classes: the same ones from the binary release, packed or not, and from sheets."""

import hashlib
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from regard.data.download import DownloadError
from regard.data.parallel import DataError
from regard.data.sources import Source
from regard.datasets import cifar10 as module
from regard.datasets.cifar10 import CLASSES, SOURCES, SPLITS, cifar10

NAMES = [name for names in SPLITS.values() for name in names]


def pictures(name: str) -> tuple[np.ndarray, np.ndarray]:
    """16 pictures of one colour each, which JPEG keeps nearly, and their labels."""
    chance = np.random.default_rng(NAMES.index(name))
    colours = chance.integers(0, 256, (16, 3, 1, 1), dtype=np.uint8)
    return np.broadcast_to(colours, (16, 3, 32, 32)), chance.integers(0, 10, 16)


def binary(name: str) -> bytes:
    images, labels = pictures(name)
    return np.concatenate([labels.astype(np.uint8)[:, None], images.reshape(16, -1)], 1).tobytes()


def put(folder: Path, name: str, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / name).write_bytes(content)
    facts = Source(name, None, hashlib.sha256(content).hexdigest(), len(content), "none")
    monkeypatch.setitem(SOURCES, name, facts)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "TILES", 4)
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cifar10").mkdir()
    return tmp_path


def unpacked(folder: Path) -> Path:
    place = folder / "cifar10" / "cifar-10-batches-bin"
    place.mkdir()
    for name in NAMES:
        (place / f"{name}.bin").write_bytes(binary(name))
    return place


def archive(folder: Path, monkeypatch: pytest.MonkeyPatch, names: list[str] = NAMES) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as file:
        for name in [*names, "batches.meta.txt"]:
            content = binary(name) if name in NAMES else b"airplane\n"
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}" + (".bin" if name in NAMES else ""))
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
    put(folder, "cifar10/cifar-10-binary.tar.gz", packed.getvalue(), monkeypatch)


def sheets(folder: Path, monkeypatch: pytest.MonkeyPatch, *, side: int = 128, labels: object = None) -> None:
    for name in NAMES:
        tiles = pictures(name)[0].reshape(4, 4, 3, 32, 32).transpose(0, 3, 1, 4, 2).reshape(128, 128, 3)
        file = io.BytesIO()
        Image.fromarray(tiles[:side, :side]).save(file, "JPEG", quality=95, subsampling=0)
        put(folder, f"cifar10/{name}.jpg", file.getvalue(), monkeypatch)
    file = io.BytesIO()
    whole = {split: np.concatenate([pictures(name)[1] for name in names]) for split, names in SPLITS.items()}
    np.savez(file, **(whole if labels is None else labels))
    put(folder, "cifar10/labels.npz", file.getvalue(), monkeypatch)


def check(splits: dict[str, module.Pictures], tolerance: int) -> None:
    assert {name: split.size for name, split in splits.items()} == {"train": 72, "valid": 8, "test": 16}
    images = torch.cat([splits["train"].images, splits["valid"].images, splits["test"].images])
    labels = torch.cat([splits["train"].labels, splits["valid"].labels, splits["test"].labels])
    assert labels.tolist() == [label for name in NAMES for label in pictures(name)[1]]
    expected = torch.from_numpy(np.concatenate([pictures(name)[0] for name in NAMES]))
    assert (images.int() - expected.int()).abs().max() <= tolerance
    assert splits["test"].classes == CLASSES


def test_unpacked(folder: Path) -> None:
    unpacked(folder)
    check(cifar10(), 0)


def test_packed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive(folder, monkeypatch)
    check(cifar10(), 0)


def test_sheets(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sheets(folder, monkeypatch)
    check(cifar10(), 4)


def test_planes_and_rows_are_not_mixed_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A red picture whose right half is bright, below a dark row: as the publishers lay it out."""
    picture = np.zeros((3, 32, 32), dtype=np.uint8)
    picture[0, 1:, 16:] = 200
    place = unpacked(folder)
    first = place / "test_batch.bin"
    first.write_bytes(bytes([3]) + picture.tobytes() + first.read_bytes()[3073:])
    test = cifar10()["test"]
    assert torch.equal(test.images[0], torch.from_numpy(picture))
    assert test.name(test.labels[0]) == "cat"


def test_what_was_published_comes_before_the_copy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sheets(folder, monkeypatch)
    archive(folder, monkeypatch)
    check(cifar10(), 0)
    (folder / "cifar10/cifar-10-binary.tar.gz").unlink()
    unpacked(folder)
    check(cifar10(), 0)


def test_nothing_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "cifar10/cifar-10-binary.tar.gz"
    monkeypatch.setitem(SOURCES, name, Source(name, "https://example.org/x", "0" * 64, 1, "none"))
    monkeypatch.setenv("REGARD_OFFLINE", "1")
    with pytest.raises(DownloadError, match=r"cifar-10-binary\.tar\.gz is not here, and REGARD_OFFLINE forbids"):
        cifar10()


def test_wrong_sizes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = unpacked(folder)
    (place / "data_batch_3.bin").write_bytes(b"spoilt")
    with pytest.raises(DataError, match=r"data_batch_3.bin is not of CIFAR-10: got 6 bytes; expected 49,168"):
        cifar10()
    (place / "data_batch_3.bin").unlink()
    with pytest.raises(DataError, match=r"data_batch_3.bin is not of CIFAR-10: got no such file or directory"):
        cifar10()
    content = bytearray(binary("data_batch_3"))
    content[0] = 10
    (place / "data_batch_3.bin").write_bytes(content)
    with pytest.raises(DataError, match=r"data_batch_3.bin is .*got labels from \d to 10; expected 0 to 9"):
        cifar10()


def test_broken_archives(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive(folder, monkeypatch, NAMES[1:])
    with pytest.raises(DataError, match=r"data_batch_1.bin in cifar10/cifar-10-binary.tar.gz is not .*got 0 bytes"):
        cifar10()
    put(folder, "cifar10/cifar-10-binary.tar.gz", b"no archive", monkeypatch)
    with pytest.raises(DataError, match=r"tar.gz is not of CIFAR-10: got .*expected a whole archive"):
        cifar10()


def test_broken_sheets(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sheets(folder, monkeypatch, side=96)
    with pytest.raises(DataError, match=r"data_batch_1.jpg is not of CIFAR-10: got 96 × 96 pixels; expected 128 × 128"):
        cifar10()
    sheets(folder, monkeypatch, labels={"train": np.zeros(80, int), "test": np.zeros(15, int)})
    with pytest.raises(DataError, match=r"labels.npz, test is .*got labels of shape \[15\]; expected \[16\]"):
        cifar10()
    sheets(folder, monkeypatch, labels={"train": np.zeros(80, int)})
    with pytest.raises(DataError, match=r"labels.npz is not of CIFAR-10: .*expected arrays of labels"):
        cifar10()
    sheets(folder, monkeypatch, labels={"train": np.array([object()] * 80), "test": np.zeros(16, int)})
    with pytest.raises(DataError, match=r"labels.npz is not of CIFAR-10"):  # pickles are not read
        cifar10()
