"""Batches without end, with an exact position: what batches of text, of captions and of pictures have in common.

`Batches` owns the epoch, the position in it, the share of each rank, and what is saved. A subclass says what differs:
how an epoch is cut into batches, and what a batch is made of.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.base import ConfigError
from regard.data.parallel import DataError

Numbers = NDArray[np.int64]
Made = TypeVar("Made", covariant=True)  # the type of a batch


class Batches(ABC, Generic[Made]):
    """Batches without end, epoch after epoch, shuffled by `seed` and epoch.

    A subclass cuts an epoch into global batches (`cut`) and makes a batch of rows (`collate`). Each of `world` ranks
    gets every world-th row of each global batch, so the rows of a step do not depend on the number of ranks.

    `state_dict` after a batch is the exact position: what follows `load_state_dict` is what would have followed.

    >>> class Halves(Batches[list[int]]):
    ...     facts = {"size": 6}
    ...     def cut(self, epoch):
    ...         return np.split(self.random(epoch).permutation(6), 2)
    ...     def collate(self, rows):
    ...         return rows.tolist()
    >>> batches = Halves(seed=1)
    >>> first, state, second = next(batches), batches.state_dict(), next(batches)
    >>> sorted(first + second), state
    ([0, 1, 2, 3, 4, 5], {'epoch': 0, 'position': 1, 'seed': 1, 'size': 6})
    >>> batches.load_state_dict(state)
    >>> next(batches) == second
    True
    """

    cure = "resume with the data and the settings of the first run"  # for a state that does not fit

    def __init__(self, *, seed: int = 0, rank: int = 0, world: int = 1) -> None:
        if not 0 <= rank < world:
            raise ConfigError(f"{self._name} rank", got=f"rank {rank} of {world}", expected="0 to world − 1")
        if seed < 0:
            raise ConfigError(f"{self._name} seed", got=seed, expected="0 or more")
        self.seed, self.rank, self.world = seed, rank, world
        self.epoch, self.position = 0, 0  # so many batches of this epoch have been given out
        self._planned: tuple[int, int, Sequence[Numbers]] | None = None

    @property
    @abstractmethod
    def facts(self) -> Mapping[str, Any]:
        """What a saved position depends on, such as a checksum of the data; it is saved, and compared, with it."""

    @abstractmethod
    def cut(self, epoch: int) -> Sequence[Numbers]:
        """The global batches of an epoch, each an array with a row for whatever the ranks share out.

        It may depend on the settings and on `random(epoch)` only, or a position would mean something else tomorrow.
        """

    @abstractmethod
    def collate(self, rows: Numbers) -> Made:
        """A batch of these rows, which are this rank's share of a global batch."""

    def upgraded(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """A state that an earlier version saved, in the form of this one; any other state as it is."""
        return state

    def random(self, epoch: int) -> np.random.Generator:
        """The source of chance of an epoch: the same one at every call, on every rank."""
        return np.random.default_rng([self.seed, epoch])

    def epoch_length(self) -> int:
        """How many batches this epoch has, on every rank."""
        return len(self._batches())

    def state_dict(self) -> dict[str, Any]:
        """The exact position: how many batches of which epoch have been given out, and of which data."""
        return {"epoch": self.epoch, "position": self.position, "seed": self.seed, **self.facts}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, on the same data with the same settings; a state that does not fit changes nothing."""
        current = self.upgraded(state)
        names = ("epoch", "position", "seed", *self.facts)
        if set(names) - set(current):
            raise DataError(f"this is not the state of {self._name}", got=sorted(state), expected=", ".join(names))
        for name, value in self.facts.items():
            if current[name] != value:
                what = f"this state is of other batches ({name})"
                raise DataError(what, got=current[name], expected=value, cure=self.cure)
        before = self.epoch, self.position, self.seed
        self.epoch, self.position, self.seed = (int(current[name]) for name in ("epoch", "position", "seed"))
        length = self.epoch_length()
        if not 0 <= self.position <= length:
            got = f"position {self.position}"
            self.epoch, self.position, self.seed = before
            raise DataError("this state is of other batches", got=got, expected=f"0 to {length}", cure=self.cure)

    def __iter__(self) -> "Batches[Made]":
        return self

    def __next__(self) -> Made:
        while self.position >= self.epoch_length():
            self.epoch, self.position = self.epoch + 1, 0
        rows = self._batches()[self.position]
        self.position += 1
        return self.collate(rows[self.rank :: self.world])

    def _batches(self) -> Sequence[Numbers]:
        """The global batches of this epoch, cut once."""
        if self._planned is None or self._planned[:2] != (self.seed, self.epoch):
            self._planned = (self.seed, self.epoch, self.cut(self.epoch))
        return self._planned[2]

    @property
    def _name(self) -> str:
        return type(self).__name__
