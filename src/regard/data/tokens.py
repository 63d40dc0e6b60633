"""Batches of sentence pairs: little padding, exact positions, the same global batches on any number of ranks.

>>> batch = collate([([5, 6], [7]), ([5], [8, 9])])
>>> batch.source.tolist(), batch.inputs.tolist(), batch.targets.tolist(), batch.num_tokens
([[5, 6, 2], [5, 2, 0]], [[1, 7, 0], [1, 8, 9]], [[7, 2, 0], [8, 9, 2]], 5)
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import chain
from math import ceil, isqrt
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from regard.base import ConfigError
from regard.data.batches import Batches, Numbers
from regard.data.parallel import DataError
from regard.data.text import BOS, EOS, PAD

Pair = tuple[Sequence[int], Sequence[int]]  # ids of source and target, without <bos> and <eos>
Limits = tuple[int | None, int | None]  # of a batch: max_tokens, batch_size


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """Pairs side by side, padded with <pad>. `inputs` is <bos> + target, `targets` is target + <eos>."""

    source: Int[Tensor, "b k"]
    source_lengths: Int[Tensor, " b"]
    inputs: Int[Tensor, "b t"]
    targets: Int[Tensor, "b t"]
    target_lengths: Int[Tensor, " b"]
    indices: list[int]  # which pair of the data each row is

    @cached_property
    def num_tokens(self) -> int:
        """How many tokens there are to predict, <eos> included."""
        return int(self.target_lengths.sum())

    @property
    def count(self) -> int:
        """What a loss over this batch is divided by: `num_tokens`."""
        return self.num_tokens

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor, by name."""
        names = ("source", "source_lengths", "inputs", "targets", "target_lengths")
        return {name: getattr(self, name) for name in names}

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> "TokenBatch":
        """The same pairs, read from other tensors of the same content."""
        other = replace(self, **tensors)  # type: ignore[arg-type]
        other.__dict__["num_tokens"] = self.num_tokens  # counted here, so that nobody waits for the device
        return other

    def fitted(self, *, rows: int, multiple: int) -> "TokenBatch":
        """Padded until the number of pairs is a multiple of `rows`, and both lengths are multiples of `multiple`.

        A pair of padding has <eos> for its source and nothing to predict, so sums over tokens stay as they are. Few
        shapes are what captured graphs need.
        """
        more = -len(self.source) % rows
        sides = {"source": self.source, "inputs": self.inputs, "targets": self.targets}
        fitted = {name: pad(ids, (0, -ids.shape[1] % multiple, 0, more)) for name, ids in sides.items()}
        if more:
            fitted["source"][-more:, 0] = EOS
            fitted["inputs"][-more:, 0] = BOS
        fitted["source_lengths"] = pad(self.source_lengths, (0, more), value=1)
        fitted["target_lengths"] = pad(self.target_lengths, (0, more))
        return self.with_tensors(fitted)

    @property
    def padding_efficiency(self) -> float:
        """The share of source and target places that are not padding."""
        return (self.num_tokens + int(self.source_lengths.sum())) / (self.source.numel() + self.targets.numel())

    def to(self, device: str | torch.device) -> "TokenBatch":
        """The batch on another device."""
        return self.with_tensors({name: tensor.to(device) for name, tensor in self.tensors().items()})

    def __len__(self) -> int:
        return len(self.indices)


class SourceBatch(NamedTuple):
    """Source sentences side by side, each with its <eos>, padded with <pad>: what a search reads."""

    source: Int[Tensor, "b k"]
    source_lengths: Int[Tensor, " b"]
    indices: list[int]  # which pair of the data each row is


def source_batch(pairs: Sequence[Pair], indices: list[int], *, length: int) -> SourceBatch:
    """The sources of these pairs in rows of one length.

    >>> source_batch([([5, 6], [7]), ([], [])], [1, 0], length=4).source.tolist()
    [[2, 0, 0, 0], [5, 6, 2, 0]]
    """
    sentences = [pairs[index][0] for index in indices]
    counts = np.fromiter(map(len, sentences), np.int64, len(sentences))
    ids = np.full((len(sentences), length), PAD, np.int64)
    ids[np.arange(length) < counts[:, None]] = np.fromiter(chain.from_iterable(sentences), np.int64, counts.sum())
    ids[np.arange(len(sentences)), counts] = EOS
    return SourceBatch(torch.from_numpy(ids), torch.from_numpy(counts + 1), indices)


