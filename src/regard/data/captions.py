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

from regard.base import ConfigError
from regard.data.batches import Batches, Numbers
from regard.data.parallel import DataError
from regard.data.tokens import Pair, TokenBatch, collate

BUCKET = 16  # batches whose pictures are sorted by length together


class CaptionBatches(Batches[TokenBatch]):
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

    cure = "resume with the captions, the batch_size, and as many captions of each picture, that the run began with"

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
        super().__init__(seed=seed, rank=rank, world=world)
        if captions < 1:
            raise ConfigError("CaptionBatches captions", got=captions, expected="1 or more")
        if batch_size < captions * world:
            got, cure = f"{batch_size} for {captions} captions on {world} ranks", "raise batch_size"
            raise ConfigError("CaptionBatches batch_size", got=got, expected="a picture for each rank", cure=cure)
        if fit is not None and fit < 1:
            raise ConfigError("CaptionBatches fit", got=fit, expected="1 or more")
        self.pictures, self.captions, self.fit = batch_size // captions, captions, fit
        self._pairs = [(tuple(source), tuple(target)) for source, target in pairs]
        self._order, self._counts = _by_picture([source for source, _ in self._pairs])
        self._lengths = np.array([len(target) for _, target in self._pairs], np.int64)
        if len(self._counts) < world:
            got = f"{len(self._counts)} pictures and {world} ranks"
            raise DataError("too few pairs to make batches of", got=got, expected="a picture for each rank")

    @property
    def facts(self) -> dict[str, Any]:
        """The checksum of all pairs, and of how many captions a picture has in a batch."""
        return {"data": self._checksum}

    def cut(self, epoch: int) -> list[Numbers]:
        """Pairs [p c], a row for each picture, in batches of nearly one size, in random order."""
        random = self.random(epoch)
        count = min(-(-len(self._counts) // self.pictures), len(self._counts) // self.world)
        shuffled = random.permutation(self._drawn(random))[: count * self.pictures]
        longest = self._lengths[shuffled].max(1)
        cuts = len(shuffled) * np.arange(count + 1) // count  # each batch has as many, give or take one
        bucket = np.repeat(np.arange(count) // BUCKET, np.diff(cuts))
        order = shuffled[np.lexsort((longest, bucket))]
        batches = np.split(order, cuts[1:-1])
        return [batches[number] for number in random.permutation(count)]

    def collate(self, rows: Numbers) -> TokenBatch:
        """The captions of these pictures, one after the other, padded to few shapes if asked."""
        indices = rows.ravel().tolist()
        batch = replace(collate([self._pairs[row] for row in indices], source_eos=False), indices=indices)
        if self.fit is None:
            return batch
        full = -(-self.pictures // self.world) * self.captions
        return batch.fitted(rows=full, multiple=self.fit)

    @cached_property
    def _checksum(self) -> str:
        ids = np.array([number for pair in self._pairs for side in pair for number in (len(side), *side)], np.int64)
        return blake2b(ids.tobytes() + str(self.captions).encode(), digest_size=8).hexdigest()

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
