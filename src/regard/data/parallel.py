"""Parallel text: pairs of sentences that translate each other, read from files that may be broken.

Nothing is mended in silence: bad data is an error with file and line, or is dropped and counted by reason.
"""

import bz2
import gzip
import importlib
import io
import lzma
import os
import stat
import sys
import unicodedata
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from hashlib import blake2b
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, NamedTuple

from regard.base import ConfigError, RegardError, free_memory

Place = str | os.PathLike[str]
Seen = Callable[[memoryview], object]  # is called with the bytes of a file, packed as they are, while it is read
MAX_LINE = 2**24  # bytes; what is longer is no line of a text, and is not read to its end


class DataError(RegardError):
    """Data is missing, broken or does not fit together."""


def _open_zst(file: io.BufferedReader, mode: str) -> Any:
    """Zstandard is in the standard library from Python 3.14 on."""
    try:
        zstd = importlib.import_module("compression.zstd")
    except ImportError as error:
        here, cure = f"Python {sys.version_info[0]}.{sys.version_info[1]}", "zstd -d, or pack it by gzip or xz"
        raise DataError("a .zst file cannot be unpacked", got=here, expected="Python 3.14", cure=cure) from error
    return zstd.open(file, mode)


OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open, ".zst": _open_zst}


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
    r"""The lines of a UTF-8 file, plain or .gz, .xz, .bz2, .zst, one at a time, without newline and byte order mark.

    Only \n and \r\n end a line: other separators, such as U+2028, stand inside sentences of real corpora.
    """
    for number, raw in enumerate(_raw_lines(path), 1):
        try:
            yield _decoded(raw)
        except UnicodeDecodeError as error:
            raise _Bad.encoding(error).error(path, number) from None


