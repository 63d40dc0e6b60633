"""One pass over a corpus of any size, in memory that does not grow: what must be known before its pairs are used.

A scan counts pairs and lines, takes a checksum of every file, holds sentences out for validation and test as
`split_by_source` does, and draws a sample of the other pairs, from which the units can be learnt.
"""

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Literal

from regard.base import RegardError, read_json, write_atomically
from regard.data.parallel import DataError, ParallelText, Place, Seen, source_hash, stream_parallel

FACTS = "scan.json"
COPIES = 64  # pairs with one held-out source sentence that are kept; further ones are left out of all splits
CURE = "delete its folder: it is made again"
Told = Callable[[int, int], None]  # bytes that have been read, of how many


@dataclass(frozen=True)
class FileFacts:
    """What a file of a corpus is, so that another one in its place is noticed."""

    name: str
    size: int  # bytes, packed as they are
    checksum: str  # of these bytes


@dataclass(frozen=True)
class Scan:
    """What one pass has found; `texts` of a folder are held-out pairs and the sample."""

    files: tuple[FileFacts, ...]  # of the source, then of the target
    pairs: int  # in all splits together
    held_out: int  # of them, that are no training pairs
    test_end: int  # source sentences with a hash below this are of the test set
    valid_end: int  # those up to this are of the validation set; the others are for training
    seed: int
    dropped: dict[str, int]

    @property
    def training_pairs(self) -> int:
        """How many pairs there are to train on."""
        return self.pairs - self.held_out

    def is_for_training(self, source: str) -> bool:
        """Whether a source sentence belongs to no held-out split."""
        return source_hash(source, self.seed) >= self.valid_end


def scan_corpus(
    sources: Sequence[Place],
    targets: Sequence[Place] | None,
    *,
    held_out: Callable[[int], int],
    most_held_out: int,
    sample: int,
    on_bad: Literal["error", "drop"] = "error",
    seed: int = 0,
    told: Told | None = None,
) -> tuple[Scan, dict[str, ParallelText]]:
    """What a corpus is, and its texts "sample", "valid" and "test".

    `held_out` gives from the number of pairs how many are for validation, and for the test; `most_held_out` is the
    most that it ever gives. The splits are those of `split_by_source`. The sample is drawn from all pairs alike, and
    those that are held out are then taken out of it.
    """
    watch, dropped = _Watch(sources, targets, told), Counter[str]()
    lowest, reservoir = _Lowest(2 * most_held_out), _Reservoir(sample, seed)
    highest = pairs = 0
    for source, target in stream_parallel(sources, targets, dropped=dropped, on_bad=on_bad, seen=watch.seen):
        number = source_hash(source, seed)
        highest = max(highest, number)
        lowest.add(number, pairs, source, target)
        reservoir.add(number, source, target)
        pairs += 1
    share = held_out(pairs)
    test_end = lowest.end(share)
    valid_end = lowest.end(lowest.count(test_end) + share)
    if pairs == 0 or valid_end > highest:
        raise DataError(
            "nothing is left to train on",
            got=f"{pairs:,} pairs, of which {share:,} are for validation and {share:,} for the test",
            expected="more pairs than are held out",
            cure="read more data",
        )
    texts = {
        "sample": reservoir.text(valid_end),
        "valid": lowest.text(test_end, valid_end),
        "test": lowest.text(0, test_end),
    }
    held = lowest.count(valid_end)
    facts = watch.facts()
    return Scan(facts, pairs, held, test_end, valid_end, seed, dict(sorted(dropped.items()))), texts


def save_scan(folder: Path, scan: Scan, texts: dict[str, ParallelText]) -> None:
    """Writes a scan into a folder, its facts last."""
    for name, text in texts.items():
        for side, lines in (("source", text.source), ("target", text.target)):
            write_atomically(folder / f"{name}.{side}", "".join(f"{line}\n" for line in lines))
    write_atomically(folder / FACTS, json.dumps(asdict(scan), indent=1))


def load_scan(folder: Path) -> Scan:
    """What `save_scan` wrote."""
    stored = read_json(folder / FACTS, cure=CURE)
    try:
        files = tuple(FileFacts(**facts) for facts in stored.pop("files"))
        return Scan(files=files, **stored)
    except (KeyError, TypeError, AttributeError) as error:
        raise RegardError(f"{folder / FACTS} cannot be read", got=str(error), cure=CURE) from error


def load_text(folder: Path, name: str) -> ParallelText:
    """A text of a scan: "sample", "valid" or "test"."""
    try:
        sides = [(folder / f"{name}.{side}").read_bytes().decode() for side in ("source", "target")]
    except (OSError, ValueError) as error:
        raise RegardError(f"{folder / name} cannot be read", got=str(error), cure=CURE) from error
    source, target = (side.split("\n")[:-1] for side in sides)
    if len(source) != len(target):
        raise RegardError(f"{folder / name} is damaged", got=f"{len(source)} and {len(target)} lines", cure=CURE)
    return ParallelText(source, target, {})


