"""House numbers: tiles in their order, digits and an end, and files that do not fit."""

import gzip
import hashlib
import io
from pathlib import Path

import numpy as np
import pytest

from regard.data.parallel import DataError
from regard.data.pictures import END, IGNORE
from regard.data.sources import Source
from regard.datasets import svhn as module
from regard.datasets.svhn import SOURCES, svhn

Image = pytest.importorskip("PIL.Image")
NUMBERS = {"train": ["19", "7", "123456", "20531", "4"], "test": ["88", "3"]}


def sheet(numbers: int, *, width: int = 4096) -> bytes:
    """Tile n has the colour (10 n, 100, 200 − 10 n), and its upper half is darker."""
    pixels = np.zeros((64, width, 3), np.uint8)
    for number in range(numbers):
        colour = np.array([10 * number, 100, 200 - 10 * number])
        pixels[:, 64 * number : 64 * (number + 1)] = colour
        pixels[:32, 64 * number : 64 * (number + 1)] = colour // 2
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=95)
    return file.getvalue()


def table(numbers: list[str]) -> bytes:
    lines = ["file,number,orig_w"] + [f"{row}.png,{number},50" for row, number in enumerate(numbers, 1)]
    return gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0)


def put(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes) -> None:
    (folder / "svhn").mkdir(exist_ok=True)
    (folder / name).write_bytes(data)
    monkeypatch.setitem(SOURCES, name, Source(name, None, hashlib.sha256(data).hexdigest(), len(data), "free"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "SHEETS", {"train": 1, "test": 1})
    monkeypatch.setattr(module, "HELD_OUT", 1)
    for split, numbers in NUMBERS.items():
        put(tmp_path, monkeypatch, f"svhn/{split}.csv.gz", table(numbers))
        put(tmp_path, monkeypatch, f"svhn/{split}_00.jpg", sheet(len(numbers)))
    return tmp_path


def test_pictures_and_labels(folder: Path) -> None:
    splits = svhn()
    assert {name: split.size for name, split in splits.items()} == {"train": 3, "valid": 1, "test": 2}
    train = splits["train"]
    assert train.classes[-1] == END
    assert train.labels.tolist() == [  # the number of six digits is left out, with its picture
        [1, 9, 10, IGNORE, IGNORE, IGNORE],
        [7, 10, IGNORE, IGNORE, IGNORE, IGNORE],
        [2, 0, 5, 3, 1, 10],
    ]
    assert splits["valid"].labels[0, 0] == 4
    middle = train.images[:, :, 48, 32].tolist()
    for found, tile in zip(middle, (0, 1, 3), strict=True):
        assert found == pytest.approx([10 * tile, 100, 200 - 10 * tile], abs=6)
    assert train.images[0, :, 10, 32].tolist() == pytest.approx([0, 50, 100], abs=6)  # rows go down


def test_files_that_do_not_fit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(folder, monkeypatch, "svhn/test_00.jpg", sheet(2, width=4000))
    with pytest.raises(DataError, match="wrong size: got 4000×64; expected 4096 wide"):
        svhn()
    put(folder, monkeypatch, "svhn/test_00.jpg", b"no picture")
    with pytest.raises(DataError, match="is no picture"):
        svhn()
    put(folder, monkeypatch, "svhn/test_00.jpg", sheet(2))
    put(folder, monkeypatch, "svhn/test.csv.gz", table(["5"] * 65))
    with pytest.raises(DataError, match="do not fit: got 65 numbers; expected up to 64 pictures"):
        svhn()


def test_broken_tables(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(folder, monkeypatch, "svhn/train.csv.gz", table(["12", "1x"]))
    with pytest.raises(DataError, match="line 3: got '1x'; expected digits in the column 'number'"):
        svhn()
    put(folder, monkeypatch, "svhn/train.csv.gz", b"plain text")
    with pytest.raises(DataError, match="cannot be read"):
        svhn()


def test_too_few(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_OUT", 4)
    with pytest.raises(DataError, match="too small: got 4; expected more than 4"):
        svhn()
