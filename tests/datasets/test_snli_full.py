import json
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from regard.data import DataError
from regard.data.sources import Source
from regard.datasets import snli_full


def bring(folder: Path, monkeypatch: pytest.MonkeyPatch, lines: dict[str, list[str]]) -> None:
    path = folder / snli_full.FILE
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for split, content in lines.items():
            archive.writestr(f"snli_1.0/snli_1.0_{split}.jsonl", "\n".join(content) + "\n")
    data = path.read_bytes()
    source = Source(snli_full.FILE, None, sha256(data).hexdigest(), len(data), "free")
    monkeypatch.setitem(snli_full.SOURCES, snli_full.FILE, source)
    monkeypatch.setenv("REGARD_DATA", str(folder))
    monkeypatch.setenv("REGARD_CACHE", str(folder / "cache"))


def pair(label: str) -> str:
    return json.dumps({"gold_label": label, "sentence1": "Ein – dash.", "sentence2": "B.", "pairID": "1"})


def test_pairs_of_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = {"train": [pair("neutral"), pair("-"), pair("contradiction")], "dev": [pair("entailment")],
             "test": [pair("neutral")]}  # fmt: skip
    bring(tmp_path, monkeypatch, lines)
    splits = snli_full.snli_full()
    assert {name: split.labels for name, split in splits.items()} == {"train": [1, 2], "valid": [0], "test": [1]}
    assert splits["train"].example(0) == ("Ein – dash.", "B.")


@pytest.mark.parametrize("line", ["{", "{}", '{"gold_label": "maybe", "sentence1": "a", "sentence2": "b"}', "[1]"])
def test_a_line_that_is_no_pair(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bring(tmp_path, monkeypatch, {"train": [pair("neutral"), line], "dev": [], "test": []})
    with pytest.raises(DataError, match=r"snli_1.0_train.jsonl, line 2: this is not a pair"):
        snli_full.snli_full()


def test_where_it_comes_from() -> None:
    assert snli_full.SOURCES[snli_full.FILE].url == "https://nlp.stanford.edu/projects/snli/snli_1.0.zip"
