"""Word vectors in three formats: the same numbers from each, and clear words about files that are something else."""

import gzip
import lzma
import struct
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from regard.data import DataError, read_word_vectors, vectors_of_pieces, vectors_of_words

WORDS = ["the", "Cat", "cat", "naïve", ". . .", "dog"]
MATRIX = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)


def glove(words=WORDS, matrix=MATRIX) -> bytes:
    lines = (f"{word} {' '.join(repr(float(x)) for x in row)}" for word, row in zip(words, matrix, strict=True))
    return ("\n".join(lines) + "\n").encode()


def binary(newline: bytes = b"", words=WORDS) -> bytes:
    each = (word.encode() + b" " + struct.pack("<5f", *row) + newline for word, row in zip(words, MATRIX, strict=True))
    return f"{len(words)} 5\n".encode() + b"".join(each)


NO_SPACES = [word.replace(" ", "_") for word in WORDS]
FORMATS = {
    "a.txt": glove(),
    "a.txt.gz": gzip.compress(glove()),
    "a.txt.xz": lzma.compress(glove()),
    "word2vec.txt": b"6 5\n" + glove(NO_SPACES),
    "word2vec.bin": binary(words=NO_SPACES),
    "newline.bin": binary(b"\n", NO_SPACES),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_vectors(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(FORMATS[name])
    vectors = read_word_vectors(tmp_path / name)
    assert list(vectors.rows) == (WORDS if name.startswith("a.") else NO_SPACES)
    assert np.array_equal(vectors.matrix, MATRIX)
    assert vectors.width == 5
    few = read_word_vectors(tmp_path / name, ["DOG", "Cat", "unheard"])
    assert list(few.rows) == ["Cat", "cat", "dog"], "as written, and in small letters"
    assert np.array_equal(few.matrix, MATRIX[[1, 2, 5]])


def test_many_words_in_binary_form(tmp_path: Path) -> None:
    count, width = 3000, 100
    matrix = np.random.default_rng(1).normal(size=(count, width)).astype("<f4")
    content = f"{count} {width}\n".encode() + b"".join(b"w%d " % n + matrix[n].tobytes() for n in range(count))
    (tmp_path / "a.bin").write_bytes(content)  # more than is read at once
    vectors = read_word_vectors(tmp_path / "a.bin")
    assert list(vectors.rows) == [f"w{n}" for n in range(count)]
    assert np.array_equal(vectors.matrix, matrix)


def test_of_a_word_that_comes_twice_the_first_counts(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"a 1 2\nb 3 4\na 5 6\n")
    assert read_word_vectors(tmp_path / "a.txt").matrix.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"the file is empty"),
        (b"once upon a time\nthere was\n", r"line 1: this is not a word vector: got 'upon'; expected a word and 3"),
        (b"word\n", r"line 1: this is not a word vector: got 0 numbers: 'word\\n'"),
        (b"a 1 2\nb 1\n", r"line 2: this is not a word vector: got 1 numbers: 'b 1\\n'; expected a word and 2 numbers"),
        (b"a 1 2\nb 1 x\n", r"line 2: this is not a word vector: got 'x'"),
        (b"a 1 2\nb 1 2\nc 1 nan\n", r"a vector is not finite: got that of 'c'"),
        (b"0 5\n", r"line 1: this is not the head of word vectors: got 0 words of 5 numbers"),
        (b"5 99999999\n", r"line 1: this is not the head of word vectors: got 5 words of 99999999 numbers"),
        (b"999999999999 5\nabc ", r"the file breaks off: got the end of the file in word 1"),
        (binary()[:-3], r"the file breaks off: got the end of the file in word 6; expected 6 words of 5 numbers"),
        (b"7 5\n" + binary(words=NO_SPACES)[4:], r"the file breaks off: got the end of the file in word 7"),
        (b"2 3\n" + b"\xff" * 20_000, r"the file breaks off: got no word 1"),
        (b"\xff\xd8\xff\xe0" * 100_000, r"this is not a word vector"),
    ],
)  # fmt: skip
def test_files_of_something_else(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_word_vectors(tmp_path / "a.bin")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.txt: cannot be read: got no such file"):
        read_word_vectors(tmp_path / "none.txt")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(glove() * 1000)[:500])
    with pytest.raises(DataError, match="the file breaks off"):
        read_word_vectors(tmp_path / "a.txt.gz")


def test_vectors_of_a_vocabulary(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(FORMATS["a.txt"])
    tokens = ["<pad>", "<bos>", "<eos>", "<unk>", "cat", "DOG", "unheard"]
    matrix, known, coverage = vectors_of_words(tokens, read_word_vectors(tmp_path / "a.txt", tokens))
    assert known.tolist() == [False] * 4 + [True, True, False]
    assert np.array_equal(matrix[4:6], MATRIX[[2, 5]])
    assert not matrix[~known].any()
    assert coverage == (3, 2)
    assert coverage.share == 2 / 3


def test_pieces_have_the_mean_of_their_words(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"cat 1 0\ncats 0 1\ndogs 4 4\nho 9 9\n")
    split = {"cat": ["▁cat"], "cats": ["▁cat", "s"], "dogs": ["▁do", "g", "s"], "odd": ["▁o", "dd"]}
    pieces = ["<pad>", "▁cat", "s", "▁do", "g", "dd", "ho"]
    counts = Counter({"cat": 1, "cats": 3, "dogs": 1, "odd": 9})
    matrix, known, coverage = vectors_of_pieces(
        pieces, read_word_vectors(tmp_path / "a.txt"), counts, split.__getitem__
    )
    assert matrix[1].tolist() == [1, 0], "a whole word has its own vector"
    assert matrix[2].tolist() == [1.0, 1.75], "(3 · cats + 1 · dogs) / 4"
    assert matrix[3].tolist() == matrix[4].tolist() == [4, 4]
    assert known.tolist() == [False, True, True, True, True, False, False], "ho without ▁ is not the word ho"
    assert coverage == (6, 4)
