"""Tiny Shakespeare: cut by position, nothing lost."""

import gzip
import hashlib
from pathlib import Path

import pytest

from regard.data.sources import Source
from regard.datasets.tinyshakespeare import SOURCES, tinyshakespeare


def test_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"{number:03d} be,\n" for number in range(125))  # 1,000 characters
    name, data = "tinyshakespeare/input.txt.gz", gzip.compress(text.encode())
    (tmp_path / "tinyshakespeare").mkdir()
    (tmp_path / name).write_bytes(data)
    monkeypatch.setitem(SOURCES, name, Source(name, None, hashlib.sha256(data).hexdigest(), len(data), "free"))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    splits = tinyshakespeare()
    assert "".join(splits.values()) == text
    assert [len(split) for split in splits.values()] == [900, 50, 50]
