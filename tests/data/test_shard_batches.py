"""Batches from shards: every pair once a pass, the same on any number of ranks, and an exact position that is cheap."""

import json
import random
import tracemalloc
from collections import Counter
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from table import cases

from regard.base import ConfigError
from regard.data.parallel import DataError
from regard.data.shard_batches import ShardBatches
from regard.data.shards import Shards, ShardWriter
from regard.data.text import BOS, EOS
from regard.data.tokens import TokenBatch, TokenBatches

Pairs = list[tuple[list[int], list[int]]]


def numbers(count: int, *, seed: int = 0) -> Pairs:
    """Pairs of like lengths, the first number of which says which pair it is."""
    draw = np.random.default_rng(seed)
    lengths = draw.integers(1, 15, count)
    others = np.maximum(1, lengths + draw.integers(-3, 4, count))
    return [([5 + n, *[4] * (s - 1)], [4] * (t - 1)) for n, (s, t) in enumerate(zip(lengths.tolist(), others.tolist()))]  # noqa: B905


def stored(folder: Path, pairs: Pairs, *, block: int = 16) -> Shards:
    if not folder.exists():
        folder.mkdir(parents=True)
        with ShardWriter(folder, vocabulary=100_000, block=block) as writer:
            for source, target in pairs:
                writer.add(source, target)
    return Shards(folder)


def one_pass(batches: ShardBatches) -> list[list[int]]:
    made, number = [], batches.passes
    while True:
        batch = next(batches)
        if batches.passes != number:
            return made
        made.append(batch.indices)


