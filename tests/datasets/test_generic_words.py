import gzip
from pathlib import Path

import pytest

from regard.datasets import generic_words


def test_comments_are_skipped_and_words_are_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "words.txt.gz"
    path.write_bytes(gzip.compress(b"#a comment\nHello\nO'Neil\n---\nhello\n24\n"))
    monkeypatch.setattr(generic_words, "find", lambda source: path)
    assert generic_words.generic_words() == ("hello", "oneil", "24")
