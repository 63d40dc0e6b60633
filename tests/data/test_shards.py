"""Shards: what is written is read, whole or not at all, whatever happens to the process, the disk or the files."""

import json
import os
import random
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from table import cases

from regard.base import RegardError
from regard.data.parallel import DataError
from regard.data.shards import BLOCKS, INDEX, PAIRS, Shards, ShardWriter, whole_folder

Pairs = list[tuple[list[int], list[int]]]


def numbers(count: int, *, seed: int = 0, vocabulary: int = 500, longest: int = 12) -> Pairs:
    draw = np.random.default_rng(seed)
    return [
        tuple(draw.integers(4, vocabulary, draw.integers(0, longest)).tolist() for _ in range(2))  # type: ignore[misc]
        for _ in range(count)
    ]


def write(folder: Path, pairs: Pairs, *, block: int = 16, vocabulary: int = 500) -> Shards:
    folder.mkdir(parents=True)
    with ShardWriter(folder, vocabulary=vocabulary, block=block, facts={"seed": 1}) as writer:
        for source, target in pairs:
            writer.add(source, target)
    return Shards(folder)


def unpacked(shards: Shards, blocks: list[int]) -> dict[int, tuple[list[int], list[int]]]:
    stored = shards.read(blocks)
    sides = np.split(stored.ids, np.cumsum(stored.lengths)[:-1])
    pairs = zip(sides[::2], sides[1::2], strict=True)
    return {
        int(number): (source.tolist(), target.tolist())
        for number, (source, target) in zip(stored.numbers, pairs, strict=True)
    }


