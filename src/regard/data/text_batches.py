"""Batches of texts, or of pairs of texts, with a label each: bucketed by length, with an exact position.

>>> batch = text_batch([([5, 6],), ([7],)], [1, 0])
>>> batch.texts.tolist(), batch.lengths.tolist(), batch.labels.tolist()
([[[5, 6]], [[7, 0]]], [[2], [1]], [[1], [0]])
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import pad

from regard.base import ConfigError
from regard.data.batches import Batches, Numbers
from regard.data.parallel import DataError
from regard.data.pictures import IGNORE
from regard.data.text import PAD, UNK

Ids = tuple[Sequence[int], ...]  # the words of one example: one sequence for each of its texts
SPREAD = 0.1  # by up to this share a length is taken for more than it is, so that batches differ from epoch to epoch


@dataclass(frozen=True, eq=False)
class TextBatch:
    """Examples side by side: s texts each, padded with <pad>, and a label; rows of padding have the label IGNORE."""

    texts: Int[Tensor, "b s k"]
    lengths: Int[Tensor, "b s"]
    labels: Int[Tensor, "b 1"]
    indices: list[int]  # which example of the data each row is

    @property
    def count(self) -> int:
        """What a loss over this batch is divided by: the number of examples, without rows of padding."""
        return len(self.indices)

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor, by name."""
        return {"texts": self.texts, "lengths": self.lengths, "labels": self.labels}

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> "TextBatch":
        """The same examples, read from other tensors of the same content."""
        return replace(self, **tensors)  # type: ignore[arg-type]

    def to(self, device: str | torch.device) -> "TextBatch":
        """The batch on another device."""
        return self.with_tensors({name: tensor.to(device) for name, tensor in self.tensors().items()})

    def fitted(self, *, rows: int, multiple: int) -> "TextBatch":
        """Padded until the number of rows is a multiple of `rows`, and the length a multiple of `multiple`.

        A row of padding has one unknown word and no label, so sums over labelled rows stay as they are. Few shapes are
        what captured graphs need.
        """
        more = -len(self.texts) % rows
        texts = pad(self.texts, (0, -self.texts.shape[2] % multiple, 0, 0, 0, more), value=PAD)
        if more:
            texts[-more:, :, 0] = UNK
        lengths = pad(self.lengths, (0, 0, 0, more), value=1)
        return replace(self, texts=texts, lengths=lengths, labels=pad(self.labels, (0, 0, 0, more), value=IGNORE))

    def __len__(self) -> int:
        return len(self.indices)


def text_batch(examples: Iterable[Ids], labels: Sequence[int] | None = None) -> TextBatch:
    """One batch of these examples; without labels they are IGNORE."""
    data = _PackedTexts(examples, labels)
    return data.batch(np.arange(data.size))


def evaluation_text_batches(
    examples: Iterable[Ids], labels: Sequence[int] | None = None, *, batch_size: int = 64
) -> list[TextBatch]:
    """Each example once, sorted by length; `indices` restore the order.

    >>> [batch.indices for batch in evaluation_text_batches([([5] * 9,), ([5],), ([5, 5],)], batch_size=2)]
    [[1, 2], [0]]
    """
    data = _PackedTexts(examples, labels)
    order = np.argsort(data.widths, kind="stable")
    return [data.batch(order[start : start + batch_size]) for start in range(0, data.size, batch_size)]


