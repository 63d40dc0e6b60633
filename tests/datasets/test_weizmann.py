"""Weizmann: the arrays of the file, boxes and persons, and files that are broken. The file here is small."""

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.data import DataError, Source
from regard.datasets.weizmann import CLASSES, NAME, SOURCES, read_masks, weizmann


def arrays(**changes: Any) -> bytes:
    """Four sequences of two frames, 4 × 10, by persons a, b, c and d; the person is 2 × 4 pixels and moves."""
    masks = np.zeros((8, 4, 10), np.uint8)
    for number in range(8):
        masks[number, 1:3, number : number + 2] = 1
    kept = {
        "packed": np.packbits(masks, axis=2), "length": np.full(4, 2), "person": np.array(list("abcd")),
        "action": np.array(["run", "run", "bend", "walk"]), "width": np.array(10), "height": np.array(4),
        "name": np.array(["a_run", "b_run", "c_bend", "d_walk"]),
    }  # fmt: skip
    content = io.BytesIO()
    np.savez(content, **{name: array for name, array in (kept | changes).items() if array is not None})
    return content.getvalue()


def test_persons_are_the_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = arrays()
    (tmp_path / NAME).parent.mkdir()
    (tmp_path / NAME).write_bytes(data)
    monkeypatch.setitem(SOURCES, NAME, Source(NAME, None, hashlib.sha256(data).hexdigest(), len(data), "free"))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    splits = weizmann()
    assert {name: split.groups for name, split in splits.items()} == {
        "train": ("a", "b"),
        "valid": ("c",),
        "test": ("d",),
    }
    train = splits["train"]
    assert train.frames.shape == (4, 1, 2, 5)
    assert train.frames[0, 0, :, 0].tolist() == [128, 128], "two of four pixels are inside"
    np.testing.assert_allclose(train.boxes[1, 0], [0.1, 0.25, 0.3, 0.75])
    assert splits["test"].labels[0, 0].argmax() == CLASSES.index("walk")


@pytest.mark.parametrize(
    "content", [b"no archive", arrays(action=None), arrays(action=np.array(["fly"] * 4)), arrays(length=np.full(4, 3))],
    ids=["no archive", "an array is missing", "an unknown action", "lengths do not fit"],
)  # fmt: skip
def test_files_that_are_broken(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "some.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"some\.npz cannot be read"):
        read_masks(tmp_path / "some.npz")


def test_too_few_persons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = arrays(person=np.array(list("aabb")))
    (tmp_path / NAME).parent.mkdir()
    (tmp_path / NAME).write_bytes(data)
    monkeypatch.setitem(SOURCES, NAME, Source(NAME, None, hashlib.sha256(data).hexdigest(), len(data), "free"))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    with pytest.raises(DataError, match="silhouettes of too few persons: got 2; expected 3 or more"):
        weizmann()
