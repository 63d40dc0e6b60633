"""WikiText-2: the right file for every split; empty lines stay, for they are tokens too."""

import hashlib
import lzma
from pathlib import Path

import pytest

from regard.data.sources import Source
from regard.datasets.wikitext2 import SOURCES, wikitext2


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wikitext2").mkdir()
    for split in ("train", "valid", "test"):
        name, data = f"wikitext2/wiki.{split}.tokens.xz", lzma.compress(f" \n = {split} = \n \n é <unk> \n".encode())
        (tmp_path / name).write_bytes(data)
        monkeypatch.setitem(SOURCES, name, Source(name, None, hashlib.sha256(data).hexdigest(), len(data), "free"))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    assert wikitext2() == {split: f"\n= {split} =\n\né <unk>\n" for split in ("train", "valid", "test")}
