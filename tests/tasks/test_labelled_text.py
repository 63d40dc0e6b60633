"""The functions behind prepared texts: files, options of data sets, shortening."""

from pathlib import Path

import pytest
import torch
from torch import nn

from regard.base import ConfigError
from regard.data import Coverage, DataError
from regard.tasks.labelled_text import (
    StartVectors,
    check_dataset,
    fill_table,
    read_dataset,
    read_files,
    shortened,
)


def test_files_are_split_by_their_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"{n % 2}\ttext {n}\n" for n in range(100)))
    splits = read_files(str(path), None)
    assert {name: split.size for name, split in splits.items()} == {"train": 90, "valid": 5, "test": 5}
    assert all(split.labels == [int(text[5:]) % 2 for text in split.texts[0]] for split in splits.values())


def test_a_second_file_is_the_test_set(tmp_path: Path) -> None:
    train, test, pairs = (tmp_path / name for name in ("a.tsv", "b.tsv", "c.tsv"))
    train.write_text("".join(f"{n % 2}\ttext {n}\n" for n in range(100)))
    test.write_text("1\tone\n0\ttwo\n")
    pairs.write_text("1\tone\tmore\n0\ttwo\tmore\n")
    splits = read_files(str(train), str(test))
    assert {name: split.size for name, split in splits.items()} == {"train": 95, "valid": 5, "test": 2}
    assert splits["test"].texts == (["one", "two"],)
    with pytest.raises(ConfigError, match=r"c\.tsv does not fit: got 2 texts in each line; expected 1"):
        read_files(str(train), str(pairs))
    test.write_text("2\tone\n")
    with pytest.raises(DataError, match="line 1: unknown label: got '2'; expected one of 0, 1"):
        read_files(str(train), str(test))
    with pytest.raises(ConfigError, match="dataset='files' needs a file"):
        read_files(None, None)


def test_options_are_for_sets_that_have_them() -> None:
    assert read_dataset("toy_reviews", seed=0, options={"phrases": False})["train"].size == 2000
    with pytest.raises(ConfigError, match=r"task\.phrases is not for toy_reviews: got true; expected false"):
        read_dataset("toy_reviews", seed=0, options={"phrases": True})
    check_dataset("files")
    with pytest.raises(ConfigError, match="mnist has pictures"):
        check_dataset("mnist")


@pytest.mark.parametrize(("kept", "expected"), [("start", [0, 1, 2]), ("end", [7, 8, 9]), ("ends", [0, 8, 9])])
def test_what_is_kept_of_a_long_text(kept: str, expected: list[int]) -> None:
    assert shortened(range(10), 3, kept) == expected  # type: ignore[arg-type]
    assert shortened(range(3), 3, kept) == [0, 1, 2]  # type: ignore[arg-type]
    assert shortened(range(10), None, kept) == list(range(10))  # type: ignore[arg-type]


def test_vectors_of_the_wrong_width() -> None:
    start = StartVectors(torch.ones(5, 3), torch.ones(5, dtype=torch.bool), Coverage(5, 5))
    with pytest.raises(ConfigError, match="word vectors do not fit the model: got 5 × 4; expected 5 × 3"):
        fill_table(nn.Embedding(5, 4), start)
