"""Cora: the arrays of the file, its splits, and files that are broken. The file here is small, in the same form."""

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.data import DataError, DownloadError, Source
from regard.data.pictures import IGNORE
from regard.datasets.cora import SOURCES, cora, read_planetoid

NAME = "planetoid/cora.npz"


def arrays(**changes: Any) -> bytes:
    """Four nodes with three words, of which the last node has none; two undirected edges."""
    content = io.BytesIO()
    kept = {
        "features_indptr": np.array([0, 2, 3, 5, 5]), "features_indices": np.array([0, 2, 1, 0, 1]),
        "features_shape": np.array([4, 3]), "labels": np.array([0, 6, 3, -1], np.int8),
        "edges": np.array([[0, 1], [1, 2]]), "idx_train": np.array([0]), "idx_val": np.array([1]),
        "idx_test": np.array([2]),
    }  # fmt: skip
    np.savez(content, **{name: array for name, array in (kept | changes).items() if array is not None})
    return content.getvalue()


def test_the_splits_of_one_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = arrays()
    (tmp_path / "planetoid").mkdir()
    (tmp_path / NAME).write_bytes(data)
    monkeypatch.setitem(SOURCES, NAME, Source(NAME, None, hashlib.sha256(data).hexdigest(), len(data), "free"))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    splits = cora()
    [graph] = splits["train"].graphs
    assert graph.features.tolist() == [[1, 0, 1], [0, 1, 0], [1, 1, 0], [0, 0, 0]]
    assert graph.labels.tolist() == [0, 6, 3, IGNORE]
    assert graph.pairs.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert {name: split.rows.tolist() for name, split in splits.items()} == {"train": [0], "valid": [1], "test": [2]}
    assert splits["test"].classes[6] == "rule learning"
    (tmp_path / NAME).write_bytes(data[:-1])
    with pytest.raises(DownloadError):
        cora()


@pytest.mark.parametrize(
    "content",
    [b"no archive", arrays(edges=None), arrays(labels=np.zeros(3, np.int8)), arrays(features_indices=np.full(5, 9)),
     arrays(labels=np.array([{}, {}, {}, {}], dtype=object))],
    ids=["no archive", "an array is missing", "labels are too few", "a word is out of range", "a pickle"],
)  # fmt: skip
def test_files_that_are_broken(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "some.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"some\.npz cannot be read|do not fit together"):
        read_planetoid(tmp_path / "some.npz", ["a"] * 7)
