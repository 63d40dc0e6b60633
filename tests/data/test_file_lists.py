"""Paths and patterns: which files, in which order, and which of two sides go together."""

from pathlib import Path

import pytest
from table import cases

from regard.data.file_lists import files_of, paired_files, wildcards
from regard.data.parallel import DataError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("c.2.de", "c.1.de", "c.1.en", "c.2.en", "d[1].de", "d1.de", "x.3.en"):
        (tmp_path / name).touch()
    (tmp_path / "c.9.de").mkdir()
    return tmp_path


def test_patterns_are_spelt_out(folder: Path) -> None:
    names = [Path(path).name for path in files_of(str(folder / "c.*.de"))]
    assert names == ["c.1.de", "c.2.de"]  # by name, without folders
    assert files_of(["b", str(folder / "c.?.en"), "a"])[0::3] == ["b", "a"]  # paths as they were named
    assert files_of(str(folder / "d[1].de")) == [str(folder / "d[1].de")]  # what is there is no pattern
    assert files_of("nowhere.tsv") == ["nowhere.tsv"]  # reading it says what is wrong


def test_a_pattern_that_matches_nothing(folder: Path) -> None:
    with pytest.raises(DataError, match=r"c\.\*\.fr matches no file: got c\.1\.de, .* expected one file or more"):
        files_of(str(folder / "c.*.fr"))
    with pytest.raises(DataError, match=r"matches no file: got nothing in .*nowhere"):
        files_of(str(folder / "nowhere" / "*.fr"))


def test_two_sides(folder: Path) -> None:
    sources, targets = paired_files(str(folder / "c.*.de"), str(folder / "c.*.en"))
    assert [Path(path).name for path in (*sources, *targets)] == ["c.1.de", "c.2.de", "c.1.en", "c.2.en"]
    with pytest.raises(DataError, match=r"different numbers of files: got 2 \(c.1.de, c.2.de\) and 1 \(c.1.en\)"):
        paired_files(str(folder / "c.*.de"), str(folder / "c.1.en"))
    (folder / "c.2.en").rename(folder / "c.3.en")
    with pytest.raises(DataError, match=r"do not go together: got c.2.de and c.3.en"):
        paired_files(str(folder / "c.*.de"), str(folder / "c.*.en"))
    named = [str(folder / name) for name in ("c.1.en", "c.3.en")]
    assert paired_files(str(folder / "c.*.de"), named)[1] == named  # whoever names files says what goes together


@cases(
    "pattern, path, parts",
    [
        ("c.*.de.gz", "c.01.de.gz", ("01",)),
        ("*/c?.de", "a/c7.de", ("a", "7")),
        ("c.[0-9]*.de", "c.12.de", ("1", "2")),
        ("c[!a].de", "cb.de", ("b",)),
        ("c[.de", "c[.de", ()),
        ("a+(b).*", "a+(b).txt", ("txt",)),
        ("c.*.de", "d.1.de", ()),
    ],
)
def test_what_stands_in_place_of_wildcards(pattern: str, path: str, parts: tuple[str, ...]) -> None:
    assert wildcards(pattern, path) == parts
