from hashlib import sha256
from lzma import compress
from pathlib import Path

import pytest

from regard.data.sources import Source
from regard.datasets import glove50d


def test_words_that_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = {word: " ".join([str(n / 4)] * 50) for n, word in enumerate("abc")}
    lines = [f"{word} {vector}\n" for word, vector in numbers.items()]
    data = compress("".join(lines).encode())
    (tmp_path / glove50d.FILE).parent.mkdir()
    (tmp_path / glove50d.FILE).write_bytes(data)
    source = Source(glove50d.FILE, None, sha256(data).hexdigest(), len(data), "free")
    monkeypatch.setitem(glove50d.SOURCES, glove50d.FILE, source)
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    vectors = glove50d.glove50d(["c", "z"])
    assert list(vectors.rows) == ["c"]
    assert vectors.matrix.tolist() == [[0.5] * 50]
    assert len(glove50d.glove50d().rows) == 3
