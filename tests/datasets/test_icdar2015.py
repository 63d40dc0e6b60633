"""Splits of icdar2015, from small files that the test makes."""

from pathlib import Path

import pytest
from few_words import ZIPPED_SPLITS, write_zipped_words

from regard.datasets import icdar2015


def test_the_last_training_words_are_for_validation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_zipped_words(tmp_path, "icdar2015")
    monkeypatch.setattr(icdar2015, "find", lambda source: tmp_path / Path(source.name).name)
    monkeypatch.setattr(icdar2015, "HELD_OUT", 2)
    splits = icdar2015.icdar2015()
    assert {split: splits[split].texts for split in ZIPPED_SPLITS} == ZIPPED_SPLITS
    assert splits["test"].aspects.tolist() == [3.0] * 4
    assert tuple(splits) == icdar2015.DATASET.splits
    assert splits["test_alnum"].texts == ("test0", "test1", "test3")
