"""enwik8: bytes as characters, cut by position, nothing lost."""

import hashlib
import lzma
from pathlib import Path

import pytest

from regard.data.sources import Source
from regard.datasets.enwik8 import SOURCES, enwik8


def test_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytes(range(256)) * 40
    name, data = "enwik8/enwik8_first25M.xz", lzma.compress(content)
    (tmp_path / "enwik8").mkdir()
    (tmp_path / name).write_bytes(data)
    monkeypatch.setitem(SOURCES, name, Source(name, None, hashlib.sha256(data).hexdigest(), len(data), "free"))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    splits = enwik8()
    assert "".join(splits.values()).encode("latin-1") == content
    assert [len(split) for split in splits.values()] == [9216, 512, 512]
