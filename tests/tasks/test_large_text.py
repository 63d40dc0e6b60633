"""A corpus in shards, as a task has it: the same splits and pairs as in memory, made once, and exact after a resume."""

import os
import shutil
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest
from pair_files import PACKED, made_up, write_sides
from table import cases

from regard.base import ConfigError, RegardError
from regard.data import DataError, ShardBatches, TokenBatches, cache_folder
from regard.tasks import Translation, TranslationConfig, read_splits
from regard.tasks.large_text import FOLDER, RECORD, LargeText
from regard.tasks.parallel_text import LARGE, is_large


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


def config(folder: Path, count: int = 600, **settings: Any) -> TranslationConfig:
    source, target = write_sides(folder, made_up(count))
    common: dict[str, Any] = {"batch_size": 8, "batch_tokens": None, "reading": "shards", "sample": 300, "window": 200}
    return TranslationConfig("files", source_file=source, target_file=target, **{**common, **settings})


def made(kind: str = "") -> list[str]:
    return sorted(path.name for path in (cache_folder() / FOLDER).glob(f"{kind}*") if path.is_dir())


# ── the same text as in memory ──────────────────────────────────────────────────────────────────────────────────────


@cases("ending", PACKED)
@cases(
    "settings",
    [{}, {"max_words": 4}, {"lower": True}, {"units": "bpe", "vocabulary": 60, "joint": True, "lower": True}],
)
def test_the_pairs_are_those_of_memory(tmp_path: Path, settings: dict[str, Any], ending: str) -> None:
    source, target = write_sides(tmp_path / ending, made_up(400), ending=ending)
    settings = {"source_file": source, "target_file": target, "batch_size": 8, "batch_tokens": None, **settings}
    large = Translation(TranslationConfig("files", reading="shards", window=100, **settings))
    small = Translation(TranslationConfig("files", reading="memory", **settings), codecs=large.codecs)
    batches = (large.batches(seed=0), small.batches(seed=0))
    assert [type(each) for each in batches] == [ShardBatches, TokenBatches]
    pairs = []
    for each in batches:
        count = batches[0].shards.pairs  # type: ignore[union-attr]
        rows: list[Any] = []
        while len(rows) < count:  # one pass
            batch = next(each)
            rows += zip(batch.source.tolist(), batch.targets.tolist(), strict=True)
        pairs.append(sorted(tuple(tuple(filter(None, side)) for side in row) for row in rows))
    assert pairs[0] == pairs[1]
    for split in ("valid", "test"):
        assert large.text(split)[:2] == small.text(split)[:2]
    assert set(large.text("train").source) == set(small.text("train").source)  # the sample has all of them
    assert list(large.splits) == ["train", "valid", "test"] == [*large.splits][: len(large.splits)]


def test_units_are_learnt_from_the_sample(tmp_path: Path) -> None:
    task = Translation(config(tmp_path, sample=50))
    text = task.text("train")
    assert 40 <= text.size <= 50
    words = {word for line in text.source for word in line.split()}
    assert len(task.codecs[0]) == 4 + len(words)


def test_one_table_in_several_files(tmp_path: Path) -> None:
    pairs = made_up(300)
    for number in range(3):
        rows = "".join(f"{source}\t{target}\n" for source, target in pairs[100 * number : 100 * number + 100])
        (tmp_path / f"t{number}.tsv.gz").write_bytes(PACKED[".gz"](rows.encode()))
    names = tuple(str(tmp_path / f"t{number}.tsv.gz") for number in range(3))
    one = TranslationConfig("files", source_file=names, reading="shards")
    assert read_splits(one)["valid"][:2] == read_splits(replace(one, reading="memory"))["valid"][:2]
    assert Translation(one).batches(seed=0).shards.pairs == 300 - 2 * 15  # type: ignore[union-attr]


# ── made once ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_was_made_is_taken_again(tmp_path: Path) -> None:
    settings = config(tmp_path / "text")
    first = Translation(settings).batches(seed=0)
    assert [name.partition("_")[0] for name in made()] == ["scan", "shards"]
    before = {path: path.stat().st_mtime_ns for path in (cache_folder() / FOLDER).rglob("*.*")}
    second = Translation(settings).batches(seed=0)
    assert {path: path.stat().st_mtime_ns for path in (cache_folder() / FOLDER).rglob("*.*")} == before
    assert [next(second).indices for _ in range(9)] == [next(first).indices for _ in range(9)]


def test_files_that_were_moved_or_touched_are_not_written_again(tmp_path: Path) -> None:
    settings = config(tmp_path / "text")
    Translation(settings).batches(seed=0)
    os.utime(tmp_path / "text" / "c.01.de.gz", (1, 1))
    Translation(settings).batches(seed=0)
    assert (len(made("scan")), len(made("shards"))) == (2, 1)
    (tmp_path / "text").rename(tmp_path / "moved")
    moved = [str(tmp_path / "moved" / f"c.*.{side}.gz") for side in ("de", "en")]
    Translation(replace(settings, source_file=moved[0], target_file=moved[1])).batches(seed=0)
    assert (len(made("scan")), len(made("shards"))) == (3, 1)


