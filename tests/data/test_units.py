"""Units of a running text: numbers and back, exactly; files and cuts with errors that help."""

import gzip
import random
from pathlib import Path

import pytest

from regard.base import RegardError
from regard.data import EOS, PAD, UNK, TextUnits, cut_text, read_text

TEXT = "the cat sat .\n\nthe dog sat on the mat .\n"


@pytest.mark.parametrize("kind", ["spaced", "characters"])
def test_a_text_comes_back(kind: str) -> None:
    units = TextUnits.train(TEXT, kind=kind)
    assert units.decode(units.stream(TEXT)) == TEXT
    assert units.decode([PAD, *units.stream(TEXT).tolist()]) == TEXT
    assert units.decode(units.stream(TEXT[:-3])) == TEXT[:-3].rstrip()  # cut inside of a line


def test_words_are_split_and_joined() -> None:
    units = TextUnits.train("Hello, world!\n", kind="words", lower=True)
    assert units.tokens("Hello, world!") == ["hello", ",", "world", "!"]
    assert units.decode(units.stream("Hello, world!\n")) == "hello, world!\n"


def test_every_line_end_is_a_token() -> None:
    units = TextUnits.train(TEXT, kind="spaced")
    numbers = units.stream(TEXT).tolist()
    assert numbers.count(EOS) == TEXT.count("\n")
    assert len(numbers) == len(TEXT.split()) + TEXT.count("\n")
    assert [len(sentence) for sentence in units.sentences(TEXT)] == [4, 0, 7]
    assert len(units.stream(TEXT[:-1])) == len(numbers) - 1


def test_characters_count_as_characters() -> None:
    units = TextUnits.train(TEXT, kind="characters")
    assert len(units.stream(TEXT)) == len(TEXT)
    assert units.labels(units.stream("a t\n")) == ["a", "␣", "t", "<eos>"]


def test_rare_and_special_units_are_unknown() -> None:
    units = TextUnits.train("a a b <unk> <eos>\n", kind="spaced", min_count=2)
    assert units.stream("a b <unk> <eos> <pad>\n").tolist() == [4, UNK, UNK, UNK, UNK, EOS]
    assert len(TextUnits.train(TEXT, kind="spaced", max_size=6)) == 6


def test_json() -> None:
    units = TextUnits.train(TEXT, kind="characters", lower=True)
    assert TextUnits.from_json(units.to_json()) == units
    for text in (
        "",
        "{}",
        '{"kind": "text units", "units": "bytes", "lower": true, "tokens": []}',
        units.to_json()[:-9],
    ):
        with pytest.raises(RegardError, match=r"this is not what TextUnits\.to_json wrote"):
            TextUnits.from_json(text)


def test_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\r\ntwo")
    assert read_text(tmp_path / "a.txt") == "one\ntwo\n"
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"one\ntwo\n"))
    assert read_text(tmp_path / "a.gz") == "one\ntwo\n"
    (tmp_path / "white.txt").write_text(" \n\n")
    with pytest.raises(RegardError, match=r"white\.txt: there is no text"):
        read_text(tmp_path / "white.txt")
    (tmp_path / "bad.txt").write_bytes(b"ok\n\xff\xfe\n")
    with pytest.raises(RegardError, match=r"bad\.txt"):
        read_text(tmp_path / "bad.txt")
    with pytest.raises(RegardError, match=r"none\.txt"):
        read_text(tmp_path / "none.txt")


def test_cuts_lose_nothing() -> None:
    chance = random.Random(3)
    for _ in range(200):
        text = "".join(chance.choice("ab \n") for _ in range(chance.randrange(60, 400))) + "x\n"
        splits = cut_text(text, held_out=0.25)
        assert "".join(splits.values()) == text
        assert all(splits.values())
    lines = "".join(f"line {number}\n" for number in range(100))
    assert all(split.startswith("line") and split.endswith("\n") for split in cut_text(lines).values())
    assert [len(split) for split in cut_text("x" * 100).values()] == [90, 5, 5]  # one long line


@pytest.mark.parametrize("text", ["", "a", "ab\n"])
def test_a_text_that_is_too_short(text: str) -> None:
    with pytest.raises(RegardError, match="the text is too short"):
        cut_text(text)
