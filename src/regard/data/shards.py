"""Pairs of token numbers on disk: written once, in order, in memory that does not grow; read in blocks, at any place.

A folder of shards has three files. `pairs.bin` holds the blocks one after the other, each of up to 1,024 pairs: the
lengths of all sides (source, target, source, …) as 32-bit numbers, then their tokens, 16 or 32 bits each. `blocks.bin`
says of each block where it starts, how many bytes it has, how many pairs, and their CRC-32. `index.json` has the counts
and a checksum of `blocks.bin`. A folder is there whole, or not at all.
"""

import json
import os
import shutil
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.base import RegardError, part_beside, read_json, sync_folder, wait_for_lock, write_atomically
from regard.data.parallel import DataError

PAIRS, BLOCKS, INDEX = "pairs.bin", "blocks.bin", "index.json"
FORMAT = 1
BLOCK = 1024  # pairs
LENGTH = np.dtype("<u4")
ROW = np.dtype([("start", "<u8"), ("size", "<u4"), ("pairs", "<u4"), ("crc", "<u4")])
CURE = "delete the folder: it is made again"


class StoredPairs(NamedTuple):
    """Some pairs: the lengths of all sides, their tokens end to end, and which pairs of the corpus they are."""

    lengths: NDArray[np.uint32]  # [2n]: source, target, source, …
    ids: NDArray[Any]
    numbers: NDArray[np.int64]  # [n]


