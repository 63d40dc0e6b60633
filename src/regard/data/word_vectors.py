"""Word vectors that others have trained: GloVe's text, word2vec's text and word2vec's binary format.

- GloVe: `word v₁ … v_d` in each line.
- word2vec, text: the same below a line `count d`.
- word2vec, binary: a line `count d`, then for each word its letters, a space and d numbers of 32 bits.

The format is told by the content. Files may be packed (.gz, .xz, .bz2). Only words that are asked for are kept.
"""

import lzma
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from regard.data.parallel import OPENERS, DataError, Place
from regard.data.text import SPECIALS

MAX_WIDTH = 10_000  # numbers of a vector
_MAX_WORD = 10_000  # bytes of a word
_MAX_LINE = 2**18  # bytes of a line: 10,000 numbers of 20 letters, and a word
_HEADER = re.compile(rb"\s*(\d{1,12})\s+(\d{1,12})\s*")
OpenFile = Any  # of bytes, plain or packed: what `open`, `gzip.open` and `lzma.open` give has no type in common
_BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError)


class WordVectors(NamedTuple):
    """Vectors [n d] of n words, and where each word's is."""

    rows: dict[str, int]
    matrix: Float[ndarray, "n d"]

    @property
    def width(self) -> int:
        """How many numbers a vector has."""
        return int(self.matrix.shape[1])

    def row(self, word: str) -> int | None:
        """Where the vector of a word is: as it is written, else in small letters."""
        return self.rows.get(word, self.rows.get(word.lower()))


class Coverage(NamedTuple):
    """How much of a vocabulary has vectors."""

    words: int  # of the vocabulary, without <pad> and the other specials
    covered: int  # of them with a vector

    @property
    def share(self) -> float:
        """The part of the words that has a vector, from 0 to 1."""
        return self.covered / self.words if self.words else 0.0


def read_word_vectors(path: Place, words: Collection[str] | None = None) -> WordVectors:
    """The vectors of these words, or of all; of a word that comes twice the first one.

    A file that is something else, breaks off, or holds lines of unequal width is an error that says where.
    """
    wanted = None if words is None else {form for word in words for form in (word, word.lower())}
    keep = _Kept(wanted)
    try:
        file: OpenFile = OPENERS.get(Path(path).suffix.lower(), open)(path, "rb")
    except (OSError, ValueError) as error:
        got = (getattr(error, "strerror", None) or str(error)).lower()
        raise DataError(f"{os.fspath(path)}: cannot be read", got=got, expected="a file of word vectors") from error
    with closing(file):
        try:
            first = file.readline(_MAX_LINE)
            header = _HEADER.fullmatch(first)
            if header is None:
                _read_lines(path, file, keep, first)
            else:
                _read_word2vec(path, file, keep, int(header[1]), int(header[2]))
        except _BROKEN as error:
            if isinstance(error, DataError):
                raise
            got, cure = str(error).lower(), "download it again"
            raise DataError(f"{os.fspath(path)}: the file breaks off", got=got, cure=cure) from error
    return keep.vectors(path)


def vectors_of_words(
    tokens: Sequence[str], vectors: WordVectors
) -> tuple[Float[ndarray, "v d"], Bool[ndarray, " v"], Coverage]:
    """For each token of a vocabulary its vector, zero where there is none; which tokens have one; and how many."""
    matrix, known = np.zeros((len(tokens), vectors.width), dtype=np.float32), np.zeros(len(tokens), dtype=bool)
    for number, token in enumerate(tokens):
        row = None if token in SPECIALS else vectors.row(token)
        if row is not None:
            matrix[number], known[number] = vectors.matrix[row], True
    return matrix, known, Coverage(sum(token not in SPECIALS for token in tokens), int(known.sum()))


def vectors_of_pieces(
    pieces: Sequence[str],
    vectors: WordVectors,
    counts: Counter[str],
    split: Callable[[str], Sequence[str]],
) -> tuple[Float[ndarray, "v d"], Bool[ndarray, " v"], Coverage]:
    """The same for sub-words: a piece that is a whole word (▁cat) has the vector of that word.

    Any other piece has the mean vector of the words of the text that it is a part of, each as often as it occurs:
    `counts` are the words of the text, and `split` gives the pieces of a word.
    """
    matrix, known, _ = vectors_of_words([piece.removeprefix("▁") for piece in pieces], vectors)
    known &= np.array([piece.startswith("▁") for piece in pieces], dtype=bool)
    matrix[~known] = 0.0
    numbers = {piece: number for number, piece in enumerate(pieces)}
    sums, weights = np.zeros(matrix.shape), np.zeros(len(pieces))
    for word, count in counts.items():
        row = vectors.row(word)
        for piece in split(word) if row is not None else ():
            number = numbers.get(piece)
            if number is not None and not known[number]:
                sums[number] += count * vectors.matrix[row]
                weights[number] += count
    averaged = weights > 0
    matrix[averaged] = (sums[averaged] / weights[averaged, None]).astype(np.float32)
    return matrix, known | averaged, Coverage(sum(p not in SPECIALS for p in pieces), int((known | averaged).sum()))