def collate(pairs: Iterable[Pair], *, source_eos: bool = True) -> TokenBatch:
    """One batch of these pairs. With `source_eos` each source sentence ends with <eos>."""
    data = PackedPairs(pairs, source_eos)
    return data.batch(np.arange(data.size))


def evaluation_batches(pairs: Iterable[Pair], *, max_tokens: int = 4096, source_eos: bool = True) -> list[TokenBatch]:
    """Each pair once, sorted by length; `indices` restore the order. A pair beyond `max_tokens` is a batch of its own.

    >>> [batch.indices for batch in evaluation_batches([([5] * 9, [6]), ([5], [6]), ([5], [6])], max_tokens=8)]
    [[1, 2], [0]]
    """
    check_limits(max_tokens, None)
    data = PackedPairs(pairs, source_eos)
    order = np.lexsort((data.target_lengths, data.source_lengths))
    return [data.batch(rows) for rows in _cut(order, data, max_tokens, None)]


class TokenBatches(Batches[TokenBatch]):
    """Batches without end, epoch after epoch, shuffled by `seed` and epoch; pairs of like length share a batch.

    A batch holds up to `max_tokens` source and up to `max_tokens` target places, padding included, or up to
    `batch_size` pairs, or both. These are global batches: each of `world` ranks gets every world-th pair of each, so
    the pairs of a step and the steps of an epoch do not depend on the number of ranks. There are two limits to this:
    a pair must fit `world` times into `max_tokens`, and if the last pairs of an epoch are too few for all ranks, they
    are spread over the last two batches in another way or wait for the next epoch.

    With `fit` (r, m) each batch is padded to a multiple of r pairs and of m places, so that there are few shapes.

    `state_dict` after a batch is the exact position: what follows `load_state_dict` is what would have followed.

    >>> batches = TokenBatches([([5] * n, [6] * n) for n in range(1, 9)], batch_size=4, seed=1)
    >>> first, state, second = next(batches), batches.state_dict(), next(batches)
    >>> {name: state[name] for name in ("epoch", "position", "seed")}
    {'epoch': 0, 'position': 1, 'seed': 1}
    >>> batches.load_state_dict(state)
    >>> next(batches).indices == second.indices
    True
    """

    cure = "resume with the text, and the limits of a batch, that the run began with"

    def __init__(
        self,
        pairs: Iterable[Pair],
        *,
        max_tokens: int | None = None,
        batch_size: int | None = None,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        source_eos: bool = True,
        on_long: Literal["error", "drop"] = "error",
        fit: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(seed=seed, rank=rank, world=world)
        check_limits(max_tokens, batch_size)
        if on_long not in ("error", "drop"):
            raise ConfigError("TokenBatches on_long", got=repr(on_long), expected="'error' or 'drop'")
        if fit is not None and min(fit) < 1:
            raise ConfigError("TokenBatches fit", got=fit, expected="1 or more of each")
        if batch_size is not None and batch_size < world:
            cure = "raise batch_size, which counts the pairs of all ranks together"
            raise ConfigError("TokenBatches batch_size", got=batch_size, expected=f"at least world, {world}", cure=cure)
        self.max_tokens, self.batch_size, self.fit = max_tokens, batch_size, fit
        self._data = PackedPairs(pairs, source_eos)
        self._kept = self._kept_pairs(on_long)
        self.dropped = self._data.size - len(self._kept)
        if len(self._kept) < world:
            got = f"{len(self._kept)} pairs and {world} ranks" + f", {self.dropped} dropped" * (self.dropped > 0)
            raise DataError("too few pairs to make batches of", got=got, expected="a pair for each rank")

    @property
    def facts(self) -> dict[str, Any]:
        """The checksum of all pairs."""
        return {"data": self._data.checksum}

    def upgraded(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """The first states had no checksum of the data: they are taken as they are."""
        return {**state, **self.facts} if set(state) == {"epoch", "position", "seed"} else state

    def cut(self, epoch: int) -> list[Numbers]:
        """Pairs of like length together, in batches as large as the limits allow, in random order."""
        limits = self.max_tokens, self.batch_size
        return cut_batches(self._data, self._kept, self.random(epoch), limits=limits, world=self.world)

    def collate(self, rows: Numbers) -> TokenBatch:
        """These pairs, padded, to few shapes if asked."""
        batch = self._data.batch(rows)
        return batch if self.fit is None else batch.fitted(rows=self.fit[0], multiple=self.fit[1])

    def _kept_pairs(self, on_long: str) -> Numbers:
        """The pairs that fit `world` times into a batch."""
        lengths = self._data.lengths
        limit = lengths.max(initial=0) if self.max_tokens is None else self.max_tokens // self.world
        long = np.flatnonzero(lengths > limit)
        if len(long) and on_long == "error":
            share = f", max_tokens for each of {self.world} ranks" * (self.world > 1)
            raise DataError(
                f"pair {long[0]} is too long for a batch",
                got=f"{lengths[long[0]]} tokens ({len(long)} such pairs)",
                expected=f"at most {limit}{share}",
                cure="raise max_tokens, or pass on_long='drop'",
            )
        return np.flatnonzero(lengths <= limit)


class PackedPairs:
    """Many short lists of ids in one array: a tenth of the memory of lists, and batches without a loop over tokens."""

    def __init__(self, pairs: Iterable[Pair], source_eos: bool) -> None:
        ids, ends = array("i", [PAD]), array("q", [1])
        for source, target in pairs:
            if len(source) == 0 and not source_eos:
                got = f"pair {len(ends) // 2} without source tokens"
                raise DataError("an empty source sentence", got=got, cure="leave it out, or pass source_eos=True")
            for side in (source, target):
                ids.extend(side)
                ends.append(len(ids))
        self._take(np.frombuffer(ids, dtype=np.int32), np.frombuffer(ends, dtype=np.int64), source_eos)

    @classmethod
    def from_arrays(cls, ids: NDArray[Any], lengths: NDArray[Any], numbers: Numbers) -> "PackedPairs":
        """Pairs whose sides stand end to end in `ids`; `lengths` are of source, target, source, … [2n]."""
        packed = cls.__new__(cls)
        ends = np.concatenate([[1], 1 + np.cumsum(lengths, dtype=np.int64)])
        packed._take(np.concatenate([np.array([PAD], ids.dtype), ids]), ends, True, numbers)
        return packed

    def _take(self, ids: NDArray[Any], ends: Numbers, source_eos: bool, numbers: Numbers | None = None) -> None:
        self._ids, self._ends, self._source_eos, self._numbers = ids, ends, source_eos, numbers
        lengths = np.diff(ends)
        self.source_lengths: Numbers = lengths[::2] + source_eos
        self.target_lengths: Numbers = lengths[1::2] + 1  # <eos>

    @cached_property
    def checksum(self) -> str:
        """Of all ids and lengths."""
        return blake2b(self._ids.tobytes() + self._ends.tobytes(), digest_size=8).hexdigest()

    @property
    def size(self) -> int:
        """The number of pairs."""
        return len(self.source_lengths)

    @property
    def lengths(self) -> Numbers:
        """The places that each pair needs, on its longer side."""
        return np.maximum(self.source_lengths, self.target_lengths)

    def batch(self, rows: Numbers) -> TokenBatch:
        """These pairs as a batch."""
        source, target = self._matrix(2 * rows), self._matrix(2 * rows + 1)
        inputs, every = np.roll(target, 1, axis=1), np.arange(len(rows))
        inputs[:, 0] = BOS
        target[every, self.target_lengths[rows] - 1] = EOS
        if self._source_eos:
            source[every, self.source_lengths[rows] - 1] = EOS
        else:
            source = source[:, :-1].copy()
        return TokenBatch(
            source=torch.from_numpy(source),
            source_lengths=torch.from_numpy(self.source_lengths[rows]),
            inputs=torch.from_numpy(inputs),
            targets=torch.from_numpy(target),
            target_lengths=torch.from_numpy(self.target_lengths[rows]),
            indices=(rows if self._numbers is None else self._numbers[rows]).tolist(),
        )

    def _matrix(self, sides: Numbers) -> Numbers:
        """These sides, padded to one more than the longest."""
        starts, ends = self._ends[sides], self._ends[sides + 1]
        places = starts[:, None] + np.arange((ends - starts).max(initial=0) + 1)
        return self._ids[np.where(places < ends[:, None], places, 0)].astype(np.int64)  # at place 0 stands PAD


def cut_batches(
    data: PackedPairs, kept: Numbers, random: np.random.Generator, *, limits: Limits, world: int
) -> list[Numbers]:
    """Global batches of the pairs `kept`, those of like length together, in random order.

    A batch is as large as the limits allow. The last two are evened out, so that each has a pair for each rank.
    """
    max_tokens, batch_size = limits
    rows = random.permutation(kept)
    source, target = data.source_lengths[rows], data.target_lengths[rows]
    by_tokens = 0 if max_tokens is None else max(int(source.sum()), int(target.sum())) / max_tokens
    by_pairs = 0 if batch_size is None else len(rows) / batch_size
    order = rows[_by_length(source, target, ceil(max(by_tokens, by_pairs)))]
    batches = list(_cut(order, data, max_tokens, batch_size))
    if len(batches) > 1:
        batches[-2:] = _even_out(batches[-2], batches[-1], data, limits, world)
    return [batches[number] for number in random.permutation(len(batches))]


def _even_out(before: Numbers, last: Numbers, data: PackedPairs, limits: Limits, world: int) -> list[Numbers]:
    """The last batch may be tiny: it takes pairs of the one before, half of all if that fits."""
    both = np.concatenate([before, last])
    half = both[-(len(both) // 2) :]
    if len(last) < len(half) and len(list(_cut(half, data, *limits))) == 1:
        last = half
    if len(last) < world <= len(both) // 2:
        last = both[-world:]
    return [both[: -len(last)], last] if len(last) >= world else [before]


def _by_length(source: Numbers, target: Numbers, num_batches: int) -> Numbers:
    """An order in which neighbours are alike on both sides, equals as they come, short targets at the end.

    Sorted by target, cut into √2n slices for n batches; each slice sorted by source, up and down by turns.
    """
    order = np.argsort(-target, kind="stable")
    total = np.cumsum(target[order])
    slices = total * isqrt(2 * num_batches) // (total[-1] + 1)
    turn = np.where(slices % 2 == 0, 1, -1)
    return order[np.lexsort((turn * source[order], slices))]


def _cut(order: Numbers, data: PackedPairs, max_tokens: int | None, batch_size: int | None) -> Iterator[Numbers]:
    """Runs of `order` that keep both limits, each as long as possible, none empty."""
    lengths = np.maximum(data.source_lengths[order], data.target_lengths[order]).tolist()
    start = widest = 0
    for place, length in enumerate(lengths):
        widest = max(widest, length)
        rows = place - start + 1
        full = (max_tokens is not None and rows * widest > max_tokens) or (batch_size is not None and rows > batch_size)
        if full and rows > 1:
            yield order[start:place]
            start, widest = place, length
    if start < len(order):
        yield order[start:]


def check_limits(max_tokens: int | None, batch_size: int | None) -> None:
    """An error where the limits of a batch are none, or no numbers of things."""
    for name, size in (("max_tokens", max_tokens), ("batch_size", batch_size)):
        if size is not None and size < 1:
            raise ConfigError(name, got=size, expected="1 or more")
    if max_tokens is None and batch_size is None:
        raise ConfigError(
            "the size of a batch", got="neither max_tokens nor batch_size", expected="one or both of them"
        )
