"""Captions: the right files for every split and pair of languages."""

import gzip
import hashlib
from pathlib import Path

import pytest

from regard.base import ConfigError
from regard.data.download import DownloadError
from regard.data.parallel import DataError
from regard.data.sources import Source
from regard.datasets.multi30k import SOURCES, multi30k

FILES = {"train": "train", "valid": "val", "test2016": "test_2016_flickr", "test2017": "test_2017_flickr"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for file in FILES.values():
        for language in ("en", "de", "fr"):
            name = f"multi30k/{file}.{language}.gz"
            data = gzip.compress(f"{file} {language} 0\n{file} {language} 1\n".encode(), mtime=0)
            (tmp_path / "multi30k").mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(data)
            monkeypatch.setitem(SOURCES, name, Source(name, None, hashlib.sha256(data).hexdigest(), len(data), "free"))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.parametrize(("source", "target"), [("de", "en"), ("en", "de"), ("en", "fr"), ("fr", "de")])
def test_files(folder: Path, source: str, target: str) -> None:
    splits = multi30k(source, target)
    assert list(splits) == list(FILES)
    for split, text in splits.items():
        assert text.source == [f"{FILES[split]} {source} {line}" for line in (0, 1)]
        assert text.target == [f"{FILES[split]} {target} {line}" for line in (0, 1)]
        assert text.dropped == {}


def test_german_to_english_unless_told(folder: Path) -> None:
    assert multi30k() == multi30k("de", "en")


@pytest.mark.parametrize(("source", "target"), [("de", "cs"), ("it", "en"), ("en", "en")])
def test_unknown_languages(source: str, target: str) -> None:
    with pytest.raises(ConfigError) as caught:
        multi30k(source, target)
    expected = "two different ones of ('en', 'de', 'fr')"
    assert str(caught.value) == f"multi30k source and target: got {source!r} and {target!r}; expected {expected}"


def test_unequal_files_are_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "multi30k/val.de.gz"
    data = gzip.compress(b"one line\n")
    (folder / name).write_bytes(data)
    monkeypatch.setitem(SOURCES, name, Source(name, None, hashlib.sha256(data).hexdigest(), len(data), "free"))
    with pytest.raises(DataError, match="unequal line counts"):
        multi30k("de", "en")
    assert multi30k("fr", "en")["valid"].size == 2


def test_a_spoilt_file_is_an_error(folder: Path) -> None:
    (folder / "multi30k/train.en.gz").write_bytes(b"spoilt")
    with pytest.raises(DownloadError, match=r"train\.en\.gz has the wrong size: got 6"):
        multi30k()


def test_addresses() -> None:
    commit = "a3d2e0d26b56f3846f66a952536ffed4e401d05a"
    source = SOURCES["multi30k/train.de.gz"]
    assert source.url == f"https://raw.githubusercontent.com/multi30k/dataset/{commit}/data/task1/raw/train.de.gz"
    assert source.mirrors == (f"https://github.com/multi30k/dataset/raw/{commit}/data/task1/raw/train.de.gz",)
    assert "non-commercial" in source.licence
