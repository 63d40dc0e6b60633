"""The corpus inside the package is whole and leaks nothing; the whole files follow the same split."""

import hashlib
import importlib.util
import lzma
import re
from importlib.resources import files
from pathlib import Path

import pytest

from regard.base import ConfigError
from regard.data.download import DownloadError
from regard.data.parallel import ParallelText
from regard.data.sources import SOURCES, Source
from regard.data.tatoeba import tatoeba, tatoeba_plain, tatoeba_plain_references
from regard.data.text import tokenize

CORPORA = files("regard") / "data" / "corpora"


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


def give(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, lines: list[str]) -> None:
    """Put a small file in place of a source."""
    data = lzma.compress("".join(line + "\n" for line in lines).encode())
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    monkeypatch.setitem(SOURCES, name, Source(name, None, hashlib.sha256(data).hexdigest(), len(data), "free"))
    monkeypatch.setenv("REGARD_DATA", str(folder))
    monkeypatch.setenv("REGARD_CACHE", str(folder / "cache"))


@pytest.mark.parametrize(("language", "name"), [("fr", "tatoeba/fra.txt.xz"), ("de", "tatoeba/deu.txt.xz")])
def test_the_whole_file_holds_out_the_same_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: dict[str, ParallelText], language: str, name: str
) -> None:
    english = plain["test"].source[:300] + plain["valid"].source[:100] + plain["train"].source[:2000]
    more = [f"Sentence number {number}." for number in range(500)]
    louder = [sentence.upper().replace(".", "  !") for sentence in english]  # the same words
    lines = [f"{sentence}\tÜbersetzung {row}" for row, sentence in enumerate([*english, *more, *louder])]
    give(tmp_path, monkeypatch, name, lines)
    whole = tatoeba(language)
    assert list(whole) == ["train", "valid", "test"]
    homes = {key(sentence): split for split, text in whole.items() for sentence in text.source}
    for split, text in plain.items():
        for sentence in text.source:
            assert homes.get(key(sentence), split) == split
    assert sum(homes[key(sentence)] == "test" for sentence in english) >= 300
    assert {split for sentence, split in homes.items() if "sentencenumber" in sentence} == {"train", "valid", "test"}
    for split, text in whole.items():
        for sentence in text.source:
            assert homes[key(sentence)] == split  # none is in two
    assert len(set(whole["test"].source)) == whole["test"].size


def test_further_translations_stay_in_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"Number {row}.\t{word} {row}." for row in range(200) for word in ("Zahl", "Nummer")]
    give(tmp_path, monkeypatch, "tatoeba/deu.txt.xz", lines)
    whole = tatoeba("de")
    for name in ("valid", "test"):
        assert whole[name].size > 0
        assert whole[name].dropped == {"further translations": whole[name].size}
        assert all(target.startswith("Zahl") for target in whole[name].target)
    assert whole["train"].size + 2 * whole["valid"].size + 2 * whole["test"].size == 400


def test_unknown_language() -> None:
    with pytest.raises(ConfigError, match="tatoeba language: got 'it'; expected 'fr' or 'de'"):
        tatoeba("it")


def test_a_missing_file_says_how_to_bring_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REGARD_DATA", raising=False)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    with pytest.raises(
        DownloadError, match=r"tatoeba/fra\.txt\.xz is not here.*3,711,932 bytes, sha256 481a.*REGARD_DATA"
    ):
        tatoeba()


def test_the_tool_that_makes_the_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(__file__).parents[2] / "tools" / "make_tatoeba_plain.py"
    spec = importlib.util.spec_from_file_location("make_tatoeba_plain", path)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    owners = "CC-BY 2.0 (France) Attribution: tatoeba.org #1 (CM) & #22 (Wittydev)"
    pairs = [
        ("The cat sleeps.", "Le chat dort."),
        ("The cat sleeps!", "Le chat dort !"),
        ("The cat hibernates.", "Le chat dort."),  # a rare word
        ("The cat sleeps.", "Le chat hiberne."),
        ("The cat.", "Le chat dort."),  # too short
        ("The cat sleeps.", "Le chat."),
        ("The cat " * 11, "Le chat dort."),  # too long
    ]
    give(tmp_path, monkeypatch, "tatoeba/fra.txt.xz", [f"{english}\t{french}\t{owners}" for english, french in pairs])
    monkeypatch.setattr(tool, "NUM_WORDS", 3)
    monkeypatch.setattr(tool, "OUTPUT", tmp_path / "plain.tsv.xz")
    tool.main()
    expected = [f"{english}\t{french}\t1 CM 22 Wittydev\n" for english, french in pairs[:2]]
    assert lzma.decompress((tmp_path / "plain.tsv.xz").read_bytes()).decode() == "".join(expected)