def read_parallel(
    source: Place | Sequence[Place],
    target: Place | Sequence[Place] | None = None,
    *,
    columns: tuple[int, int] = (0, 1),
    on_bad: Literal["error", "drop"] = "error",
    max_characters: int = 100_000,
    min_words: int = 1,
    max_words: int | None = None,
    max_ratio: float | None = None,
) -> ParallelText:
    """Pairs from two files with one sentence per line, or from two `columns` of one tab-separated file.

    Each side may be several files, which are read one after the other; file i of one goes with file i of the other.

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
    sources, targets = _listed(source), None if target is None else _listed(target)
    text = ParallelText([], [], {})
    dropped: Counter[str] = Counter()
    room = free_memory()
    pairs = stream_parallel(
        sources, targets, dropped=dropped, columns=columns, on_bad=on_bad, max_characters=max_characters
    )
    for number, pair in enumerate(pairs, 1):
        if reason := _filter(pair, min_words, max_words, max_ratio):
            dropped[reason] += 1
            continue
        text.source.append(pair[0])
        text.target.append(pair[1])
        room -= sys.getsizeof(pair[0]) + sys.getsizeof(pair[1])
        if room < 0:
            what, cure = f"{os.fspath(sources[0])}: there is more text than memory", "set task.reading=shards"
            raise DataError(what, got=f"{number:,} pairs so far", cure=f"{cure}, or take a part of it")
    return text._replace(dropped=dict(sorted(dropped.items())))


def stream_parallel(
    sources: Sequence[Place],
    targets: Sequence[Place] | None,
    *,
    dropped: Counter[str],
    columns: tuple[int, int] = (0, 1),
    on_bad: Literal["error", "drop"] = "error",
    max_characters: int = 100_000,
    seen: Callable[[int, int], Seen] | None = None,
) -> Iterator[tuple[str, str]]:
    """The pairs of `read_parallel`, one at a time, from files one after the other; what is bad is counted in `dropped`.

    `seen(side, number)` gives what is called with the bytes of that file while they are read: side 0 is the source.
    """
    for place, source in enumerate(sources):
        target = None if targets is None else targets[place]
        watched = [None if seen is None else seen(side, place) for side in range(1 if target is None else 2)]
        if target is None:
            rows: Iterator[list[bytes]] = (line.split(b"\t") for line in _raw_lines(source, watched[0]))
        else:
            rows, columns = _zip_lines(source, target, *watched), (0, 1)
        for number, row in enumerate(rows, 1):
            pair = _check(row, columns, max_characters)
            if not isinstance(pair, _Bad):
                yield pair
            elif on_bad == "error":
                raise pair.error(source if pair.side == 0 or target is None else target, number)
            else:
                dropped[pair.reason] += 1


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
    hashes = [source_hash(sentence, seed) for sentence in pairs.source]
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


def _listed(place: Place | Sequence[Place]) -> Sequence[Place]:
    return [place] if isinstance(place, str | os.PathLike) else place


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


def _raw_lines(path: Place, seen: Seen | None = None) -> Iterator[bytes]:
    """Lines as bytes. A file that cannot be read, is empty or breaks off is our error, with its name."""
    name, suffix, number = os.fspath(path), Path(path).suffix.lower(), 0
    try:
        _check_kind(path)
        raw = open(path, "rb") if seen is None else io.BufferedReader(_Watched(path, seen), 2**20)  # noqa: SIM115
    except (OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        got = (getattr(error, "strerror", None) or str(error)).lower()
        cure = "check the path, or download the data"
        raise DataError(f"{name}: cannot be read", got=got, expected="a file", cure=cure) from error
    with raw, _unpacked(raw, suffix) as file:
        try:
            while line := file.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    raise _too_long(name, number)
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                yield line.removesuffix(b"\n").removesuffix(b"\r")
            while seen is not None and raw.read(2**20):  # what stands after the end of an archive
                pass
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            got, cure = str(error).lower(), "delete it and download it again"
            what = f"{name}, after line {number}: the file breaks off"
            raise DataError(what, got=got, expected=f"a whole {suffix} file", cure=cure) from error
    if number == 0:
        raise DataError(f"{name}: the file is empty", got="0 lines", expected="1 or more", cure="download it again")


def _unpacked(raw: Any, suffix: str) -> Any:
    """What a packed file holds, in a buffer whose lines are found without Python; a plain file as it is."""
    return io.BufferedReader(OPENERS[suffix](raw, "rb"), 2**17) if suffix in OPENERS else nullcontext(raw)


class _Watched(io.FileIO):
    """A file whose bytes somebody sees while it is read."""

    def __init__(self, path: Place, seen: Seen) -> None:
        super().__init__(path, "rb")
        self.seen = seen

    def readinto(self, buffer: Any) -> int | None:
        size = super().readinto(buffer)
        if size:
            self.seen(memoryview(buffer)[:size])
        return size


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


def _zip_lines(
    source: Place, target: Place, see_source: Seen | None = None, see_target: Seen | None = None
) -> Iterator[list[bytes]]:
    left, right = _raw_lines(source, see_source), _raw_lines(target, see_target)
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


def source_hash(sentence: str, seed: int) -> int:
    """The number that says to which split a source sentence belongs; case and spacing do not matter.

    >>> source_hash("A  Cat", 0) == source_hash("a cat", 0)
    True
    """
    key = " ".join(sentence.split()).casefold()
    if not key.isascii():  # ASCII is in normal form
        key = unicodedata.normalize("NFC", key)
    hashed = blake2b(key.encode(), digest_size=8, salt=seed.to_bytes(8, "little", signed=True))
    return int.from_bytes(hashed.digest())


def _end(ordered: list[int], start: int, amount: float | int) -> int:
    """The hash below which a split ends that starts at hash `start`."""
    if isinstance(amount, float):
        return start + int(amount * 2**64)
    first = bisect_left(ordered, start)
    if amount == 0:
        return start
    return ordered[int(first + amount) - 1] + 1 if first + amount <= len(ordered) else 2**64