class ShardWriter:
    """Writes pairs into a folder that is there, as they come; at most one block of them is in memory.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with ShardWriter(folder, vocabulary=10) as writer:
    ...     for length in (1, 2, 3):
    ...         writer.add([4] * length, [5])
    >>> shards = Shards(folder)
    >>> shards.pairs, shards.read([0]).ids.tolist()
    (3, [4, 5, 4, 4, 5, 4, 4, 4, 5])
    """

    def __init__(
        self, folder: Path, *, vocabulary: int, block: int = BLOCK, facts: Mapping[str, Any] | None = None
    ) -> None:
        self.folder, self.block, self.facts = folder, block, dict(facts or {})
        self.type = np.dtype("<u2" if vocabulary <= 2**16 else "<u4")
        self._lengths, self._ids = array("I"), array("H" if self.type.itemsize == 2 else "I")
        self._rows: list[tuple[int, int, int, int]] = []
        self._table = blake2b(digest_size=16)
        self.pairs = self.blocks = self.bytes = self.source_tokens = self.target_tokens = 0

    def add(self, source: Sequence[int], target: Sequence[int]) -> None:
        """A pair, without <bos> and <eos>."""
        self._lengths.append(len(source))
        self._lengths.append(len(target))
        self._ids.extend(source)
        self._ids.extend(target)
        self.source_tokens += len(source)
        self.target_tokens += len(target)
        if len(self._lengths) == 2 * self.block:
            self._write_block()

    def __enter__(self) -> "ShardWriter":
        self._pairs_file = open(self.folder / PAIRS, "xb")
        self._blocks_file = open(self.folder / BLOCKS, "xb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._pairs_file, self._blocks_file:
            if kind is not None:
                return
            self._write_block()
            for file in (self._pairs_file, self._blocks_file):
                file.flush()
                os.fsync(file.fileno())
        write_atomically(self.folder / INDEX, json.dumps(self._index(), indent=1))

    def _write_block(self) -> None:
        pairs = len(self._lengths) // 2
        if pairs == 0:
            return
        parts = [np.asarray(self._lengths).astype(LENGTH).tobytes(), np.asarray(self._ids).astype(self.type).tobytes()]
        data = b"".join(parts)
        row = np.array([(self.bytes, len(data), pairs, zlib.crc32(data))], ROW).tobytes()
        self._table.update(row)
        self._pairs_file.write(data)
        self._blocks_file.write(row)
        self.pairs, self.blocks, self.bytes = self.pairs + pairs, self.blocks + 1, self.bytes + len(data)
        del self._lengths[:], self._ids[:]

    def _index(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "pairs": self.pairs,
            "blocks": self.blocks,
            "bytes": self.bytes,
            "token_bytes": self.type.itemsize,
            "source_tokens": self.source_tokens,
            "target_tokens": self.target_tokens,
            "checksum": self._table.hexdigest(),
            "facts": self.facts,
        }


class Shards:
    """Pairs that a `ShardWriter` has written. Opening them reads the table of blocks alone, 20 bytes for each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            stored = read_json(folder / INDEX, cure=CURE)
            rows = (folder / BLOCKS).read_bytes()
            size = (folder / PAIRS).stat().st_size
        except OSError as error:
            raise self._damaged(str(error.strerror or error).lower()) from error
        try:
            if stored["format"] != FORMAT:
                raise self._damaged(f"format {stored['format']}")
            self.pairs, self.blocks, self.checksum = int(stored["pairs"]), int(stored["blocks"]), stored["checksum"]
            self.source_tokens, self.target_tokens = int(stored["source_tokens"]), int(stored["target_tokens"])
            self.type = np.dtype({2: "<u2", 4: "<u4"}[stored["token_bytes"]])
            self.bytes, self.facts = int(stored["bytes"]), dict(stored["facts"])
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, RegardError):
                raise
            raise self._damaged(f"{type(error).__name__}, {error}, in {INDEX}") from error
        if blake2b(rows, digest_size=16).hexdigest() != self.checksum:
            raise self._damaged(f"another checksum of {BLOCKS}")
        if size != self.bytes:
            raise self._damaged(f"{size:,} bytes in {PAIRS}", f"{self.bytes:,}")
        self._rows = np.frombuffer(rows, ROW)
        self._firsts = np.cumsum(self._rows["pairs"], dtype=np.int64) - self._rows["pairs"]

    def read(self, blocks: Sequence[int] | NDArray[np.int64]) -> StoredPairs:
        """These blocks, in this order; each is compared with its checksum."""
        lengths, ids, numbers = [], [], []
        with open(self.folder / PAIRS, "rb", buffering=0) as file:
            for block in np.asarray(blocks).tolist():
                start, size, pairs, crc = self._rows[block].tolist()
                try:
                    file.seek(start)
                    data = file.read(size)
                except OSError as error:
                    raise self._damaged(str(error.strerror or error).lower()) from error
                if zlib.crc32(data) != crc:
                    raise self._damaged(f"another checksum of block {block}")
                lengths.append(np.frombuffer(data, LENGTH, 2 * pairs))
                ids.append(np.frombuffer(data, self.type, offset=2 * pairs * LENGTH.itemsize))
                numbers.append(np.arange(self._firsts[block], self._firsts[block] + pairs))
        return StoredPairs(np.concatenate(lengths), np.concatenate(ids), np.concatenate(numbers))

    def _damaged(self, got: str, expected: str | None = None) -> DataError:
        return DataError(f"{self.folder} is damaged", got=got, expected=expected, cure=CURE)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path | None]:
    """A folder beside `path` to write files into: at the end it is renamed to `path`, after an error it is removed.

    One process writes at a time: another one waits, and then gets None, as the folder is there. What killed processes
    have left half-written is removed. A full disk is an error of ours that names the folder.
    """
    if path.exists():
        yield None
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path.with_name(f"{path.name}.lock"), "ab") as lock:
            locked = wait_for_lock(lock.fileno())  # without locks each process writes its own, and one of them stays
            if path.exists():  # another process has made it while this one waited
                yield None
                return
            if locked:
                for left in path.parent.glob(f".{path.name}.*.part"):
                    shutil.rmtree(left)
            unfinished = part_beside(path)
            unfinished.mkdir()
            try:
                yield unfinished
                sync_folder(unfinished)
                try:
                    os.rename(unfinished, path)
                except OSError:
                    if not path.exists():  # else another process without locks was first; both are the same
                        raise
                    shutil.rmtree(unfinished)
                sync_folder(path.parent)
            except BaseException:
                shutil.rmtree(unfinished, ignore_errors=True)
                raise
    except OSError as error:
        here = next(folder for folder in (path.parent, *path.parent.parents) if folder.exists())
        free = shutil.disk_usage(here).free
        raise RegardError(
            f"{path} cannot be written ({error.strerror or error})",
            got=f"{free / 1e9:,.1f} GB free",
            expected="room for the numbers of all tokens, two bytes each, and eight for a pair",
            cure="make room, or set REGARD_CACHE to a folder on another disk; nothing half-written is left there",
        ) from error
