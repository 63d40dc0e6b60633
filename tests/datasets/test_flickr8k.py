"""Flickr8k's files in small, sound and with a hole."""

import gzip
import hashlib
import zipfile
from pathlib import Path

import pytest

from regard.data.parallel import DataError
from regard.data.sources import Source
from regard.datasets.flickr8k import SOURCES, flickr8k


def small_set(folder: Path, monkeypatch: pytest.MonkeyPatch, *, leave_out: str = "") -> None:
    """Two pictures a split, five captions each, in the published layout."""
    home = folder / "flickr8k"
    home.mkdir()
    lines = []
    for part in ("train", "dev", "test"):
        names = [f"{part}{i}" for i in range(2)]
        (home / f"Flickr_8k.{part}Images.txt").write_text("".join(f"{name}.jpg\n" for name in names))
        with zipfile.ZipFile(home / f"{part}.zip", "w") as packed:
            for name in names:
                if f"{name}.webp" != leave_out:
                    packed.writestr(f"{name}.webp", name.encode())
        lines += [f"{name}.jpg#{i}\tcaption {i} of {name} .\n" for name in names for i in range(5)]
    lines = [line for line in lines if not leave_out or not line.startswith(leave_out)]
    (home / "Flickr8k.token.txt.gz").write_bytes(gzip.compress("".join(lines).encode()))
    for path in home.iterdir():
        name, content = f"flickr8k/{path.name}", path.read_bytes()
        source = Source(name, None, hashlib.sha256(content).hexdigest(), len(content), "")
        monkeypatch.setitem(SOURCES, name, source)
    monkeypatch.setenv("REGARD_DATA", str(folder))
    monkeypatch.setenv("REGARD_CACHE", str(folder / "cache"))


def test_flickr8k(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_set(tmp_path, monkeypatch)
    splits = flickr8k()
    assert {name: len(split) for name, split in splits.items()} == {"train": 2, "valid": 2, "test": 2}
    valid = splits["valid"]
    assert valid.names == ("dev0.webp", "dev1.webp")
    assert valid.captions[1] == tuple(f"caption {i} of dev1 ." for i in range(5))
    assert valid.read("dev1.webp") == b"dev1"
    assert len({split.signature for split in splits.values()}) == 3
    assert flickr8k()["valid"].signature == valid.signature
    with pytest.raises(DataError, match=r"dev\.zip: a picture cannot be read: got no\.webp"):
        valid.read("no.webp")


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("dev1.webp", r"dev\.zip: a picture is missing: got dev1\.webp"),
        ("test1.jpg", r"testImages\.txt, line 2: a picture without"),
    ],
)
def test_flickr8k_with_a_hole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, message: str) -> None:
    small_set(tmp_path, monkeypatch, leave_out=missing)
    with pytest.raises(DataError, match=message):
        flickr8k()
