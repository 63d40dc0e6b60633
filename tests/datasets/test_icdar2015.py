"""Splits of icdar2015, from small files that the test makes."""

import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.datasets import icdar2015


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six training words and four test words, of which one has a hyphen."""
    for split, count in (("train", 6), ("test", 4)):
        with zipfile.ZipFile(tmp_path / f"icdar2015_{split}.zip", "w") as packed:
            rows = ["file,text,orig_w,orig_h,w,h"]
            for number in range(count):
                file = io.BytesIO()
                Image.fromarray(np.full((10, 30, 3), number, np.uint8)).save(file, "WEBP", lossless=True)
                packed.writestr(f"word_{number}.webp", file.getvalue())
                rows.append(f"word_{number}.webp,{split}{'-' if number == 2 else ''}{number},30,10,30,10")
        (tmp_path / f"icdar2015_{split}.csv.gz").write_bytes(gzip.compress("\n".join(rows).encode()))
    monkeypatch.setattr(icdar2015, "find", lambda source: tmp_path / Path(source.name).name)
    monkeypatch.setattr(icdar2015, "HELD_OUT", 2)


@pytest.mark.usefixtures("small")
def test_the_last_training_words_are_for_validation() -> None:
    splits = icdar2015.icdar2015()
    assert splits["train"].texts == ("train0", "train1", "train-2", "train3")
    assert splits["valid"].texts == ("train4", "train5")
    assert splits["test"].texts == ("test0", "test1", "test-2", "test3")
    assert splits["test"].aspects.tolist() == [3.0] * 4
    assert tuple(splits) == icdar2015.DATASET.splits
    assert splits["test_alnum"].texts == ("test0", "test1", "test3")
