from hashlib import sha256
from lzma import compress
from pathlib import Path

import pytest

from regard.data import DataError
from regard.data.sources import Source
from regard.datasets import yelp

NAME = "yelp/yelp_reviews_10k.tsv.xz"


def bring(folder: Path, monkeypatch: pytest.MonkeyPatch, rows: list[str]) -> None:
    data = compress(("stars\treview_id\ttext\n" + "\n".join(rows)).encode())
    (folder / NAME).parent.mkdir(exist_ok=True)
    (folder / NAME).write_bytes(data)
    monkeypatch.setitem(yelp.SOURCES, NAME, Source(NAME, None, sha256(data).hexdigest(), len(data), "free"))
    monkeypatch.setattr(yelp, "HELD_OUT", {"valid": 5, "test": 5})
    monkeypatch.setenv("REGARD_DATA", str(folder))
    monkeypatch.setenv("REGARD_CACHE", str(folder / "cache"))


def test_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bring(tmp_path, monkeypatch, [rf"{n % 5 + 1}" + f"\tid{n}\t{n} one\\ntwo \\\\n three\\t" for n in range(40)])
    splits = yelp.yelp()
    assert {name: split.size for name, split in splits.items()} == {"train": 30, "valid": 5, "test": 5}
    for split in splits.values():
        assert [int(text.split()[0]) % 5 for text in split.texts[0]] == split.labels
        assert all(text.partition(" ")[2] == "one two \\n three " for text in split.texts[0])
    assert splits["test"].texts != yelp.yelp(seed=1)["test"].texts
    assert splits["train"].classes[0] == "1 star"


def test_a_line_that_is_no_review(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bring(tmp_path, monkeypatch, ["6\tid\ttext"])
    with pytest.raises(DataError, match="line 2: this is not a review: got 3 columns; expected stars"):
        yelp.yelp()
