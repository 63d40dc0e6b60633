"""The corpus inside the package is whole and leaks nothing."""

import hashlib
import lzma
import re
from importlib.resources import files

import pytest

from regard.base import ConfigError
from regard.data.parallel import ParallelText
from regard.data.text import tokenize
from regard.datasets.tatoeba_plain import DATASET, tatoeba_plain, tatoeba_plain_references

CORPORA = files("regard") / "datasets" / "corpora"


@pytest.fixture(scope="module")
def plain() -> dict[str, ParallelText]:
    return tatoeba_plain()


@pytest.fixture(scope="module")
def rows() -> list[list[str]]:
    text = lzma.decompress((CORPORA / "tatoeba_en_fr_plain.tsv.xz").read_bytes()).decode()
    return [line.split("\t") for line in text.removesuffix("\n").split("\n")]


def key(sentence: str) -> str:
    """What makes a sentence: its letters."""
    return re.sub(r"[\W_]+", "", sentence).casefold()


def test_sizes(plain: dict[str, ParallelText], rows: list[list[str]]) -> None:
    assert list(plain) == ["train", "valid", "test"]
    assert {name: text.size for name, text in plain.items()} == {"train": 41_016, "valid": 1_004, "test": 1_968}
    further = sum(plain[name].dropped["further translations"] for name in ("valid", "test"))
    assert sum(text.size for text in plain.values()) + further == len(rows) == 45_047
    assert plain["train"].dropped == {}


def test_no_sentence_is_in_two_splits(plain: dict[str, ParallelText]) -> None:
    train, valid, test = ({key(sentence) for sentence in text.source} for text in plain.values())
    assert not train & test
    assert not train & valid
    assert not valid & test


@pytest.mark.parametrize("split", ["valid", "test"])
def test_a_held_out_sentence_stands_once_with_all_its_references(
    plain: dict[str, ParallelText], rows: list[list[str]], split: str
) -> None:
    text, references = plain[split], tatoeba_plain_references(split)
    assert len(set(text.source)) == text.size == len(references)
    translations: dict[str, list[str]] = {}
    for english, french, _ in rows:
        translations.setdefault(english, []).append(french)
    assert references == [translations[sentence] for sentence in text.source]
    assert text.target == [group[0] for group in references]
    assert sum(map(len, references)) == text.size + text.dropped["further translations"]


def test_only_plain_words_and_every_line_attributed(rows: list[list[str]]) -> None:
    vocabulary: tuple[set[str], set[str]] = (set(), set())
    for row in rows[::7]:  # a sample: all of them take seconds
        for side in (0, 1):
            words = [token for token in tokenize(row[side], lower=True) if re.search(r"\w", token)]
            assert 3 <= len(words) <= 20
            vocabulary[side].update(words)
    assert len(vocabulary[0]) <= 1000
    assert len(vocabulary[1]) <= 1000
    assert all(len(row) == 3 and re.fullmatch(r"\d+ \S+ \d+ \S+", row[2]) for row in rows)


def test_licence_and_attribution_come_along() -> None:
    text = (CORPORA / "README.md").read_text(encoding="utf-8")
    for fact in ("CC BY 2.0 FR", "tatoeba.org", "www.manythings.org/anki", "2020-08-23", "45,047"):
        assert fact in text
    data = (CORPORA / "tatoeba_en_fr_plain.tsv.xz").read_bytes()
    assert len(data) < 3_000_000
    assert hashlib.sha256(data).hexdigest() in text


def test_unknown_split() -> None:
    with pytest.raises(ConfigError, match="tatoeba_plain_references split: got 'train'; expected 'valid' or 'test'"):
        tatoeba_plain_references("train")


def test_the_menu_reads_one_direction(plain: dict[str, ParallelText]) -> None:
    assert DATASET.read(source="en", target="fr") == DATASET.read() == plain
    with pytest.raises(ConfigError, match="languages of tatoeba_plain: got fr → en; expected en → fr"):
        DATASET.read(source="fr", target="en")