class TextBatches(Batches[TextBatch]):
    """Batches of `batch_size` examples without end; examples of like length share a batch.

    These are global batches, of which each of `world` ranks gets every world-th example. With `fit` each batch is
    padded to `batch_size` rows and to a multiple of `fit` words, so that there are few shapes.

    >>> batches = TextBatches([([5] * n,) for n in range(1, 9)], [0] * 8, batch_size=4, seed=1)
    >>> first, state, second = next(batches), batches.state_dict(), next(batches)
    >>> batches.load_state_dict(state)
    >>> next(batches).indices == second.indices
    True
    """

    cure = "resume with the texts, and the size of a batch, that the run began with"

    def __init__(
        self,
        examples: Iterable[Ids],
        labels: Sequence[int],
        *,
        batch_size: int,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        fit: int | None = None,
    ) -> None:
        super().__init__(seed=seed, rank=rank, world=world)
        if batch_size < world:
            cure = "batch_size counts the examples of all ranks together"
            raise ConfigError("TextBatches batch_size", got=batch_size, expected=f"at least world, {world}", cure=cure)
        if fit is not None and fit < 1:
            raise ConfigError("TextBatches fit", got=fit, expected="1 or more")
        self._data = _PackedTexts(examples, labels)
        if self._data.size < world:
            got = f"{self._data.size} examples and {world} ranks"
            raise DataError("too few examples to make batches of", got=got, expected="an example for each rank")
        self.batch_size, self.fit = batch_size, fit

    @property
    def facts(self) -> dict[str, Any]:
        """The checksum of all texts and labels, and the size of a batch."""
        return {"data": self._data.checksum, "batch_size": self.batch_size}

    def cut(self, epoch: int) -> list[Numbers]:
        """Examples of like length together, in batches in random order."""
        random = self.random(epoch)
        lengths = self._data.widths * (1 + SPREAD * random.random(self._data.size))
        order = np.argsort(lengths, kind="stable")
        batches = [order[start : start + self.batch_size] for start in range(0, len(order), self.batch_size)]
        if len(batches) > 1 and len(batches[-1]) < self.world:  # too few for all ranks
            both = np.concatenate(batches[-2:])
            batches[-2:] = [both[: -self.world], both[-self.world :]]
        return [batches[number] for number in random.permutation(len(batches))]

    def collate(self, rows: Numbers) -> TextBatch:
        """These examples, padded, to few shapes if asked."""
        batch = self._data.batch(rows)
        return batch if self.fit is None else batch.fitted(rows=self.batch_size, multiple=self.fit)


class _PackedTexts:
    """The words of many examples in one array, and their labels."""

    def __init__(self, examples: Iterable[Ids], labels: Sequence[int] | None) -> None:
        ids, ends = array("i", [PAD]), array("q", [1])
        self.size, self.sides = 0, 1
        for number, example in enumerate(examples):
            if number and len(example) != self.sides:
                got = f"{len(example)} texts in example {number}"
                raise DataError("every example has as many texts", got=got, expected=str(self.sides))
            self.size, self.sides = number + 1, len(example)
            for text in example:
                ids.extend(text)
                ends.append(len(ids))
        self._ids, self._ends = np.frombuffer(ids, dtype=np.int32), np.frombuffer(ends, dtype=np.int64)
        self.labels: Numbers = np.full(self.size, IGNORE) if labels is None else np.asarray(labels, dtype=np.int64)
        if self.labels.shape != (self.size,):
            got = f"{self.size} examples and {len(self.labels)} labels"
            raise DataError("texts and labels do not fit together", got=got, expected="a label for each example")
        self.lengths: Numbers = np.diff(self._ends).reshape(self.size, self.sides)
        self.widths: Numbers = self.lengths.max(1, initial=0)  # the longest text of each example

    @cached_property
    def checksum(self) -> str:
        """Of all words, lengths and labels."""
        content = self._ids.tobytes() + self._ends.tobytes() + self.labels.tobytes()
        return blake2b(content, digest_size=8).hexdigest()

    def batch(self, rows: Numbers) -> TextBatch:
        """These examples as a batch, at least one word wide."""
        texts = (rows[:, None] * self.sides + np.arange(self.sides)).ravel()
        starts, ends = self._ends[texts], self._ends[texts + 1]
        places = starts[:, None] + np.arange(max(1, int(self.widths[rows].max(initial=1))))
        words = self._ids[np.where(places < ends[:, None], places, 0)].astype(np.int64)  # at place 0 stands PAD
        return TextBatch(
            texts=torch.from_numpy(words).view(len(rows), self.sides, -1),
            lengths=torch.from_numpy(self.lengths[rows]),
            labels=torch.from_numpy(self.labels[rows]).unsqueeze(1),
            indices=rows.tolist(),
        )