@cases("seed", range(8))
def test_every_pair_comes_exactly_once_a_pass(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    pairs = numbers(draw.choice([1, 40, 333, 1000]), seed=seed)
    shards = stored(tmp_path / str(seed), pairs, block=draw.choice([1, 7, 16, 2000]))
    limits: dict[str, Any] = draw.choice([{"max_tokens": 300}, {"batch_size": 9}, {"max_tokens": 90, "batch_size": 5}])
    batches = ShardBatches(shards, window=draw.choice([1, 50, 300, 10**6]), seed=seed, **limits)
    first, second = one_pass(batches), one_pass(ShardBatches(shards, window=10**6, seed=seed + 1, **limits))
    for made in (first, second):
        assert sorted(row for rows in made for row in rows) == list(range(len(pairs)))
    assert len(pairs) == 1 or first != second


def test_batches_hold_what_was_written(tmp_path: Path) -> None:
    pairs = numbers(200)
    for batch in islice(ShardBatches(stored(tmp_path / "s", pairs), window=50, max_tokens=200), 30):
        for row, number in enumerate(batch.indices):
            source, target = pairs[number]
            assert batch.source[row].tolist()[: len(source) + 1] == [*source, EOS]
            assert batch.inputs[row].tolist()[: len(target) + 1] == [BOS, *target]
            assert batch.targets[row].tolist()[: len(target) + 1] == [*target, EOS]
            assert not batch.source[row, len(source) + 1 :].any()
        assert batch.source.numel() <= 200 >= batch.targets.numel()


def test_little_is_padding(tmp_path: Path) -> None:
    """A window of 100 batches costs little against batches of the whole corpus."""
    pairs = numbers(6000)
    large = ShardBatches(stored(tmp_path / "s", pairs), window=1500, max_tokens=150)
    whole = TokenBatches(pairs, max_tokens=150)
    used = [np.mean([batch.padding_efficiency for batch in islice(made, 300)]) for made in (large, whole)]
    assert used[0] > 0.96 * used[1] > 0.8


def test_pairs_are_mixed(tmp_path: Path) -> None:
    """Neighbours of the corpus are apart in a pass, and each pass has windows of other blocks."""
    shards = stored(tmp_path / "s", numbers(2000), block=20)
    batches = ShardBatches(shards, window=200, batch_size=10, seed=3)
    assert batches.windows == 10
    assert np.mean([abs(np.diff(sorted(rows))).mean() for rows in one_pass(batches)]) > 50
    blocks = [set(batches.blocks(number).tolist()) for number in range(20)]
    assert all(len(each) == 10 for each in blocks)
    assert set().union(*blocks[:10]) == set().union(*blocks[10:]) == set(range(100))
    assert not any(each in blocks[10:] for each in blocks[:10])


@cases("world", [2, 4])
@cases("limits", [{"max_tokens": 200}, {"batch_size": 12}, {"max_tokens": 150, "batch_size": 8}])
def test_the_ranks_share_the_same_batches(tmp_path: Path, world: int, limits: dict[str, Any]) -> None:
    shards = stored(tmp_path / "s", numbers(500))
    alone = ShardBatches(shards, window=100, seed=1, **limits)
    ranks = [ShardBatches(shards, window=100, seed=1, rank=rank, world=world, **limits) for rank in range(world)]
    for _ in range(150):
        whole, shares = next(alone), [next(each) for each in ranks]
        for rank, share in enumerate(shares):
            assert share.indices == whole.indices[rank::world]
        assert sum(share.count for share in shares) == whole.count
        states = [each.state_dict() for each in (alone, *ranks)]
        assert all(state == states[0] for state in states)


# ── the position ────────────────────────────────────────────────────────────────────────────────────────────────────


@cases("seed", range(10))
def test_going_on_from_any_position_is_exact(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    shards = stored(tmp_path / str(draw.choice([300, 900])), numbers(300 if seed % 2 else 900), block=16)
    settings: dict[str, Any] = {"window": draw.choice([60, 250, 10**5]), "seed": seed, "max_tokens": 150}
    settings |= draw.choice([{}, {"fit": (4, 8)}, {"batch_size": 7}])
    batches = ShardBatches(shards, **settings)
    for _ in range(draw.randrange(300)):
        next(batches)
    state = json.loads(json.dumps(batches.state_dict()))
    expected = [tensors_of(batch) for batch in islice(batches, 80)]
    for world in (1, 2):
        other = ShardBatches(Shards(shards.folder), world=world, **settings)
        for _ in range(draw.randrange(3)):  # whatever it has given out before
            next(other)
        other.load_state_dict(state)
        if world == 1:
            assert [tensors_of(batch) for batch in islice(other, 80)] == expected


def tensors_of(batch: TokenBatch) -> dict[str, Any]:
    return {"indices": batch.indices, **{name: tensor.tolist() for name, tensor in batch.tensors().items()}}


def test_going_on_reads_one_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards = stored(tmp_path / "s", numbers(2000))
    batches = ShardBatches(shards, window=160, batch_size=8, seed=2)
    for _ in range(400):
        next(batches)
    state, read = batches.state_dict(), Counter[str]()
    plain = Shards.read

    def counted(self: Shards, blocks: Any) -> Any:
        read["blocks"] += len(blocks)
        return plain(self, blocks)

    monkeypatch.setattr(Shards, "read", counted)
    other = ShardBatches(Shards(shards.folder), window=160, batch_size=8, seed=2)
    other.load_state_dict(state)
    assert next(other).indices == next(batches).indices
    assert state["epoch"] > 10
    assert read["blocks"] <= 12


def test_the_sequence_is_the_same_in_every_version(tmp_path: Path) -> None:
    batches = ShardBatches(stored(tmp_path / "s", numbers(700, seed=9)), window=150, max_tokens=160, seed=4)
    rows = json.dumps([batch.indices for batch in islice(batches, 120)]).encode()
    assert blake2b(rows, digest_size=8).hexdigest() == "6e1bcf99a8e769bd"
    data = "0702f1e19cfc429c3f33cc264dad4290"
    assert batches.state_dict() == {"epoch": 12, "position": 1, "seed": 4, "data": data, "windows": 5}


@cases(
    "change, message",
    [
        ({"seed": 0}, None),
        ({"data": "0"}, r"other batches \(data\): got 0; .* Try: resume with the text, task.window"),
        ({"windows": 9}, r"other batches \(windows\): got 9; expected 3"),
        ({"position": 1000}, r"other batches: got position 1000; expected 0 to \d+"),
        ({"windows": None}, r"this run began with its text in memory: .* Try: set task.reading=memory"),
        ({"position": None}, r"this is not the state of ShardBatches"),
    ],
)
def test_a_state_that_does_not_fit(tmp_path: Path, change: dict[str, Any], message: str | None) -> None:
    shards = stored(tmp_path / "s", numbers(300))
    batches, same = (ShardBatches(shards, window=100, batch_size=5) for _ in range(2))
    next(batches)
    next(same)
    state = {name: value for name, value in {**batches.state_dict(), **change}.items() if value is not None}
    if message is None:
        batches.load_state_dict(state)
    else:
        with pytest.raises(DataError, match=message):
            batches.load_state_dict(state)
    assert next(batches).indices == next(same).indices  # a state that does not fit changes nothing


def test_a_state_of_shards_is_none_of_memory(tmp_path: Path) -> None:
    pairs = numbers(100)
    state = ShardBatches(stored(tmp_path / "s", pairs), batch_size=5).state_dict()
    with pytest.raises(DataError, match="this state is of other batches"):
        TokenBatches(pairs, batch_size=5).load_state_dict(state)


# ── limits ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_pairs_that_are_too_long_are_left_out(tmp_path: Path) -> None:
    pairs = numbers(400)
    shards = stored(tmp_path / "s", pairs)
    short = [n for n, (source, target) in enumerate(pairs) if max(len(source), len(target)) + 1 <= 8]
    assert sorted(chain(*one_pass(ShardBatches(shards, window=100, max_tokens=8)))) == short
    shares = [one_pass(ShardBatches(shards, window=100, max_tokens=16, world=2, rank=rank)) for rank in range(2)]
    both = {*chain(*shares[0]), *chain(*shares[1])}
    assert both <= set(short)
    assert len(both) >= len(short) - 4  # in each window one may wait for the next pass: it cannot be shared out
    with pytest.raises(
        DataError, match="no pair of the corpus fits into a batch: got max_tokens=1 for each of 1 ranks"
    ):
        next(ShardBatches(shards, window=100, max_tokens=1))


def test_settings_are_checked(tmp_path: Path) -> None:
    shards = stored(tmp_path / "s", numbers(50))
    with pytest.raises(ConfigError, match="size of a batch: got neither"):
        ShardBatches(shards)
    with pytest.raises(ConfigError, match="window: got 0; expected 1 or more pairs"):
        ShardBatches(shards, batch_size=3, window=0)
    with pytest.raises(ConfigError, match="batch_size: got 3; expected at least world, 4"):
        ShardBatches(shards, batch_size=3, world=4)
    with pytest.raises(ConfigError, match="fit: got"):
        ShardBatches(shards, batch_size=3, fit=(0, 1))
    with pytest.raises(DataError, match="there are no pairs"):
        ShardBatches(stored(tmp_path / "none", []), batch_size=3)


def test_memory_is_that_of_a_window(tmp_path: Path) -> None:
    """Two windows of a corpus of 50 windows take what two windows of one of two take."""
    peaks = []
    for count in (1000, 25_000):
        shards = stored(tmp_path / str(count), [([7] * 20, [7] * 20)] * count, block=50)
        tracemalloc.start()
        batches = ShardBatches(shards, window=500, batch_size=10)
        for _ in range(99):
            next(batches)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert batches.epoch == 1
    assert peaks[1] < peaks[0] + 30_000  # the table of blocks and their order