def check_same_files(stored: Sequence[FileFacts], now: Sequence[FileFacts]) -> None:
    """An error that names the file, where a corpus is not the one that a run began with."""
    cure = "bring the files back that the run began with, or train anew in another folder"
    if len(stored) != len(now):
        what = "the corpus has changed since the run began"
        raise DataError(what, got=f"{len(now)} files", expected=f"{len(stored)} files", cure=cure)
    for before, here in zip(stored, now, strict=True):
        if (before.size, before.checksum) != (here.size, here.checksum):
            got, expected = (f"{each.size:,} bytes, checksum {each.checksum}" for each in (here, before))
            raise DataError(f"{here.name} has changed since the run began", got=got, expected=expected, cure=cure)


class _Watch:
    """Sizes and checksums of files, taken while they are read."""

    def __init__(self, sources: Sequence[Place], targets: Sequence[Place] | None, told: Told | None) -> None:
        self.sides = [list(sources), list(targets or [])]
        self.hashes = [[blake2b(digest_size=16) for _ in side] for side in self.sides]
        self.sizes = [[0 for _ in side] for side in self.sides]
        self.told, self.done = told, 0
        self.total = sum(os.path.getsize(path) for side in self.sides for path in side if os.path.exists(path))

    def seen(self, side: int, number: int) -> Seen:
        """What is called with the bytes of a file."""
        hashed = self.hashes[side][number]

        def take(data: memoryview) -> None:
            hashed.update(data)
            self.sizes[side][number] += len(data)
            self.done += len(data)
            if self.told is not None:
                self.told(min(self.done, self.total), self.total)

        return take

    def facts(self) -> tuple[FileFacts, ...]:
        """Name, size and checksum of every file, those of the source first; all of them must have been read."""
        return tuple(
            FileFacts(os.path.basename(os.fspath(path)), size, hashed.hexdigest())
            for paths, sizes, hashes in zip(self.sides, self.sizes, self.hashes, strict=True)
            for path, size, hashed in zip(paths, sizes, hashes, strict=True)
        )


class _Lowest:
    """The pairs whose sources have the lowest hashes: those of `size` hashes at least, however many go by."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.limit = 2**64  # pairs with a higher hash are not among them
        self.counts: dict[int, int] = {}  # by hash
        self.kept: dict[int, list[tuple[int, str, str]]] = {}

    def add(self, number: int, place: int, source: str, target: str) -> None:
        """Counts a pair, and keeps it while its hash is among the lowest; `place` is its number in the corpus."""
        if number > self.limit:
            return
        self.counts[number] = self.counts.get(number, 0) + 1
        copies = self.kept.setdefault(number, [])
        if len(copies) < COPIES:
            copies.append((place, source, target))
        if len(self.counts) > 2 * self.size:
            self._forget()

    def end(self, pairs: int) -> int:
        """The hash below which there are so many pairs; 2⁶⁴ where there are fewer pairs."""
        total = 0
        for number in sorted(self.counts):
            total += self.counts[number]
            if total >= pairs:
                return number + 1
        return 2**64

    def count(self, end: int) -> int:
        """How many pairs have hashes below this."""
        return sum(count for number, count in self.counts.items() if number < end)

    def text(self, start: int, end: int) -> ParallelText:
        """The pairs with hashes from `start` to below `end`, in the order of the corpus."""
        rows = sorted(row for number, copies in self.kept.items() if start <= number < end for row in copies)
        return ParallelText([row[1] for row in rows], [row[2] for row in rows], {})

    def _forget(self) -> None:
        self.limit = sorted(self.counts)[self.size - 1]
        for number in [number for number in self.counts if number > self.limit]:
            del self.counts[number], self.kept[number]


class _Reservoir:
    """A sample of what goes by, each with the same chance (Li 1994, algorithm L: most pairs cost one comparison)."""

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.random = size, Random(f"sample {seed}")
        self.kept: list[tuple[int, str, str]] = []
        self.here, self.next, self.chance = 0, size, 1.0

    def add(self, number: int, source: str, target: str) -> None:
        """Takes a pair into the sample, or not; every pair that goes by has the same chance."""
        if len(self.kept) < self.size:
            self.kept.append((number, source, target))
            if len(self.kept) == self.size:
                self.next = self.here + self._skipped()
        elif self.here == self.next:
            self.kept[self.random.randrange(self.size)] = (number, source, target)
            self.next = self.here + self._skipped()
        self.here += 1

    def text(self, start: int) -> ParallelText:
        """The sample, without pairs whose hash is below `start`."""
        rows = [row for row in self.kept if row[0] >= start]
        return ParallelText([row[1] for row in rows], [row[2] for row in rows], {})

    def _skipped(self) -> int:
        """How far it is to the next pair that is taken."""
        self.chance *= math.exp(math.log(1.0 - self.random.random()) / self.size)
        return 1 + math.floor(math.log(1.0 - self.random.random()) / math.log1p(-min(self.chance, 1 - 1e-16)))


def training_pairs(
    scan: Scan,
    sources: Sequence[Place],
    targets: Sequence[Place] | None,
    *,
    on_bad: Literal["error", "drop"] = "error",
    told: Told | None = None,
) -> Iterator[tuple[str, str]]:
    """The pairs of a corpus that are for training, in its order; the files must be those that were scanned."""
    watch = _Watch(sources, targets, told)
    for source, target in stream_parallel(sources, targets, dropped=Counter(), on_bad=on_bad, seen=watch.seen):
        if scan.is_for_training(source):
            yield source, target
    check_same_files(scan.files, watch.facts())
