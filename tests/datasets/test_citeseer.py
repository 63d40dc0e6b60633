"""Citeseer: read as Cora is, from a file of its own, with six subjects."""

from pathlib import Path

import pytest

from regard.data import DownloadError
from regard.datasets import DATASETS
from regard.datasets.citeseer import CLASSES, SOURCES, citeseer


def test_its_file_is_brought_by_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    with pytest.raises(DownloadError, match=r"planetoid/citeseer\.npz"):
        citeseer()
    assert DATASETS["citeseer"].access == "bring"
    assert (list(SOURCES), len(CLASSES)) == (["planetoid/citeseer.npz"], 6)


def test_it_is_read_as_cora_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("regard.datasets.citeseer.find", lambda source: tmp_path / source.name)
    monkeypatch.setattr("regard.datasets.citeseer.read_planetoid", lambda *told: asked.append(told) or {})
    assert citeseer() == {}
    assert asked == [(tmp_path / "planetoid/citeseer.npz", CLASSES)]
