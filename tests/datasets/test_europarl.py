"""Debates: the right files for every split and pair of languages."""

import gzip
import hashlib
import lzma
from pathlib import Path

import pytest

from regard.base import ConfigError
from regard.data.download import DownloadError
from regard.data.sources import Source
from regard.datasets.europarl import SOURCES, europarl

FILES = {"train": "train.{}.xz", "valid": "dev.{}.gz", "test": "test.{}.gz"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "europarl").mkdir()
    for split, file in FILES.items():
        for language in ("en", "de", "fr"):
            name = "europarl/" + file.format(language)
            text = f"{split} {language} 0\n{split} {language} 1\n".encode()
            data = lzma.compress(text) if name.endswith(".xz") else gzip.compress(text)
            (tmp_path / name).write_bytes(data)
            monkeypatch.setitem(SOURCES, name, Source(name, None, hashlib.sha256(data).hexdigest(), len(data), "free"))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.parametrize(("source", "target"), [("de", "en"), ("en", "fr"), ("fr", "de")])
def test_files(folder: Path, source: str, target: str) -> None:
    splits = europarl(source, target)
    assert list(splits) == list(FILES)
    for split, text in splits.items():
        assert text.source == [f"{split} {source} 0", f"{split} {source} 1"]
        assert text.target == [f"{split} {target} 0", f"{split} {target} 1"]


def test_german_to_english_unless_told(folder: Path) -> None:
    assert europarl() == europarl("de", "en")


@pytest.mark.parametrize(("source", "target"), [("de", "es"), ("EN", "de"), ("fr", "fr")])
def test_unknown_languages(source: str, target: str) -> None:
    with pytest.raises(ConfigError) as caught:
        europarl(source, target)
    expected = "two different ones of ('en', 'de', 'fr')"
    assert str(caught.value) == f"europarl source and target: got {source!r} and {target!r}; expected {expected}"


def test_a_missing_file_says_how_to_bring_it(folder: Path) -> None:
    (folder / "europarl/train.fr.xz").unlink()
    with pytest.raises(DownloadError, match=r"europarl/train\.fr\.xz cannot be downloaded automatically\. Try: put"):
        europarl("fr", "en")
    assert europarl("de", "en")["train"].size == 2
