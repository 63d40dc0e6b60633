"""Penn Treebank: the right file for every split, without the spaces around sentences."""

import gzip
import hashlib
from pathlib import Path

import pytest

from regard.data.download import DownloadError
from regard.data.sources import Source
from regard.datasets.ptb import SOURCES, ptb


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ptb").mkdir()
    for split in ("train", "valid", "test"):
        name, data = f"ptb/ptb.{split}.txt.gz", gzip.compress(f" {split} <unk> N \n two \n".encode())
        (tmp_path / name).write_bytes(data)
        monkeypatch.setitem(SOURCES, name, Source(name, None, hashlib.sha256(data).hexdigest(), len(data), "free"))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    assert ptb() == {split: f"{split} <unk> N\ntwo\n" for split in ("train", "valid", "test")}
    (tmp_path / "ptb/ptb.test.txt.gz").unlink()
    with pytest.raises(DownloadError, match=r"ptb/ptb\.test\.txt\.gz cannot be downloaded automatically\. Try: put"):
        ptb()
