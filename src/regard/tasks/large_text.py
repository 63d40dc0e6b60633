"""A corpus of a user that need not fit into memory: scanned once, written once as shards of token numbers, and kept.

Both results are folders below `corpora` of the cache, each whole or not there. A scan is found by the paths, sizes and
times of the files; shards by the checksums of the files and of the units. So files that were moved or copied are
scanned again, and not written again.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

from regard.base import RESTORE, ConfigError, RegardError, read_json, write_atomically
from regard.data import Codec, ParallelText, ShardBatches, Shards, ShardWriter, cache_folder
from regard.data.scans import (
    FileFacts,
    Scan,
    check_same_files,
    load_scan,
    load_text,
    save_scan,
    scan_corpus,
    training_pairs,
)
from regard.data.shards import whole_folder
from regard.tasks.parallel_text import (
    FILES,
    MOST_HELD_OUT,
    Splits,
    TranslationConfig,
    cased,
    held_out_pairs,
    is_large,
    own_files,
    read_corpus,
    read_files,
)
from regard.tasks.task import Progress

FOLDER = "corpora"  # in the cache
RECORD = "corpus.json"  # in a run folder: which files they were
VERSION = 1  # of what a scan and shards hold


class LargeText:
    """The user's corpus of some settings, in shards; `run` is the folder of the run that it belongs to."""

    def __init__(self, config: TranslationConfig, run: Path | None = None) -> None:
        self.config, self.run = config, run
        self.progress: Progress | None = None

    @cached_property
    def files(self) -> tuple[list[str], list[str] | None]:
        """The files of both sides; each can be read more than once."""
        sources, targets = own_files(self.config.source_file, self.config.target_file)
        for path in [*sources, *(targets or [])]:
            if os.path.exists(path) and not os.path.isfile(path):
                cure = "name a file, or set task.reading=memory"
                raise ConfigError(
                    f"{path} can be read only once", got="a pipe or a folder", expected="a file", cure=cure
                )
        return sources, targets

    @cached_property
    def scan(self) -> Scan:
        """What one pass over the files has found; they must be those that the run began with."""
        with whole_folder(self._scan_folder) as unfinished:
            if unfinished is not None:
                config = self.config
                scan, texts = scan_corpus(
                    *self.files, held_out=held_out_pairs, most_held_out=MOST_HELD_OUT, sample=config.sample,
                    on_bad=config.on_bad, told=self._told("bytes of the corpus scanned"),
                )  # fmt: skip
                save_scan(unfinished, scan, texts)
        scan = load_scan(self._scan_folder)
        record = None if self.run is None else self.run / RECORD
        if record is not None and record.exists():
            check_same_files(_load_record(record), scan.files)
        return scan

    @property
    def splits(self) -> "LargeSplits":
        """Held-out pairs by split; "train" is a sample of the training pairs."""
        _ = self.scan  # which makes the folder
        return LargeSplits(self._scan_folder)

    def shards(self, codecs: tuple[Codec, Codec]) -> Shards:
        """The training pairs as numbers, in the order of the corpus; written when they are first asked for."""
        facts = self._facts(codecs)
        folder = cache_folder() / FOLDER / f"shards_{_hash(facts)}"
        with whole_folder(folder) as unfinished:
            if unfinished is not None:
                vocabulary = max(len(codec) for codec in codecs)
                with ShardWriter(unfinished, vocabulary=vocabulary, facts=facts) as writer:
                    for source, target in self._encoded(codecs):
                        writer.add(source, target)
        return Shards(folder)

    def batches(self, codecs: tuple[Codec, Codec], *, seed: int, rank: int, world: int) -> ShardBatches:
        """Training batches without end, for one of `world` ranks."""
        config = self.config
        return ShardBatches(
            self.shards(codecs),
            window=config.window,
            max_tokens=config.batch_tokens,
            batch_size=config.batch_size,
            seed=seed,
            rank=rank,
            world=world,
            fit=None if config.fit is None else (config.batch_size or 16, config.fit),
        )

    def save(self, folder: Path) -> None:
        """Writes down into a run folder which files they were."""
        content = {"files": [asdict(each) for each in self.scan.files], "pairs": self.scan.pairs}
        content |= {"training_pairs": self.scan.training_pairs, "dropped": self.scan.dropped}
        write_atomically(folder / RECORD, json.dumps(content, indent=1, ensure_ascii=False))

    @cached_property
    def _scan_folder(self) -> Path:
        sources, targets = self.files
        facts: dict[str, Any] = {"version": VERSION, "on_bad": self.config.on_bad, "sample": self.config.sample}
        for side, paths in (("source", sources), ("target", targets or [])):
            facts[side] = [_place_of(path) for path in paths]
        return cache_folder() / FOLDER / f"scan_{_hash(facts)}"

    def _facts(self, codecs: tuple[Codec, Codec]) -> dict[str, Any]:
        """What decides the content of the shards."""
        config, scan = self.config, self.scan
        return {
            "version": VERSION,
            "files": [[each.size, each.checksum] for each in scan.files],
            "sides": 1 if self.files[1] is None else 2,
            "on_bad": config.on_bad,
            "valid_end": str(scan.valid_end),
            "units": [blake2b(codec.to_json().encode(), digest_size=16).hexdigest() for codec in codecs],
            "lower": self._lowers,
            "max_words": config.max_words,
        }

    @property
    def _lowers(self) -> bool:
        return bool(self.config.lower) and self.config.units != "words"  # words are lower-cased by their codec

    def _encoded(self, codecs: tuple[Codec, Codec]) -> Iterator[tuple[list[int], list[int]]]:
        limit, (source, target), lower = self.config.max_words, codecs, self._lowers
        told = self._told("bytes of the corpus cut into units")
        for pair in training_pairs(self.scan, *self.files, on_bad=self.config.on_bad, told=told):
            first, second = cased(pair, lower)
            if limit is None or max(len(first.split()), len(second.split())) <= limit:
                yield source.encode_text(first), target.encode_text(second)

    def _told(self, what: str) -> Any:
        progress = self.progress
        return None if progress is None else lambda done, total: progress(what, done, total)


