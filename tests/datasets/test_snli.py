from hashlib import sha256
from lzma import compress
from pathlib import Path

import pytest

from regard.data import DataError, english_tokens
from regard.data.sources import Source
from regard.datasets import snli

HEAD = "gold_label\tpairID\tpremise\thypothesis\n"
ROWS = {
    "train_first100k": "neutral\t1\tA man's dog.\tIt isn't big.\n-\t2\tx\ty\nentailment\t3\tA cat sits.\tA cat.\n",
    "dev_tokenised": "contradiction\t-\tA man 's dog .\tIt is n't big .\n",
    "test": "entailment\t4\tThree.\tSome.\n",
}


def bring(folder: Path, monkeypatch: pytest.MonkeyPatch, split: str, rows: str) -> None:
    name, data = f"snli/{split}.tsv.xz", compress((HEAD + rows).encode())
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(data)
    monkeypatch.setitem(snli.SOURCES, name, Source(name, None, sha256(data).hexdigest(), len(data), "free"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for split, rows in ROWS.items():
        bring(tmp_path, monkeypatch, split, rows)
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_pairs_and_labels(folder: Path) -> None:
    splits = snli.snli()
    assert {name: (split.size, split.sides) for name, split in splits.items()} == {
        "train": (2, 2), "valid": (1, 2), "test": (1, 2),
    }  # fmt: skip
    assert [splits["train"].name(row) for row in range(2)] == ["neutral", "entailment"], "undecided pairs are left out"
    assert splits["train"].example(1) == ("A cat sits.", "A cat.")


def test_one_tokeniser_makes_the_same_words_of_raw_and_of_tokenised_pairs(folder: Path) -> None:
    splits = snli.snli()
    raw, tokenised = splits["train"].example(0), splits["valid"].example(0)
    assert [english_tokens(text) for text in raw] == [english_tokens(text) for text in tokenised]


def test_a_line_that_is_no_pair(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bring(folder, monkeypatch, "test", "maybe\t1\ta\tb\n")
    with pytest.raises(DataError, match="line 2: this is not a pair: got 4 columns; expected gold_label, pairID"):
        snli.snli()
