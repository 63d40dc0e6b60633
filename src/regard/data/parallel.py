"""Parallel text: pairs of sentences that translate each other, read from files that may be broken.

Nothing is mended in silence: bad data is an error with file and line, or is dropped and counted by reason.
"""

import bz2
import gzip
import lzma
import os
import stat
import sys
import unicodedata
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from regard.base import ConfigError, RegardError, free_memory

Place = str | os.PathLike[str]
MAX_LINE = 2**24  # bytes; what is longer is no line of a text, and is not read to its end
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}


class DataError(RegardError):
    """Data is missing, broken or does not fit together."""


class ParallelText(NamedTuple):
    """Sentences and their translations, line by line, and how many pairs were dropped for which reason.

    >>> text = ParallelText(["a cat", "a dog"], ["un chat", "un chien"], {"empty side": 1})
    >>> text.size, text.target[1]
    (2, 'un chien')
    """

    source: list[str]
    target: list[str]
    dropped: dict[str, int]

    @property
    def size(self) -> int:
        """The number of pairs; `len` would count the three fields."""
        return len(self.source)


def read_lines(path: Place) -> Iterator[str]:
    r"""The lines of a UTF-8 file, plain or .gz, .xz, .bz2, one at a time, without newline and byte order mark.

    Only \n and \r\n end a line: other separators, such as U+2028, stand inside sentences of real corpora.
    """
    for number, raw in enumerate(_raw_lines(path), 1):
        try:
            yield _decoded(raw)
        except UnicodeDecodeError as error:
            raise _Bad.encoding(error).error(path, number) from None


def read_parallel(
    source: Place,
    target: Place | None = None,
    *,
    columns: tuple[int, int] = (0, 1),
    on_bad: Literal["error", "drop"] = "error",
    max_characters: int = 100_000,
    min_words: int = 1,
    max_words: int | None = None,
    max_ratio: float | None = None,
) -> ParallelText:
    """Pairs from two files with one sentence per line, or from two `columns` of one tab-separated file.

    Bad data (invalid UTF-8, an empty side, a side of more than `max_characters`, a line with too few columns) is an
    error, or with `on_bad="drop"` is dropped and counted. Files that are missing, empty or of unequal length are always
    an error, for then no line can be trusted. The filters on words (parted by space) and on their ratio, longer side
    over shorter side, always drop and count.
    """
    if on_bad not in ("error", "drop"):
        raise ConfigError("read_parallel on_bad", got=repr(on_bad), expected="'error' or 'drop'")
    if min(columns) < 0:
        raise ConfigError(
            "read_parallel columns",
            got=columns,
            expected="two numbers from 0",
            cure="count columns from the left, from 0",
        )
    if target is None:
        rows: Iterator[list[bytes]] = (line.split(b"\t") for line in _raw_lines(source))
    else:
        rows, columns = _zip_lines(source, target), (0, 1)
    text = ParallelText([], [], {})
    dropped: Counter[str] = Counter()
    room = free_memory()
    for number, row in enumerate(rows, 1):
        pair = _check(row, columns, max_characters)
        if isinstance(pair, _Bad):
            if on_bad == "error":
                raise pair.error(source if pair.side == 0 or target is None else target, number)
            dropped[pair.reason] += 1
        elif reason := _filter(pair, min_words, max_words, max_ratio):
            dropped[reason] += 1
        else:
            text.source.append(pair[0])
            text.target.append(pair[1])
            room -= sys.getsizeof(pair[0]) + sys.getsizeof(pair[1])
            if room < 0:
                what = f"{os.fspath(source)}: there is more text than memory"
                raise DataError(what, got=f"{number:,} lines so far", cure="take a part of it, such as head -n 1000000")
    return text._replace(dropped=dict(sorted(dropped.items())))


