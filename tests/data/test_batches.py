"""Batches with an exact position: the same sequences and the same saved positions in every version."""

from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
import pytest
from table import cases

from regard.base import ConfigError
from regard.data import Batches, DataError, Pair, TokenBatches
from regard.data.captions import CaptionBatches
from regard.data.pictures import RowBatches
from regard.data.shard_batches import ShardBatches
from regard.data.streams import StreamBatches, WindowBatches
from regard.data.text_batches import TextBatches


def pairs(count: int, *, seed: int) -> list[Pair]:
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 30, (count, 2))
    return [(random.integers(4, 99, n).tolist(), random.integers(4, 99, m).tolist()) for n, m in lengths]


def captions(pictures: int, *, seed: int) -> list[Pair]:
    """One to five captions a picture, mixed."""
    random = np.random.default_rng(seed)
    rows = [n for n in range(pictures) for _ in range(1 + n % 5)]
    return [([int(n)], random.integers(4, 99, random.integers(1, 20)).tolist()) for n in random.permutation(rows)]


def texts(count: int, *, seed: int) -> list[tuple[list[int], ...]]:
    """Pairs of texts."""
    return [tuple(pair) for pair in pairs(count, seed=seed)]


CASES: dict[str, Callable[..., Batches[Any]]] = {
    "tokens": lambda **o: TokenBatches(pairs(300, seed=1), max_tokens=400, seed=3, **o),
    "tokens, pairs": lambda **o: TokenBatches(pairs(101, seed=2), batch_size=20, seed=0, **o),
    "tokens, both": lambda **o: TokenBatches(pairs(300, seed=3), max_tokens=300, batch_size=12, seed=7, **o),
    "tokens, fitted": lambda **o: TokenBatches(pairs(90, seed=4), batch_size=16, seed=5, fit=(16, 8), **o),
    "tokens, dropped": lambda **o: TokenBatches(pairs(200, seed=5), max_tokens=60, seed=6, on_long="drop", **o),
    "tokens, no <eos>": lambda **o: TokenBatches(captions(50, seed=6), batch_size=9, seed=8, source_eos=False, **o),
    "captions": lambda **o: CaptionBatches(captions(123, seed=7), batch_size=17, captions=3, seed=2, **o),
    "captions, fitted": lambda **o: CaptionBatches(captions(61, seed=8), batch_size=24, captions=2, seed=9, fit=8, **o),
    "texts": lambda **o: TextBatches(texts(120, seed=9), [n % 3 for n in range(120)], batch_size=11, seed=3, **o),
    "texts, fitted": lambda **o: TextBatches(texts(70, seed=10), [0] * 70, batch_size=16, seed=2, fit=8, **o),
    "streams": lambda **o: StreamBatches(np.arange(4, 500), streams=7, length=9, seed=5, **o),
    "windows": lambda **o: WindowBatches(np.arange(4, 500), windows=7, length=9, before=3, seed=5, **o),
    "rows": lambda **o: RowBatches(103, batch_size=16, seed=4, **o),
    "rows, small": lambda **o: RowBatches(5, batch_size=13, seed=1, **o),
}


class Recorded(NamedTuple):
    """What earlier versions gave out (rows, tokens and captions: commit bc17427): hashes, a state, what followed it."""

    shares: tuple[str, str, str]  # of 90 batches: rank 0 of 1, rank 0 of 3, rank 2 of 3
    state: dict[str, Any]  # after 37 batches
    rest: str  # of the 40 batches after it


