"""Splits of iiit5k, from small files that the test makes."""

from pathlib import Path

import pytest
from few_words import ZIPPED_SPLITS, write_zipped_words

from regard.datasets import iiit5k


def test_the_last_training_words_are_for_validation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_zipped_words(tmp_path, "iiit5k")
    monkeypatch.setattr(iiit5k, "find", lambda source: tmp_path / Path(source.name).name)
    monkeypatch.setattr(iiit5k, "HELD_OUT", 2)
    splits = iiit5k.iiit5k()
    assert {split: splits[split].texts for split in ZIPPED_SPLITS} == ZIPPED_SPLITS
    assert splits["test"].aspects.tolist() == [3.0] * 4
    assert tuple(splits) == iiit5k.DATASET.splits
