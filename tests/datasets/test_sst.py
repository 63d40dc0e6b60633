from gzip import compress
from hashlib import sha256
from pathlib import Path

import pytest

from regard.data import DataError
from regard.data.sources import Source
from regard.datasets import sst

TREES = {
    "train": ["(3 (2 Not) (1 (2 at) (1 all)))", "(2 (2 A) (2 film))", "(0 (1 all) (0 (2 so) (0 bad)))"],
    "dev": ["(4 (2 So) (3 good))"],
    "test": ["(1 (2 -LRB-) (1 dull))", "(2 fine)"],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for split, trees in TREES.items():
        name, data = f"sst/{split}.trees.txt.gz", compress(("\n".join(trees) + "\n").encode(), mtime=0)
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
        monkeypatch.setitem(sst.SOURCES, name, Source(name, None, sha256(data).hexdigest(), len(data), "free"))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_five_classes_and_two(folder: Path) -> None:
    five = sst.sst()
    assert five["train"].texts == (["Not at all", "A film", "all so bad"],)
    assert five["train"].labels == [3, 2, 0]
    assert len(five["train"].classes) == 5
    two = sst.sst(binary=True)
    assert two["train"].texts == (["Not at all", "all so bad"],)
    assert (two["train"].labels, two["valid"].labels, two["test"].labels) == ([1, 0], [1], [0])
    assert two["test"].texts == (["-LRB- dull"],)


def test_phrases_are_trained_on_once_each(folder: Path) -> None:
    splits = sst.sst(phrases=True)
    phrases = dict(zip(splits["train"].texts[0], splits["train"].labels, strict=True))
    assert phrases == {
        "Not": 2, "at": 2, "all": 1, "at all": 1, "Not at all": 3, "A": 2, "film": 2, "A film": 2, "so": 2, "bad": 0,
        "so bad": 0, "all so bad": 0,
    }  # fmt: skip
    assert splits["train"].size == len(phrases)
    assert splits["test"].size == 2, "held-out sentences are whole"
    two = sst.sst(phrases=True, binary=True)["train"]
    assert set(two.texts[0]) == {text for text, label in phrases.items() if label != 2}


@pytest.mark.parametrize("line", ["(3 (2 a)", "(3 a))", "word", "(7 a)", "", "(3 a) (2 b)", "(3 )"])
def test_lines_that_are_no_trees(line: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, data = "sst/test.trees.txt.gz", compress(f"(2 fine)\n{line}\n".encode())
    (folder / name).write_bytes(data)
    monkeypatch.setitem(sst.SOURCES, name, Source(name, None, sha256(data).hexdigest(), len(data), "free"))
    with pytest.raises(DataError, match=r"line 2: this is not a tree"):
        sst.sst()
