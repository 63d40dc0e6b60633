"""News tests: the right files for every year and pair of languages."""

import gzip
import hashlib
from pathlib import Path

import pytest

from regard.base import ConfigError
from regard.data.sources import Source
from regard.datasets.newstest import DATASET, SOURCES, newstest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "wmt_newstest").mkdir()
    for name in [name for name in SOURCES if name.startswith("wmt_newstest/")]:
        data = gzip.compress(f"{name} 0\n{name} 1\n".encode())
        (tmp_path / name).write_bytes(data)
        monkeypatch.setitem(SOURCES, name, Source(name, None, hashlib.sha256(data).hexdigest(), len(data), "free"))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.parametrize(
    ("year", "source", "target", "files"),
    [
        (2008, "en", "de", ("newstest2008.en", "newstest2008.de")),
        (2013, "de", "fr", ("newstest2013.de", "newstest2013.fr")),
        (2014, "en", "de", ("newstest2014.en-de.en", "newstest2014.en-de.de")),
        (2014, "de", "en", ("newstest2014.en-de.de", "newstest2014.en-de.en")),
        (2014, "fr", "en", ("newstest2014.en-fr.fr", "newstest2014.en-fr.en")),
    ],
)
def test_files(folder: Path, year: int, source: str, target: str, files: tuple[str, str]) -> None:
    text = newstest(year, source, target)
    assert text.source == [f"wmt_newstest/{files[0]}.gz 0", f"wmt_newstest/{files[0]}.gz 1"]
    assert text.target == [f"wmt_newstest/{files[1]}.gz 0", f"wmt_newstest/{files[1]}.gz 1"]


@pytest.mark.parametrize("year", range(2008, 2015))
def test_every_year_is_there(folder: Path, year: int) -> None:
    assert newstest(year).size == newstest(year, "fr", "en").size == 2


@pytest.mark.parametrize("year", [2007, 2015, 14])
def test_unknown_years(year: int) -> None:
    with pytest.raises(ConfigError, match=rf"newstest year: got {year}; expected 2008 to 2014"):
        newstest(year)


@pytest.mark.parametrize(("source", "target"), [("en", "cs"), ("ru", "en"), ("de", "de")])
def test_unknown_languages(source: str, target: str) -> None:
    with pytest.raises(ConfigError) as caught:
        newstest(2014, source, target)
    expected = "two different ones of ('en', 'de', 'fr')"
    assert str(caught.value) == f"newstest source and target: got {source!r} and {target!r}; expected {expected}"


def test_2014_has_pairs_with_english_only() -> None:
    with pytest.raises(
        ConfigError, match="newstest 2014 source and target: got 'de' and 'fr'; expected 'en' and another"
    ):
        newstest(2014, "de", "fr")


def test_the_menu_reads_a_year_by_its_split(folder: Path) -> None:
    assert DATASET.read(split="newstest2013", source="de", target="fr") == newstest(2013, "de", "fr")
    assert all(DATASET.read(split=split).size == 2 for split in DATASET.splits)
    with pytest.raises(ConfigError, match="newstest split: got 'test'; expected newstest2008 to newstest2014"):
        DATASET.read(split="test")