@cases("seed", range(12))
def test_what_is_written_is_read(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    vocabulary = draw.choice([5, 2**16, 2**16 + 1, 900_000])
    pairs = numbers(draw.choice([1, 15, 16, 17, 333]), seed=seed, vocabulary=vocabulary, longest=draw.choice([2, 40]))
    shards = write(tmp_path / str(seed), pairs, block=draw.choice([1, 3, 16, 1000]), vocabulary=vocabulary)
    assert (shards.pairs, shards.facts) == (len(pairs), {"seed": 1})
    assert shards.source_tokens == sum(len(source) for source, _ in pairs)
    assert shards.type.itemsize == (2 if vocabulary <= 2**16 else 4)
    order = draw.sample(range(shards.blocks), draw.randint(1, shards.blocks))
    found = unpacked(shards, order)
    assert found == {number: pairs[number] for number in found}
    assert len(unpacked(shards, list(range(shards.blocks)))) == len(pairs)


def test_the_same_pairs_have_the_same_checksum(tmp_path: Path) -> None:
    pairs = numbers(100)
    one, same = write(tmp_path / "1", pairs), write(tmp_path / "2", pairs)
    other = write(tmp_path / "3", [*pairs[:50], ([5], [5]), *pairs[51:]])
    assert one.checksum == same.checksum != other.checksum


def test_no_pairs(tmp_path: Path) -> None:
    assert (write(tmp_path / "0", []).pairs, Shards(tmp_path / "0").blocks) == (0, 0)


# ── damage ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_byte_that_flipped_is_noticed(tmp_path: Path) -> None:
    shards, draw = write(tmp_path / "s", numbers(200)), random.Random(3)
    whole = (tmp_path / "s" / PAIRS).read_bytes()
    for _ in range(20):
        place = draw.randrange(len(whole))
        (tmp_path / "s" / PAIRS).write_bytes(whole[:place] + bytes([whole[place] ^ 64]) + whole[place + 1 :])
        reopened, failed = Shards(tmp_path / "s"), []
        for block in range(shards.blocks):
            try:
                reopened.read([block])
            except DataError as error:
                failed.append((block, str(error)))
        [(block, said)] = failed
        assert said.endswith(f"got another checksum of block {block}. Try: delete the folder: it is made again.")


@cases(
    "name, content, message",
    [
        (PAIRS, None, "no such file"),
        (PAIRS, b"", "got 0 bytes in pairs.bin; expected"),
        (BLOCKS, b"", "another checksum of blocks.bin"),
        (BLOCKS, b"x" * 20, "another checksum of blocks.bin"),
        (INDEX, None, "no such file"),
        (INDEX, b"{", "cannot be read"),
        (INDEX, b"{}", "KeyError, 'format', in index.json"),
        (INDEX, b'{"format": 2}', "got format 2"),
        (INDEX, b'{"format": 1, "pairs": "x", "blocks": 1, "checksum": ""}', "in index.json"),
    ],
)
def test_hostile_files(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    folder = tmp_path / f"{name}{content!r}"
    write(folder, numbers(50))
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(RegardError, match=message):
        Shards(folder)


# ── whole or not there ──────────────────────────────────────────────────────────────────────────────────────────────

WRITER = """
import os, resource, sys
from pathlib import Path
sys.path[:0] = [{tests!r}, {tools!r}]
from kill_runs import child, die_at, ended_by
from regard.base import RegardError
from regard.data.shards import ShardWriter, whole_folder

def make(folder):
    with whole_folder(folder) as unfinished:
        if unfinished is None:
            return
        with ShardWriter(unfinished, vocabulary=99, block=64) as writer:
            for number in range(3000):
                writer.add([number % 99] * 5, [7] * 5)

"""


def script(body: str, *arguments: object) -> str:
    """What a process says that can make shards, be killed, and run into limits."""
    tests = Path(__file__).parents[1]
    code = WRITER.format(tests=str(tests), tools=str(tests.parent / "tools")) + body
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return done.stdout


@pytest.mark.bare
def test_a_kill_at_any_touch_of_the_disk_leaves_it_whole_or_absent(tmp_path: Path) -> None:
    body = """
place, draw = Path(sys.argv[1]), __import__("random").Random(5)
touch, ends = 0, []
while not ends or ends[-1] == -9:  # the same folder again and again: each process dies one touch later
    touch += 1
    def work():
        die_at(touch, place)
        make(place / "made")
    ends.append(ended_by(child(work)))
    print(ends[-1], (place / "made").exists(), len(list(place.glob(".*.part"))))
"""
    lines = [line.split() for line in script(body, tmp_path).splitlines()]
    assert [line[0] for line in lines[:-1]] == [str(-signal.SIGKILL)] * (len(lines) - 1)
    assert lines[-1] == ["0", "True", "0"]
    assert len(lines) > 8
    assert max(int(line[2]) for line in lines) == 1  # what one killed process left is removed by the next
    shards = Shards(tmp_path / "made")
    assert (shards.pairs, len(unpacked(shards, list(range(shards.blocks))))) == (3000, 3000)


@pytest.mark.bare
def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """The system refuses to let a file grow beyond a limit, at random sizes."""
    body = """
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
place, draw = Path(sys.argv[1]), __import__("random").Random(1)
for number in range(10):
    limit = draw.randrange(80_000)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        make(place / "made")
        print("made")
    except RegardError as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert sorted(path.name for path in place.iterdir()) == ["made.lock"], list(place.iterdir())
make(place / "made")
"""
    lines = script(body, tmp_path).splitlines()
    assert len(lines) == 10
    for line in lines:
        assert "made cannot be written (File too large): got" in line
        assert "GB free; expected room for the numbers of all tokens" in line
        assert "set REGARD_CACHE to a folder on another disk" in line
    assert Shards(tmp_path / "made").pairs == 3000


@pytest.mark.bare
def test_processes_that_make_the_same_folder(tmp_path: Path) -> None:
    """One makes it, the others wait and take it."""
    body = """
place = Path(sys.argv[1])
def work(number):
    with whole_folder(place / "made") as unfinished:
        if unfinished is not None:
            __import__("time").sleep(0.2)
            with ShardWriter(unfinished, vocabulary=99) as writer:
                writer.add([number], [number])
            (place / f"by {number}").touch()
    assert (place / "made" / "index.json").exists()
children = [child(lambda number=number: work(number)) for number in range(4)]
print([ended_by(number) for number in children], len(list(place.glob("by *"))))
"""
    assert script(body, tmp_path).strip() == "[0, 0, 0, 0] 1"


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), whole_folder(tmp_path / "made") as unfinished:  # noqa: PT012
        assert unfinished is not None
        (unfinished / "half").touch()
        _ = 1 / 0
    assert [path.name for path in tmp_path.iterdir()] == ["made.lock"]
    (tmp_path / "file").touch()
    with pytest.raises(RegardError, match=r"made cannot be written"), whole_folder(tmp_path / "file" / "made"):
        pass


def test_memory_does_not_grow(tmp_path: Path) -> None:
    peaks = []
    for count in (500, 25_000):
        folder = tmp_path / str(count)
        folder.mkdir()
        pair = list(range(4, 24))
        tracemalloc.start()
        with ShardWriter(folder, vocabulary=99, block=128) as writer:
            for _ in range(count):
                writer.add(pair, pair)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 25_000 * 40 * 2 / 10  # a tenth of what is written
    assert json.loads((tmp_path / "25000" / INDEX).read_text())["pairs"] == 25_000