RECORDED = {
    "tokens": Recorded(
        ("23ca30e5de18a2f8", "214fd649d085c1e2", "20816ffc623b22dc"),
        {"epoch": 1, "position": 18, "seed": 3, "data": "72eb97821d36e582"},
        "56bb4aadf337eeba",
    ),
    "tokens, pairs": Recorded(
        ("0a8c6c602b8cb214", "c4d5774d3052e221", "e2b8b526a1c02a3c"),
        {"epoch": 6, "position": 1, "seed": 0, "data": "0db07bd09992ab4c"},
        "a9a471e6bf5573c6",
    ),
    "tokens, both": Recorded(
        ("1c1817c5cc339290", "8733355e5c1a72c2", "d8965825496cc251"),
        {"epoch": 1, "position": 10, "seed": 7, "data": "0d4fee6fd3ca368e"},
        "f6768f76b052a97d",
    ),
    "tokens, fitted": Recorded(
        ("d4f719263aa830c1", "0c9dd3854efa60ab", "d210e3b4ddca3235"),
        {"epoch": 6, "position": 1, "seed": 5, "data": "b8498c06928af2e7"},
        "ed5f26536e410fac",
    ),
    "tokens, dropped": Recorded(
        ("e1a624f9608ff60f", "42d5af5033cf2d59", "4d530c8d8ef21093"),
        {"epoch": 0, "position": 37, "seed": 6, "data": "7311f84023843ecb"},
        "61b89eeb6d7efb5f",
    ),
    "tokens, no <eos>": Recorded(
        ("4d8ef6133b253f2c", "a069fb0c84a98822", "b9b883e1f314b12f"),
        {"epoch": 2, "position": 3, "seed": 8, "data": "ee13c8b4985e49c9"},
        "3180e8036436b648",
    ),
    "captions": Recorded(
        ("964012287bc6f953", "1f51877949960a7b", "24be1b8093e641c7"),
        {"epoch": 1, "position": 12, "seed": 2, "data": "2c581241e5f9edf8"},
        "527e4d6cc2f40c2d",
    ),
    "captions, fitted": Recorded(
        ("7d10ef898497bf56", "5e312d9740d72732", "cfbcf6c939cb76fa"),
        {"epoch": 6, "position": 1, "seed": 9, "data": "0d1524b335598867"},
        "a8e9dd1913474395",
    ),
    "texts": Recorded(
        ("29e63555ba9392ab", "e664ec6cb759cab0", "25af4bceb4048afe"),
        {"epoch": 3, "position": 4, "seed": 3, "data": "d4ad9e6ed50ba8f0", "batch_size": 11},
        "1f56324369fb7794",
    ),
    "texts, fitted": Recorded(
        ("16de10c6f123bed7", "8300401d2ae0bdc8", "74a303b68f371d1b"),
        {"epoch": 7, "position": 2, "seed": 2, "data": "afdeef51df5d90ba", "batch_size": 16},
        "a68aeb57829ba613",
    ),
    "streams": Recorded(
        ("a63138b7dae020b8", "29a03a16e52277f5", "72550423b7a6dafc"),
        {"epoch": 4, "position": 5, "seed": 5, "data": "9292eb876b99d16a", "streams": 7, "length": 9},
        "c1ff2361084d6484",
    ),
    "windows": Recorded(
        ("37bdb828a52d409b", "31ec8e68bc7643a8", "48bbb39c29e491ec"),
        {"epoch": 4, "position": 5, "seed": 5, "data": "9292eb876b99d16a", "windows": 7, "length": 9, "before": 3},
        "a75457f617243e46",
    ),
    "rows": Recorded(
        ("70aff26b7493de47", "fb8a1a409639355c", "a08ece349f0b31d0"),
        {"position": 37, "seed": 4, "size": 103, "batch_size": 16},
        "62b03e647e4c6981",
    ),
    "rows, small": Recorded(
        ("87fa4ccac57f6390", "32bdb0f2486262e3", "3cc7eb44861845a9"),
        {"position": 37, "seed": 1, "size": 5, "batch_size": 13},
        "bbf4c597bc6d0ab0",
    ),
}


def digest(batches: Iterator[Any], count: int) -> str:
    """Of every tensor of so many batches, and of which rows they are."""
    hashed = blake2b(digest_size=8)
    for batch in islice(batches, count):
        hashed.update(repr(getattr(batch, "indices", None)).encode())
        for name, tensor in batch.tensors().items():
            hashed.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode() + tensor.numpy().tobytes())
    return hashed.hexdigest()


