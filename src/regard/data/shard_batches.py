"""Batches of sentence pairs from shards on disk: shuffled by blocks, with an exact position, in memory of one window.

Each pass over the corpus draws an order of its blocks and cuts it into windows of equal size. A window is read, and its
pairs are shuffled and cut into batches by length, as `TokenBatches` does with all pairs of a smaller corpus.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from regard.base import ConfigError
from regard.data.batches import Batches, Numbers
from regard.data.parallel import DataError
from regard.data.shards import BLOCK, Shards
from regard.data.tokens import PackedPairs, TokenBatch, check_limits, cut_batches

WINDOW = 2**18  # pairs


class ShardBatches(Batches[TokenBatch]):
    """Batches without end, pass after pass over the shards; pairs of like length of one window share a batch.

    What `Batches` calls an epoch is one window here: `epoch` counts windows from the start of the training on, and
    `position` the batches of this window that have been given out. So going on from a position reads one window, and
    nothing of what was before it. `window` is how many pairs are shuffled together; with as many as there are, a pass
    is shuffled as a whole.

    The limits of a batch, the shares of `world` ranks and `fit` are those of `TokenBatches`. A pair that does not fit
    `world` times into `max_tokens` is left out. `indices` of a batch are the numbers of its pairs in the shards.
    """

    cure = "resume with the text, task.window and the limits of a batch that the run began with"

    def __init__(
        self,
        shards: Shards,
        *,
        window: int = WINDOW,
        max_tokens: int | None = None,
        batch_size: int | None = None,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        fit: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(seed=seed, rank=rank, world=world)
        check_limits(max_tokens, batch_size)
        if window < 1:
            raise ConfigError("ShardBatches window", got=window, expected="1 or more pairs")
        if fit is not None and min(fit) < 1:
            raise ConfigError("ShardBatches fit", got=fit, expected="1 or more of each")
        if batch_size is not None and batch_size < world:
            cure = "raise batch_size, which counts the pairs of all ranks together"
            raise ConfigError("ShardBatches batch_size", got=batch_size, expected=f"at least world, {world}", cure=cure)
        if shards.blocks == 0:
            raise DataError("there are no pairs to make batches of", got=0, expected="1 or more")
        self.shards, self.max_tokens, self.batch_size, self.fit = shards, max_tokens, batch_size, fit
        average = shards.pairs / shards.blocks
        self.windows = max(1, min(shards.blocks, round(shards.pairs / max(window, average))))  # of a pass
        self._window: PackedPairs | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """The checksum of the shards, and into how many windows a pass is cut."""
        return {"data": self.shards.checksum, "windows": self.windows}

    @property
    def passes(self) -> int:
        """How often the whole corpus has been seen."""
        return self.epoch // self.windows

    def blocks(self, epoch: int) -> Numbers:
        """The blocks of a window; `epoch` counts windows."""
        number, place = divmod(epoch, self.windows)
        order = np.random.default_rng([self.seed, number, BLOCK]).permutation(self.shards.blocks)
        parts = np.linspace(0, len(order), self.windows + 1).astype(np.int64)
        return order[parts[place] : parts[place + 1]]

    def cut(self, epoch: int) -> list[Numbers]:
        """Reads a window and cuts it into global batches."""
        self._window = None  # before the next one is read
        stored = self.shards.read(self.blocks(epoch))
        window = self._window = PackedPairs.from_arrays(stored.ids, stored.lengths, stored.numbers)
        longest = window.lengths.max(initial=0) if self.max_tokens is None else self.max_tokens // self.world
        kept = np.flatnonzero(window.lengths <= longest)
        if len(kept) < self.world:
            return []
        limits = self.max_tokens, self.batch_size
        return cut_batches(window, kept, self.random(epoch), limits=limits, world=self.world)

    def collate(self, rows: Numbers) -> TokenBatch:
        """These pairs of the window, padded, to few shapes if asked."""
        assert self._window is not None
        batch = self._window.batch(rows)
        return batch if self.fit is None else batch.fitted(rows=self.fit[0], multiple=self.fit[1])

    def upgraded(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """A state of batches in memory is refused with the way to go on."""
        if "data" in state and "windows" not in state:
            cure = "set task.reading=memory"
            raise DataError("this run began with its text in memory", got="text in shards", cure=cure)
        return state

    def __next__(self) -> TokenBatch:
        empty = 0
        while self.position >= self.epoch_length():
            empty += self.epoch_length() == 0
            if empty > self.windows:
                limit = f"max_tokens={self.max_tokens} for each of {self.world} ranks"
                raise DataError("no pair of the corpus fits into a batch", got=limit, cure="raise max_tokens")
            self.epoch, self.position = self.epoch + 1, 0
        return super().__next__()