def split_by_source(
    pairs: ParallelText, *, valid: float | int, test: float | int, seed: int = 0
) -> dict[str, ParallelText]:
    """Three splits, none of which shares a source sentence with another, whatever its case and spacing.

    `valid` and `test` are numbers of pairs (2000) or shares of them (0.05). A hash of the source sentence decides, so
    the splits do not depend on the order of pairs. Pairs with one source stay together, so a split may be a little
    larger than asked for. With shares, a sentence keeps its split when others are added.

    >>> pairs = ParallelText([f"sentence {i}" for i in range(10)], [f"Satz {i}" for i in range(10)], {})
    >>> {name: split.size for name, split in split_by_source(pairs, valid=2, test=1).items()}
    {'train': 7, 'valid': 2, 'test': 1}
    """
    for name, amount in (("valid", valid), ("test", test)):
        if amount < 0 or (isinstance(amount, float) and amount >= 1):
            raise ConfigError(
                f"split_by_source {name}", got=amount, expected="a share below 1.0, or a whole number of pairs from 0"
            )
    hashes = [_hash(sentence, seed) for sentence in pairs.source]
    ordered = sorted(hashes)
    test_end = _end(ordered, 0, test)
    valid_end = _end(ordered, test_end, valid)
    if valid_end > (ordered[-1] if ordered else 0):
        raise DataError(
            "nothing is left to train on",
            got=f"{pairs.size} pairs, valid={valid}, test={test}",
            expected="fewer pairs in valid and test than there are",
            cure="ask for less, or read more data",
        )
    splits = {name: ParallelText([], [], {}) for name in ("train", "valid", "test")}
    for number, source, target in zip(hashes, pairs.source, pairs.target, strict=True):
        split = splits["test" if number < test_end else "valid" if number < valid_end else "train"]
        split.source.append(source)
        split.target.append(target)
    return splits


class _Bad(NamedTuple):
    """What is wrong with one line, and on which side: 0 source, 1 target."""

    reason: str
    got: object
    expected: str
    cure: str
    side: int = 0

    @classmethod
    def encoding(cls, error: UnicodeDecodeError, side: int = 0) -> "_Bad":
        got = f"byte 0x{error.object[error.start]:02x} at position {error.start}"
        return cls("invalid UTF-8", got, "UTF-8", f"convert the file: {conversion(error.object)}", side)

    def error(self, path: Place, number: int) -> DataError:
        what = f"{os.fspath(path)}, line {number}: {self.reason}"
        return DataError(what, got=self.got, expected=self.expected, cure=self.cure)


def conversion(line: bytes) -> str:
    """A command that makes UTF-8 of a text with such a line.

    >>> conversion("café".encode("latin1")), conversion("café".encode("utf-16"))
    ('iconv -f latin1 -t utf-8', 'iconv -f utf-16 -t utf-8')
    """
    if line.startswith(b"\x1f\x8b"):
        return "gunzip, or give its name the ending .gz"
    is_wide = line.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in line
    return f"iconv -f {'utf-16' if is_wide else 'latin1'} -t utf-8"


def _decoded(raw: bytes) -> str:
    """A line as text; UTF-16 of English letters is valid UTF-8 too, with a NUL after each."""
    if b"\0" in raw:
        raise UnicodeDecodeError("utf-8", raw, place := raw.index(b"\0"), place + 1, "NUL")
    return raw.decode()


