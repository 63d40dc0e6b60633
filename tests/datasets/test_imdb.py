from hashlib import sha256
from lzma import compress
from pathlib import Path

import pytest

from regard.data import DataError
from regard.data.sources import Source
from regard.datasets import imdb

HEAD = "label\trating\tid\ttext\n"


def bring(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    data = compress(text.encode())
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(data)
    monkeypatch.setitem(imdb.SOURCES, name, Source(name, None, sha256(data).hexdigest(), len(data), "free"))
    monkeypatch.setenv("REGARD_DATA", str(folder))
    monkeypatch.setenv("REGARD_CACHE", str(folder / "cache"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for split in ("train", "test"):
        rows = [f"{n // 15}\t{1 + 9 * (n // 15)}\tx/{n}\t{split} {n}<br /><br />end" for n in range(30)]
        bring(tmp_path, monkeypatch, f"imdb/{split}.tsv.xz", HEAD + "\n".join(rows) + "\n")
    monkeypatch.setattr(imdb, "VALID", 10)
    monkeypatch.setattr(imdb, "RUN", 5)
    return tmp_path


def test_splits(folder: Path) -> None:
    splits = imdb.imdb(seed=0)
    assert {name: split.size for name, split in splits.items()} == {"train": 20, "valid": 10, "test": 30}
    assert {split.classes for split in splits.values()} == {("negative", "positive")}
    both = splits["train"].texts[0] + splits["valid"].texts[0]
    assert sorted(both) == sorted(f"train {n}  end" for n in range(30))
    assert len({int(text.split()[1]) // 5 for text in splits["valid"].texts[0]}) == 2  # two runs of five
    for split in splits.values():
        assert [int(text.split()[1]) // 15 for text in split.texts[0]] == split.labels
    assert imdb.imdb(seed=0)["valid"].texts == splits["valid"].texts != imdb.imdb(seed=1)["valid"].texts


def test_a_line_that_is_no_review(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bring(folder, monkeypatch, "imdb/test.tsv.xz", HEAD + "2\t1\tx\ttext\n")
    with pytest.raises(DataError, match=r"test\.tsv\.xz, line 2: this is not a review: got 4 columns; expected label"):
        imdb.imdb()
