"""Streams of a running text: its parts are read side by side, window after window, each token predicted exactly once.

>>> first, second = stream_windows(np.array([5, 6, 7, 8, 9]), streams=2, length=2)
>>> first.inputs.tolist(), first.targets.tolist(), first.begins.tolist()
([[2, 5], [7, 8]], [[5, 6], [8, 9]], [True, True])
>>> second.inputs.tolist(), second.targets.tolist(), second.count
([[6, 0], [0, 0]], [[7, 0], [0, 0]], 1)
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.base import ConfigError
from regard.data.batches import Batches, Numbers
from regard.data.parallel import DataError
from regard.data.text import EOS, PAD


@dataclass(frozen=True, eq=False)
class StreamBatch:
    """A window of every stream: what is read, what comes next (<pad> where nothing is), and which streams begin.

    Windows at any places, not in the order of the text, have the words `before` them, <pad> where there is none.
    """

    inputs: Int[Tensor, "b t"]
    targets: Int[Tensor, "b t"]
    begins: Bool[Tensor, " b"]  # True: there is no state before this window
    before: Int[Tensor, "b n"] | None = None  # the words before inputs, the latest last

    @cached_property
    def count(self) -> int:
        """How many tokens there are to predict."""
        return int((self.targets != PAD).sum())

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor, by name."""
        named = {"inputs": self.inputs, "targets": self.targets, "begins": self.begins}
        return named if self.before is None else {**named, "before": self.before}

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> "StreamBatch":
        """The same window, read from other tensors of the same content."""
        other = replace(self, **tensors)
        other.__dict__["count"] = self.count  # counted here, so that nobody waits for the device
        return other

    def to(self, device: str | torch.device) -> "StreamBatch":
        """The window on another device."""
        return self.with_tensors({name: tensor.to(device) for name, tensor in self.tensors().items()})


