"""The held-out sentences inside the package: whole, and of no training split."""

import hashlib
import re
from importlib.resources import files

import pytest

from regard.base import ConfigError
from regard.datasets.tatoeba_plain import tatoeba_plain
from regard.datasets.tatoeba_small import DATASET, FILE, tatoeba_small, tatoeba_small_references

CORPORA = files("regard") / "datasets" / "corpora"


def key(sentence: str) -> str:
    return re.sub(r"[\W_]+", "", sentence).casefold()


def test_sizes_and_checksum() -> None:
    text, references = tatoeba_small(), tatoeba_small_references()
    assert (text.size, len(references), sum(map(len, references))) == (1000, 1000, 1405)
    assert text.target == [each[0] for each in references]
    content = (CORPORA / FILE).read_bytes()
    readme = (CORPORA / "README.md").read_text()
    assert hashlib.sha256(content).hexdigest() in readme
    assert f"{len(content):,} bytes" in readme


def test_nothing_of_it_is_trained_on() -> None:
    held = {key(sentence) for sentence in tatoeba_small().source}
    assert not held & {key(sentence) for sentence in tatoeba_plain()["train"].source}
    assert len(held & {key(sentence) for sentence in tatoeba_plain()["test"].source}) > 100  # the same split


def test_sentences_are_of_all_lengths() -> None:
    lengths = [len(sentence.split()) for sentence in tatoeba_small().source]
    assert min(lengths) <= 2
    assert max(lengths) >= 20
    assert 5 <= sorted(lengths)[500] <= 7


def test_other_languages_are_refused() -> None:
    assert not DATASET.can_train
    with pytest.raises(ConfigError, match="tatoeba_small"):
        DATASET.read(source="de", target="en")