def _raw_lines(path: Place) -> Iterator[bytes]:
    """Lines as bytes. A file that cannot be read, is empty or breaks off is our error, with its name."""
    name, suffix, number = os.fspath(path), Path(path).suffix.lower(), 0
    try:
        _check_kind(path)
        file: IO[bytes] = OPENERS.get(suffix, open)(path, "rb")
    except (OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        got = (getattr(error, "strerror", None) or str(error)).lower()
        cure = "check the path, or download the data"
        raise DataError(f"{name}: cannot be read", got=got, expected="a file", cure=cure) from error
    with file:
        try:
            while line := file.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    raise _too_long(name, number)
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                yield line.removesuffix(b"\n").removesuffix(b"\r")
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            got, cure = str(error).lower(), "delete it and download it again"
            what = f"{name}, after line {number}: the file breaks off"
            raise DataError(what, got=got, expected=f"a whole {suffix} file", cure=cure) from error
    if number == 0:
        raise DataError(f"{name}: the file is empty", got="0 lines", expected="1 or more", cure="download it again")


def _check_kind(path: Place) -> None:
    """A file, a pipe and a terminal can be read; other devices, such as /dev/zero, have no end."""
    mode = os.stat(path).st_mode
    if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not _is_terminal(path)):
        cure = "name a file, or a pipe such as <(zcat text.gz)"
        raise DataError(f"{os.fspath(path)}: cannot be read", got="a device", expected="a file", cure=cure)


def _is_terminal(path: Place) -> bool:
    with open(path, "rb") as file:
        return file.isatty()


def _too_long(name: str, number: int) -> DataError:
    what, got = f"{name}, line {number}: the line does not end", f"more than {MAX_LINE:,} bytes"
    return DataError(what, got=got, expected="one sentence a line", cure="look whether this is a text")


def _zip_lines(source: Place, target: Place) -> Iterator[list[bytes]]:
    left, right = _raw_lines(source), _raw_lines(target)
    for number, (first, second) in enumerate(zip_longest(left, right)):
        if first is None or second is None:
            longer = number + 1 + sum(1 for _ in (left if second is None else right))
            counts = (longer, number) if second is None else (number, longer)
            raise DataError(
                f"{os.fspath(source)} and {os.fspath(target)}: unequal line counts",
                got=f"{counts[0]} and {counts[1]} lines",
                expected="line i of one to be the translation of line i of the other",
                cure="download both again, or look for a missing line or a blank one at the end",
            )
        yield [first, second]


def _check(row: list[bytes], columns: tuple[int, int], max_characters: int) -> tuple[str, str] | _Bad:
    """The pair as text, or what is wrong with it."""
    if len(row) <= max(columns):
        got = f"{len(row)} column{'s' * (len(row) != 1)}"
        return _Bad("too few columns", got, f"{max(columns) + 1} or more, parted by tabs", "drop it: on_bad='drop'")
    sides: list[str] = []
    for side, column in enumerate(columns):
        try:
            text = _decoded(row[column]).strip()
        except UnicodeDecodeError as error:
            return _Bad.encoding(error, side)
        name = ("source", "target")[side]
        if not text:
            return _Bad("empty side", f"no {name}", "a sentence on both sides", "drop it: on_bad='drop'", side)
        if len(text) > max_characters:
            cure = "drop it: on_bad='drop'; or raise max_characters"
            got = f"{len(text)} in the {name}"
            return _Bad("too many characters", got, f"at most {max_characters}", cure, side)
        sides.append(text)
    return sides[0], sides[1]


def _filter(pair: tuple[str, str], min_words: int, max_words: int | None, max_ratio: float | None) -> str | None:
    """Why a sound pair is not wanted."""
    shorter, longer = sorted(len(text.split()) for text in pair)
    if shorter < min_words:
        return "too few words"
    if max_words is not None and longer > max_words:
        return "too many words"
    if max_ratio is not None and longer > max_ratio * shorter:
        return "unlike lengths"
    return None


def _hash(sentence: str, seed: int) -> int:
    key = unicodedata.normalize("NFC", " ".join(sentence.split()).casefold())
    return int.from_bytes(blake2b(key.encode(), digest_size=8, salt=seed.to_bytes(8, "little", signed=True)).digest())


def _end(ordered: list[int], start: int, amount: float | int) -> int:
    """The hash below which a split ends that starts at hash `start`."""
    if isinstance(amount, float):
        return start + int(amount * 2**64)
    first = bisect_left(ordered, start)
    if amount == 0:
        return start
    return ordered[int(first + amount) - 1] + 1 if first + amount <= len(ordered) else 2**64