class StreamBatches(Batches[StreamBatch]):
    """Windows of `length` tokens of `streams` streams, in the order of the text, epoch after epoch.

    The text is cut into `streams` parts of equal size; the last may be shorter. Each epoch reads every part from its
    start to its end, so a model's state after one window is the state before the next. All windows have one shape.
    Each of `world` ranks gets every world-th stream. `state_dict` is the exact position.

    `shifted` takes the text as a ring, and begins each epoch at another place of it, drawn anew: so the text is cut at
    other places each time. What stands first in the text still follows a line end.

    >>> batches = StreamBatches(np.arange(4, 12), streams=2, length=2)
    >>> [next(batches).targets.tolist() for _ in range(2)]
    [[[4, 5], [8, 9]], [[6, 7], [10, 11]]]
    """

    cure = "resume with the text, task.batch_size, task.length and task.shifted that the run began with"

    def __init__(
        self,
        tokens: Numbers,
        *,
        streams: int,
        length: int,
        shifted: bool = False,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        super().__init__(seed=seed, rank=rank, world=world)
        for name, value in (("streams", streams), ("length", length)):
            if value < 1:
                raise ConfigError(f"StreamBatches {name}", got=value, expected="1 or more")
        if streams < world:
            cure = "streams counts those of all ranks together"
            raise ConfigError("StreamBatches streams", got=streams, expected=f"at least world, {world}", cure=cure)
        if len(tokens) < 1:
            raise DataError("there are no tokens to make batches of", got=0, expected="1 or more")
        self.tokens, self.streams, self.length = np.asarray(tokens, dtype=np.int64), streams, length
        self.shifted = shifted
        self._size = -(-len(self.tokens) // streams)  # tokens of each stream but the last

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The checksum of the text, another one where its start moves, and how it is cut."""
        way = b"shifted" if self.shifted else b""
        checksum = blake2b(self.tokens.tobytes(), digest_size=8, person=way).hexdigest()
        return {"data": checksum, "streams": self.streams, "length": self.length}

    def cut(self, epoch: int) -> list[Numbers]:
        """Of each window, for every stream: where it starts in the text, and where its stream ends."""
        first = int(self.random(epoch).integers(len(self.tokens))) if self.shifted else 0
        starts = first + np.arange(self.streams) * self._size  # beyond the end of the text it goes on at its start
        ends = np.minimum(starts + self._size, first + len(self.tokens))
        windows = range(0, self._size, self.length)
        return [np.stack([starts + window, ends, np.full_like(starts, window == 0)], 1) for window in windows]

    def collate(self, rows: Numbers) -> StreamBatch:
        """These windows as tensors."""
        starts, ends, begins = rows.T
        places = starts[:, None] + np.arange(self.length)
        real = places < ends[:, None]
        here = np.where(real, places % len(self.tokens), 0)
        before = np.where(here > 0, self.tokens[here - 1], EOS)  # the text follows a line end
        return StreamBatch(
            inputs=torch.from_numpy(np.where(real, before, PAD)),
            targets=torch.from_numpy(np.where(real, self.tokens[here], PAD)),
            begins=torch.from_numpy(begins > 0),
        )


class WindowBatches(Batches[StreamBatch]):
    """Windows of `length` tokens from all over the text, in an order that each epoch draws anew, with words before.

    Every token is predicted once in an epoch. Windows that follow each other in training have nothing in common, while
    in streams they are neighbours.

    >>> batch = next(WindowBatches(np.arange(4, 12), windows=2, length=1, before=3))
    >>> batch.targets.tolist(), batch.inputs.tolist(), batch.before.tolist()
    ([[6], [8]], [[5], [7]], [[0, 2, 4], [4, 5, 6]])
    """

    cure = "resume with the text, task.batch_size, task.length and task.before that the run began with"

    def __init__(
        self,
        tokens: Numbers,
        *,
        windows: int,
        length: int,
        before: int,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        super().__init__(seed=seed, rank=rank, world=world)
        for name, value, least in (("windows", windows, world), ("length", length, 1), ("before", before, 0)):
            if value < least:
                raise ConfigError(f"WindowBatches {name}", got=value, expected=f"{least} or more")
        if len(tokens) < 1:
            raise DataError("there are no tokens to make batches of", got=0, expected="1 or more")
        self.tokens = np.asarray(tokens, dtype=np.int64)
        self.windows, self.length, self.before = windows, length, before
        self._padded = np.concatenate([np.full(before, PAD), [EOS], self.tokens, np.full(length, PAD)])

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The checksum of the text, and how it is cut."""
        checksum = blake2b(self.tokens.tobytes(), digest_size=8).hexdigest()
        return {"data": checksum, "windows": self.windows, "length": self.length, "before": self.before}

    def cut(self, epoch: int) -> list[Numbers]:
        """Where each window starts; the last batch is filled up with windows behind the end, which are empty."""
        starts = self.random(epoch).permutation(np.arange(0, len(self.tokens), self.length))
        missing = -len(starts) % self.windows
        starts = np.concatenate([starts, np.full(missing, len(self.tokens))])
        return list(starts.reshape(-1, self.windows))

    def collate(self, rows: Numbers) -> StreamBatch:
        """These windows as tensors."""
        here = rows[:, None] + np.arange(self.length) + self.before  # of the inputs, in the padded text
        targets = self._padded[here + 1]
        return StreamBatch(
            inputs=torch.from_numpy(np.where(targets == PAD, PAD, self._padded[here])),
            targets=torch.from_numpy(targets),
            begins=torch.zeros(len(rows), dtype=torch.bool),
            before=torch.from_numpy(self._padded[rows[:, None] + np.arange(self.before)]),
        )


def stream_windows(tokens: Numbers, *, streams: int, length: int) -> Iterator[StreamBatch]:
    """All windows of one pass over a text: each token is a target exactly once."""
    batches = StreamBatches(tokens, streams=streams, length=length)
    for _ in range(batches.epoch_length()):
        yield next(batches)