def test_every_case_is_recorded() -> None:
    assert set(CASES) == set(RECORDED)  # those of shards need files: test_shard_batches.py
    assert {type(make()) for make in CASES.values()} == set(Batches.__subclasses__()) - {
        Thirds,
        ShardBatches,
    }  # these need files: test_shard_batches.py


@cases("name", CASES)
@cases(("number", "rank", "world"), [(0, 0, 1), (1, 0, 3), (2, 2, 3)])
def test_sequences_are_those_of_earlier_versions(name: str, number: int, rank: int, world: int) -> None:
    assert digest(CASES[name](rank=rank, world=world), 90) == RECORDED[name].shares[number]


@pytest.mark.parametrize("name", CASES)
def test_positions_of_earlier_versions_are_resumed(name: str) -> None:
    batches = CASES[name]()
    batches.load_state_dict(RECORDED[name].state)
    state = batches.state_dict()
    assert digest(batches, 40) == RECORDED[name].rest
    walked = CASES[name]()
    list(islice(walked, 37))
    assert walked.state_dict() == state  # the same place, in the form of this version


@cases("name", CASES)
@cases("stop", [0, 1, 50])
def test_positions_of_this_version_are_resumed(name: str, stop: int) -> None:
    batches = CASES[name]()
    list(islice(batches, stop))
    state = batches.state_dict()
    expected = digest(batches, 30)
    for other in (CASES[name](), batches):  # another one, and back
        other.load_state_dict(state)
        assert other.state_dict() == state
        assert digest(other, 30) == expected


class Thirds(Batches[list[int]]):
    """Twelve rows in three batches; odd epochs have none."""

    facts = {"rows": 12}  # noqa: RUF012

    def cut(self, epoch: int) -> list[Any]:
        return [] if epoch % 2 else np.split(self.random(epoch).permutation(12), 3)

    def collate(self, rows: Any) -> list[int]:
        return rows.tolist()  # type: ignore[no-any-return]


def test_a_new_kind_of_batches_is_two_methods() -> None:
    batches = Thirds(seed=4)
    epochs = [list(islice(batches, 3)) for _ in range(3)]
    assert all(sorted(chain(*epoch)) == list(range(12)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    assert batches.state_dict() == {
        "epoch": 4,
        "position": 3,
        "seed": 4,
        "rows": 12,
    }  # epochs without a batch are left out
    ranks = [Thirds(seed=4, rank=rank, world=2) for rank in (0, 1)]
    for whole in epochs[0]:
        assert [next(rank) for rank in ranks] == [whole[0::2], whole[1::2]]


def test_a_state_that_does_not_fit_changes_nothing() -> None:
    batches = Thirds(seed=4)
    next(batches)
    state = batches.state_dict()
    for change, message in (
        (
            {"position": 4},
            r"this state is of other batches: got position 4; expected 0 to 3. Try: resume",
        ),
        ({"position": 1, "epoch": 1}, "got position 1; expected 0 to 0"),
        ({"rows": 13, "position": 0}, r"this state is of other batches \(rows\): got 13; expected 12. Try: resume"),
    ):
        with pytest.raises(DataError, match=message):
            batches.load_state_dict(state | change)
        assert batches.state_dict() == state
    with pytest.raises(DataError, match=r"state of Thirds: got \['rows'\]; expected epoch, position, seed, rows"):
        batches.load_state_dict({"rows": 12})


@pytest.mark.parametrize("first", ["tokens", "captions", "rows"])
@pytest.mark.parametrize("second", ["tokens", "captions", "rows"])
def test_a_state_of_another_kind_is_refused(first: str, second: str) -> None:
    if first != second:
        with pytest.raises(DataError, match=r"this (is not the state of|state is of other batches)"):
            CASES[first]().load_state_dict(CASES[second]().state_dict())


def test_wrong_settings() -> None:
    with pytest.raises(ConfigError, match="Thirds rank: got rank 2 of 2; expected 0 to world − 1"):
        Thirds(rank=2, world=2)
    with pytest.raises(ConfigError, match="Thirds seed: got -1; expected 0 or more"):
        Thirds(seed=-1)