@cases("change", [{"max_words": 3}, {"vocabulary": 20}, {"sample": 100}, {"on_bad": "drop"}])
def test_settings_that_change_the_numbers_make_other_shards(tmp_path: Path, change: dict[str, Any]) -> None:
    settings = config(tmp_path / str(change))
    Translation(settings).batches(seed=0)
    before = set(made("shards"))
    Translation(replace(settings, **change)).batches(seed=0)
    assert len(set(made("shards")) - before) == 1


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    task = Translation(config(tmp_path))
    task.prepare("cpu", lambda *facts: told.append(facts))
    assert {what for what, _, _ in told} == {"bytes of the corpus scanned", "bytes of the corpus cut into units"}
    total = sum(path.stat().st_size for path in tmp_path.glob("c.*"))
    assert [done for _, done, _ in told if done == total] == [total, total]
    assert {of for _, _, of in told} == {total}


# ── a run ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def saved(task: Translation, folder: Path) -> Translation:
    folder.mkdir(exist_ok=True)
    task.save(folder)
    return Translation.load(folder, task.config)


def test_a_run_notes_its_files(tmp_path: Path) -> None:
    settings = config(tmp_path / "text")
    task = Translation(settings)
    batches = task.batches(seed=0)
    run = tmp_path / "run"
    again = saved(task, run)
    assert [next(again.batches(seed=0)).indices for _ in range(3)] == [next(batches).indices] * 3
    (tmp_path / "text" / "c.00.en.gz").write_bytes(PACKED[".gz"](b"another text .\n" * 66))
    with pytest.raises(
        DataError, match=r"c.00.en.gz has changed since the run began: got .*; expected .*bring the files"
    ):
        Translation.load(run, settings).batches(seed=0)
    (run / RECORD).write_text('{"files": [1]}')
    with pytest.raises(RegardError, match=r"corpus.json cannot be read"):
        Translation.load(run, settings).batches(seed=0)


def test_a_run_that_starts_from_another_has_files_of_its_own(tmp_path: Path) -> None:
    first = config(tmp_path / "first")
    saved(Translation(first), tmp_path / "run")
    other = config(tmp_path / "other", 500)
    with pytest.raises(DataError, match="has changed since the run began"):
        Translation.load(tmp_path / "run", other).batches(seed=0)
    task = Translation.load(tmp_path / "run", other)
    task.forget_data()  # what api.train does with start=
    assert task.batches(seed=0).shards.pairs == 500 - 2 * 25  # type: ignore[union-attr]
    assert len(task.codecs[0]) == len(Translation(first).codecs[0])


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    settings = config(tmp_path / "text")
    again = saved(Translation(settings), tmp_path / "run")
    (tmp_path / "text" / "c.02.de.gz").unlink()
    with pytest.raises(DataError, match=r"different numbers of files: got 2 \(.*\) and 3"):
        Translation.load(tmp_path / "run", settings).batches(seed=0)
    shutil.rmtree(tmp_path / "text")
    with pytest.raises(DataError, match=r"c.\*.de.gz matches no file"):
        again.batches(seed=0)


def test_a_cache_that_was_deleted_is_made_again(tmp_path: Path) -> None:
    settings = config(tmp_path / "text")
    task = Translation(settings)
    batches = task.batches(seed=0)
    for _ in range(60):
        next(batches)
    state, again = batches.state_dict(), saved(task, tmp_path / "run")
    shutil.rmtree(cache_folder())
    other = again.batches(seed=0)
    other.load_state_dict(state)
    assert [next(other).indices for _ in range(40)] == [next(batches).indices for _ in range(40)]


KILLED = """
import os, random, shutil, sys
from pathlib import Path
sys.path[:0] = [{tests!r}, {tools!r}]
from kill_runs import at_touches, child, die_at, ended_by
from regard.tasks import Translation, TranslationConfig

place = Path(sys.argv[1])
settings = TranslationConfig("files", source_file=sys.argv[2], target_file=sys.argv[3], batch_size=8, reading="shards",
                             batch_tokens=None, sample=300, window=200)

def work(touch=None):
    die_at(touch or 10**9, place / "cache")
    batches = Translation(settings).batches(seed=0)
    print(batches.shards.checksum, [next(batches).indices for _ in range(3)], flush=True)

def count(number):
    (place / "touches").write_text(str(number))

def counting():
    at_touches(place / "cache", count)
    Translation(settings).batches(seed=0)

Translation(settings).batches(seed=0)  # what torch loads late is loaded before the first fork
draw = random.Random(7)
shutil.rmtree(place / "cache")
assert ended_by(child(counting)) == 0
touches = int((place / "touches").read_text())
kills = 0
for _ in range(12):
    shutil.rmtree(place / "cache", ignore_errors=True)
    for touch in draw.sample(range(1, touches + 1), 3):
        end = ended_by(child(lambda: work(touch)))
        assert end in (0, -9), end
        kills += end == -9
    assert ended_by(child(work)) == 0
    left = [path.name for path in (place / "cache").rglob("*.part")]
    assert not left, left
print(touches, kills)
"""