class _Kept:
    """The words that are wanted, with their vectors, as they are read."""

    def __init__(self, wanted: Collection[str] | None) -> None:
        self.wanted, self.width = wanted, 0
        self.rows: dict[str, int] = {}
        self.vectors_read: list[ndarray] = []

    def wants(self, word: str) -> bool:
        return word not in self.rows and (self.wanted is None or word in self.wanted)

    def add(self, word: str, vector: ndarray) -> None:
        self.rows[word] = len(self.vectors_read)
        self.vectors_read.append(vector)

    def vectors(self, path: Place) -> WordVectors:
        matrix = np.array(self.vectors_read, dtype=np.float32).reshape(len(self.vectors_read), self.width)
        if not np.isfinite(matrix).all():
            worst = next(word for word, row in self.rows.items() if not np.isfinite(matrix[row]).all())
            raise DataError(f"{os.fspath(path)}: a vector is not finite", got=f"that of {worst!r}", expected="numbers")
        return WordVectors(self.rows, matrix)


def _read_lines(path: Place, file: OpenFile, keep: _Kept, first: bytes, *, width: int = 0, number: int = 1) -> None:
    """Lines `word v₁ … v_d`, of which `first` is the first and has this `number`; a word may hold spaces."""
    line = first
    if not line:
        raise DataError(f"{os.fspath(path)}: the file is empty", got="0 bytes", expected="word vectors")
    keep.width = width or len(line.split()) - 1
    while line:
        parts = line.rstrip(b"\r\n ").rsplit(b" ", keep.width)
        if len(parts) != keep.width + 1 or not 1 <= keep.width <= MAX_WIDTH or not parts[0]:
            got = f"{len(line.split()) - 1} numbers: {line[:40].decode(errors='replace')!r}"
            raise _not_vectors(path, number, got, keep.width)
        word = parts[0].decode(errors="replace")
        if number <= 2 or keep.wants(word):  # a file of something else is known by its first lines
            vector = _numbers(path, number, parts[1:])
            if keep.wants(word):
                keep.add(word, vector)
        line, number = file.readline(_MAX_LINE), number + 1


def _numbers(path: Place, number: int, parts: list[bytes]) -> ndarray:
    try:
        return np.array([float(part) for part in parts], dtype=np.float32)
    except ValueError:
        wrong = next(part for part in parts if not _is_number(part))
        raise _not_vectors(path, number, f"{wrong[:40].decode(errors='replace')!r}", len(parts)) from None


def _is_number(part: bytes) -> bool:
    try:
        float(part)
    except ValueError:
        return False
    return True


def _read_word2vec(path: Place, file: OpenFile, keep: _Kept, count: int, width: int) -> None:
    """What stands below a line `count width`: lines, or words with binary numbers."""
    if not 1 <= width <= MAX_WIDTH or count < 1:
        what, got = (
            f"{os.fspath(path)}, line 1: this is not the head of word vectors",
            f"{count} words of {width} numbers",
        )
        raise DataError(what, got=got, expected=f"1 or more words of 1 to {MAX_WIDTH:,} numbers")
    start = file.read(_MAX_WORD + 4 * width + 2)
    line = start.partition(b"\n")[0].split()
    if len(line) == width + 1 and all(map(_is_number, line[1:])):
        joined = _Rejoined(start, file)
        _read_lines(path, joined, keep, joined.readline(_MAX_LINE), width=width, number=2)
    else:
        keep.width = width
        _read_binary(path, file, keep, start, count)


def _read_binary(path: Place, file: OpenFile, keep: _Kept, start: bytes, count: int) -> None:
    """Words with a space and binary numbers behind each; some programs put a newline behind the numbers."""
    buffer, place, size = start, 0, 4 * keep.width
    most = _MAX_WORD + size + 2  # bytes that a word and its numbers may take
    for number in range(1, count + 1):
        if len(buffer) - place < most:
            buffer, place = buffer[place:] + file.read(max(1 << 20, most)), 0
        end = buffer.find(b" ", place, place + _MAX_WORD)
        if end < 0 or len(buffer) < end + 1 + size:
            got = f"the end of the file in word {number:,}" if len(buffer) - place < most else f"no word {number:,}"
            what, cure = f"{os.fspath(path)}: the file breaks off", "download it again"
            raise DataError(what, got=got, expected=f"{count:,} words of {keep.width} numbers", cure=cure)
        word = buffer[place:end].lstrip(b"\n").decode(errors="replace")
        if keep.wants(word):
            keep.add(word, np.frombuffer(buffer, dtype="<f4", count=keep.width, offset=end + 1).copy())
        place = end + 1 + size


class _Rejoined:
    """A file of which the start was read already."""

    def __init__(self, start: bytes, file: OpenFile) -> None:
        self.start, self.file = start, file

    def readline(self, limit: int) -> bytes:
        """The next line."""
        if not self.start:
            following: bytes = self.file.readline(limit)
            return following
        line, newline, self.start = self.start.partition(b"\n")
        rest: bytes = newline or self.file.readline(limit)
        return line + rest


def _not_vectors(path: Place, number: int, got: str, width: int) -> DataError:
    expected = f"a word and {width} numbers" if width else "a word and its numbers, with spaces between them"
    cure = "give a file in the format of GloVe or word2vec"
    return DataError(
        f"{os.fspath(path)}, line {number}: this is not a word vector", got=got, expected=expected, cure=cure
    )


def words_of(lines: Iterable[Sequence[str]]) -> Counter[str]:
    """How often each word occurs in some tokenised lines."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line)
    return counts
