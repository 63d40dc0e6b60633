"""Batches of pictures with several captions each, so that a picture is encoded once for all of them.

>>> batches = CaptionBatches([([n], [5 + n] * n) for n in (1, 1, 2)], batch_size=4, captions=2)
>>> batch = next(batches)
>>> batch.source[:, 0].tolist() in ([1, 1, 2, 2], [2, 2, 1, 1])  # picture 2 has one caption, which comes twice
True
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.base import ConfigError
from regard.data.batch import Batch, Pair, collate
from regard.data.parallel import DataError

Numbers = NDArray[np.int64]
BUCKET = 16  # batches whose pictures are sorted by length together


class CaptionBatches:
    """Batches without end, epoch after epoch, shuffled by `seed` and epoch: `captions` captions of each picture.

    A pair is ([number of the picture], ids of a caption). An epoch has each picture once, with captions that are drawn
    anew; a picture with too few has some of them again. A batch has batch_size // captions pictures or, where they do
    not come out even, one fewer. Rows p · captions … p · captions + captions − 1 belong to picture p of the batch.
    Pictures whose longest drawn captions are alike stand together, within every 16 batches.

    These are global batches: each of `world` ranks gets every world-th picture of each. Where an epoch's last pictures
    are too few for all ranks, some wait for another epoch.

    With `fit` m each batch is padded to its full number of pictures and to a multiple of m words: few shapes.

    `state_dict` after a batch is the exact position: what follows `load_state_dict` is what would have followed.
    """

    def __init__(
        self,
        pairs: Iterable[Pair],
        *,
        batch_size: int,
        captions: int,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        fit: int | None = None,
    ) -> None:
        if captions < 1:
            raise ConfigError("CaptionBatches captions", got=captions, expected="1 or more")
        if not 0 <= rank < world:
            raise ConfigError("CaptionBatches rank", got=f"rank {rank} of {world}", expected="0 to world − 1")
        if batch_size < captions * world:
            got, cure = f"{batch_size} for {captions} captions on {world} ranks", "raise batch_size"
            raise ConfigError("CaptionBatches batch_size", got=got, expected="a picture for each rank", cure=cure)
        if seed < 0:
            raise ConfigError("CaptionBatches seed", got=seed, expected="0 or more")
        if fit is not None and fit < 1:
            raise ConfigError("CaptionBatches fit", got=fit, expected="1 or more")
        self.pictures, self.captions, self.rank, self.world = batch_size // captions, captions, rank, world
        self.seed, self.epoch, self.position, self.fit = seed, 0, 0, fit
        self._pairs = [(tuple(source), tuple(target)) for source, target in pairs]
        self._order, self._counts = _by_picture([source for source, _ in self._pairs])
        self._lengths = np.array([len(target) for _, target in self._pairs], np.int64)
        if len(self._counts) < world:
            got = f"{len(self._counts)} pictures and {world} ranks"
            raise DataError("too few pairs to make batches of", got=got, expected="a picture for each rank")
        self._planned: tuple[int, int, list[Numbers]] | None = None

    def epoch_length(self) -> int:
        """How many batches an epoch has, on every rank."""
        return min(-(-len(self._counts) // self.pictures), len(self._counts) // self.world)

    def state_dict(self) -> dict[str, Any]:
        """Where we are: this many batches of this epoch have been given out, and of which data."""
        return {"epoch": self.epoch, "position": self.position, "seed": self.seed, "data": self._checksum}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`, on the same data with the same settings."""
        missing = {"epoch", "position", "seed"} - set(state)
        if missing:
            expected = "epoch, position, seed"
            raise DataError("this is not the state of CaptionBatches", got=sorted(state), expected=expected)
        if state.get("data") != self._checksum:
            cure = "resume with the captions, and as many of each picture, that the run began with"
            raise DataError("this state is of other data", cure=cure)
        if not 0 <= int(state["position"]) <= self.epoch_length():
            got, expected = f"position {state['position']}", f"0 to {self.epoch_length()}"
            cure = "resume with the batch_size of the first run"
            raise DataError("this state is of other batches", got=got, expected=expected, cure=cure)
        self.epoch, self.position, self.seed = int(state["epoch"]), int(state["position"]), int(state["seed"])

    def __iter__(self) -> "CaptionBatches":
        return self

    def __next__(self) -> Batch:
        if self.position >= self.epoch_length():
            self.epoch, self.position = self.epoch + 1, 0
        rows = self._batches()[self.position][self.rank :: self.world].ravel().tolist()
        self.position += 1
        batch = replace(collate([self._pairs[row] for row in rows], source_eos=False), indices=rows)
        if self.fit is None:
            return batch
        full = -(-self.pictures // self.world) * self.captions
        return batch.fitted(rows=full, multiple=self.fit)

    @cached_property
    def _checksum(self) -> str:
        """Of all pairs, and of how many captions a picture has in a batch."""
        ids = np.array([number for pair in self._pairs for side in pair for number in (len(side), *side)], np.int64)
        return blake2b(ids.tobytes() + str(self.captions).encode(), digest_size=8).hexdigest()

    def _batches(self) -> list[Numbers]:
        """The global batches of this epoch, planned once: pairs [p c], a row for each picture."""
        if self._planned is None or self._planned[:2] != (self.seed, self.epoch):
            self._planned = (self.seed, self.epoch, self._plan())
        return self._planned[2]

    def _plan(self) -> list[Numbers]:
        random, count = np.random.default_rng([self.seed, self.epoch]), self.epoch_length()
        shuffled = random.permutation(self._drawn(random))[: count * self.pictures]
        longest = self._lengths[shuffled].max(1)
        cuts = len(shuffled) * np.arange(count + 1) // count  # each batch has as many, give or take one
        bucket = np.repeat(np.arange(count) // BUCKET, np.diff(cuts))
        order = shuffled[np.lexsort((longest, bucket))]
        batches = np.split(order, cuts[1:-1])
        return [batches[number] for number in random.permutation(count)]

    def _drawn(self, random: np.random.Generator) -> Numbers:
        """For each picture some of its captions, without a second time before each had its first."""
        picture = np.repeat(np.arange(len(self._counts)), self._counts)
        mixed = self._order[np.lexsort((random.random(len(picture)), picture))]
        starts = np.cumsum(self._counts) - self._counts
        return mixed[starts[:, None] + np.arange(self.captions) % self._counts[:, None]]


def _by_picture(sources: list[Sequence[int]]) -> tuple[Numbers, Numbers]:
    """An order in which the pairs of a picture stand together, and how many each picture has."""
    for row, source in enumerate(sources):
        if len(source) != 1:
            got = f"{len(source)} numbers in pair {row}"
            raise DataError("the source of a caption is its picture", got=got, expected="one number")
    pictures = np.array([number for (number,) in sources], np.int64)
    _, counts = np.unique(pictures, return_counts=True)
    return np.argsort(pictures, kind="stable"), counts.astype(np.int64)