@pytest.mark.bare
def test_kills_while_the_cache_is_written(tmp_path: Path) -> None:
    """Three kills at random touches of the disk, then a process that gets to the end: always the same batches."""
    tests = Path(__file__).parents[1]
    code = KILLED.format(tests=str(tests), tools=str(tests.parent / "tools"))
    sides = write_sides(tmp_path / "text", made_up(600))
    environment = {**os.environ, "REGARD_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, str(tmp_path), *sides]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.splitlines()
    touches, kills = map(int, last.split())
    assert touches > 20
    assert kills > 10
    assert len(lines) >= 12
    assert len(set(lines)) == 1


def test_ranks_share_the_same_batches(tmp_path: Path) -> None:
    settings = config(tmp_path)
    alone = Translation(settings).batches(seed=5)
    worlds = [[Translation(settings).batches(seed=5, rank=r, world=w) for r in range(w)] for w in (2, 4)]
    for _ in range(60):
        whole = next(alone)
        for ranks in worlds:
            shares = [next(each).indices for each in ranks]
            assert sorted(chain(*shares)) == sorted(whole.indices)
            assert shares[0] == whole.indices[0 :: len(ranks)]


@pytest.mark.bare
def test_memory_does_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty times the pairs: the scan, the shards and 20 windows take as much memory, where as many are held out."""
    peaks = []
    for module in ("parallel_text", "large_text"):
        monkeypatch.setattr(f"regard.tasks.{module}.MOST_HELD_OUT", 10)
    for count in (200, 10_000):
        task = Translation(config(tmp_path / str(count), count, vocabulary=60))
        task.prepare("cpu")  # what is loaded late
        shutil.rmtree(cache_folder())
        again = Translation(task.config, codecs=task.codecs)
        tracemalloc.start()
        for batch in islice(again.batches(seed=0), 500):
            assert batch.count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    whole = sum(path.stat().st_size for path in (cache_folder() / FOLDER).rglob("pairs.bin"))
    assert peaks[1] - peaks[0] < whole / 4
    assert whole > 200_000


# ── what is read from shards, and what cannot be ────────────────────────────────────────────────────────────────────


def test_large_files_are_read_from_shards(tmp_path: Path) -> None:
    path, other = tmp_path / "large.de", tmp_path / "small.de"
    other.write_text("a b\tc\n" * 100)
    with open(path, "wb") as file:
        file.truncate(LARGE)
    assert is_large(([str(path)], None), "auto")
    assert not is_large(([str(other)], [str(other)]), "auto")
    assert is_large(([str(other)], None), "shards")
    assert not is_large(([str(path)], None), "memory")
    own = TranslationConfig("files", source_file=str(other), batch_size=4)
    assert Translation(own).large is None
    assert isinstance(Translation(replace(own, reading="shards")).large, LargeText)
    assert Translation(TranslationConfig(reading="shards")).large is None  # not a corpus of files


def test_a_pipe_can_be_read_only_once(tmp_path: Path) -> None:
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match=r"pipe can be read only once: got a pipe .* set task.reading=memory"):
        Translation(TranslationConfig("files", source_file=pipe, reading="shards")).batches(seed=0)


@cases("reading", ["memory", "shards"])
def test_broken_inputs(tmp_path: Path, reading: Any) -> None:
    settings = config(tmp_path / reading, reading=reading)
    folder = tmp_path / reading

    def fails(message: str) -> None:
        with pytest.raises(DataError, match=message):
            Translation(settings).batches(seed=0)
        assert not made()

    whole = (folder / "c.01.de.gz").read_bytes()
    (folder / "c.01.de.gz").write_bytes(whole[:-20])
    fails(r"c.01.de.gz, after line \d+: the file breaks off")
    (folder / "c.01.de.gz").write_bytes(PACKED[".gz"](b"one line\n" * 3))
    fails(r"c.01.de.gz and .*c.01.en.gz: unequal line counts: got 3 and 200 lines")
    (folder / "c.01.de.gz").write_bytes(PACKED[".gz"](b"one line\n" * 199 + b"\xff\n"))
    fails(r"c.01.de.gz, line 200: invalid UTF-8")
    (folder / "c.01.de.gz").write_bytes(b"")
    fails(r"c.01.de.gz: the file is empty")
    (folder / "c.01.de.gz").unlink()
    fails("different numbers of files")


def test_shards_of_a_damaged_cache(tmp_path: Path) -> None:
    settings = config(tmp_path)
    batches = Translation(settings).batches(seed=0)
    path = next((cache_folder() / FOLDER).rglob("pairs.bin"))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"shards_\w+ is damaged: got [\d,]+ bytes in pairs.bin; .* delete the folder"):
        Translation(settings).batches(seed=0)
    with pytest.raises(DataError, match=r"is damaged: got another checksum of block"):
        list(islice(batches, 500))