class LargeSplits(Mapping[str, ParallelText]):
    """The texts of a scan by split. Held-out pairs stay in memory, the sample is read whenever it is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._held_out = {name: load_text(folder, name) for name in ("valid", "test")}

    def __getitem__(self, split: str) -> ParallelText:
        return load_text(self.folder, "sample") if split == "train" else self._held_out[split]

    def __iter__(self) -> Iterator[str]:
        return iter(("train", *self._held_out))

    def __len__(self) -> int:
        return 1 + len(self._held_out)


def large_text(config: TranslationConfig, run: Path | None = None) -> LargeText | None:
    """The corpus of these settings, if it is one of files that are read from shards."""
    if config.corpus != FILES or config.reading == "memory":
        return None
    return (
        LargeText(config, run) if is_large(own_files(config.source_file, config.target_file), config.reading) else None
    )


def read_splits(config: TranslationConfig) -> Splits:
    """The text of a config, in splits: as its corpus has them, or of the user's own files."""
    if config.corpus != FILES:
        return read_corpus(config.corpus, config.source, config.target)
    large = large_text(config)
    return (
        read_files(own_files(config.source_file, config.target_file), config.on_bad) if large is None else large.splits
    )


def _load_record(path: Path) -> list[FileFacts]:
    stored = read_json(path, cure=RESTORE)
    try:
        return [FileFacts(str(each["name"]), int(each["size"]), str(each["checksum"])) for each in stored["files"]]
    except (KeyError, TypeError, ValueError) as error:
        raise RegardError(f"{path} cannot be read", got=type(error).__name__, cure=RESTORE) from error


def _place_of(path: str) -> list[Any]:
    """Where a file is, and its size and time; of one that is missing the path alone."""
    try:
        facts = os.stat(path)
    except OSError:
        return [os.path.realpath(path)]
    return [os.path.realpath(path), facts.st_size, facts.st_mtime_ns]


def _hash(facts: Any) -> str:
    return blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=12).hexdigest()
