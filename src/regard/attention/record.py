"""What a trace keeps of one layer: weights of its calls, over keys or over edges, or the places that it looked at."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.base import ShapeError

Labels = Sequence[str] | Sequence[Sequence[str]]  # of one sentence, or of each sentence in the batch


class EdgeList(NamedTuple):
    """The edges that weights [*b e] belong to: numbers of queries and keys, and how many there are of both."""

    pairs: NDArray[Any]  # [2 e]: queries, then keys
    sizes: tuple[int, int]


class GlimpsePath(NamedTuple):
    """Where a model looked in one call, and which of these glimpses count."""

    places: NDArray[Any]  # [b t 2]: (x, y) in [−1, 1]
    active: NDArray[Any]  # [b t] bool: False after a model has stopped


@dataclass
class Record:
    """The weights of one layer, [*b h q k] from heads and [*b q k] without, and the labels of the last two axes.

    Over an edge list the weights are [*b h e] and [*b e]; `edges` then has the list of each call, and `dense()` the
    matrices.
    A model that looks at one place after the other has `places` [b t 2] and `active` [b t] in place of weights.
    """

    name: str
    calls: list[NDArray[Any]] = field(repr=False)
    heads: bool = False
    rows: Labels | None = field(default=None, repr=False)
    columns: Labels | None = field(default=None, repr=False)
    queries: list[int] | None = None  # the numbers of the rows that were asked for; None: all
    edges: list["EdgeList"] | None = field(default=None, repr=False)  # one for each call over an edge list
    paths: list[GlimpsePath] = field(default_factory=list, repr=False)
    head_numbers: list[int] | None = None  # the numbers of the heads that were asked for; None: all
    key_heads: list[int] | None = None  # the key head of each kept head, where several share one; None: its own
    starts: dict[int, int] = field(default_factory=dict, repr=False)  # by call: the place of its first key, if not 0

    @property
    def places(self) -> NDArray[Any]:
        """Where the model looked, [b t 2]: (x, y) in [−1, 1]."""
        return self._path.places

    @property
    def active(self) -> NDArray[Any]:
        """Which of the glimpses count, [b t]: False after a model has stopped."""
        return self._path.active

    @property
    def _path(self) -> GlimpsePath:
        if len(self.paths) != 1:
            what = "looked at no places" if not self.paths else "was called several times"
            cure = "read .weights" if not self.paths else "read .paths, or open a trace for each batch"
            raise ShapeError(f"{self.name} {what}", got=f"{len(self.paths)} paths", expected="one", cure=cure)
        return self.paths[0]

    @property
    def weights(self) -> NDArray[Any]:
        """All calls in one array: queries of step-by-step decoding follow each other, missing keys have weight 0."""
        if not self.calls:
            raise ShapeError(f"{self.name} has no weights", got="places", cure="read .places and .active")
        if len(self.calls) == 1 and not self.starts:
            return self.calls[0]
        if self.edges is not None:
            cure = "read .calls, .edges and .dense(call), or open a trace for each batch"
            raise ShapeError(
                f"{self.name} was called over several edge lists", got=f"{len(self.calls)} calls", cure=cure
            )
        if len({call.shape[:-2] for call in self.calls}) > 1:
            raise ShapeError(
                f"{self.name} was called with several batch shapes",
                got=[list(call.shape) for call in self.calls],
                cure="read .calls, or open a trace for each batch",
            )
        starts = [self.starts.get(number, 0) for number in range(len(self.calls))]
        ends = [start + call.shape[-1] for start, call in zip(starts, self.calls, strict=True)]
        pad = [(0, 0)] * (self.calls[0].ndim - 1)
        sides = zip(self.calls, starts, ends, strict=True)
        padded = [np.pad(call, [*pad, (start, max(ends) - end)]) for call, start, end in sides]
        return np.concatenate(padded, axis=-2)

    @property
    def axes(self) -> tuple[str, ...]:
        """One letter for each axis of the weights, as in docs/notation.md; of places if there are none."""
        if not self.calls:
            return ("b", "t", "2")
        pairs = ("q", "k") if self.edges is None else ("e",)
        tail = ("h", *pairs) if self.heads else pairs
        return ("b",) * (self.calls[0].ndim - len(tail)) + tail

    @property
    def row_numbers(self) -> list[int]:
        """The number of each row: of its query, or of its place in the text where rows were joined step by step.

        A step whose keys end later than those of the step before attends from the last of its keys. If the ends do not
        grow, as in cross-attention and with a static cache, the rows of a step follow those of the step before.
        """
        if self.edges is not None:
            return list(self.queries if self.queries is not None else range(self.edges[0].sizes[0]))
        first = self.calls[0].shape[-2]
        chosen = self.queries is not None and len(self.queries) == first
        numbers = list(cast(list[int], self.queries)) if chosen else list(range(first))
        ends = [self.starts.get(place, 0) + call.shape[-1] for place, call in enumerate(self.calls)]
        grow = all(earlier < later for earlier, later in pairwise(ends))
        for end, call in zip(ends[1:], self.calls[1:], strict=True):
            start = end - call.shape[-2] if grow else max(numbers, default=-1) + 1
            numbers.extend(range(start, start + call.shape[-2]))
        return numbers

    def dense(self, call: int = 0) -> NDArray[Any]:
        """The weights of one call as matrices [*b q k], also where they were made over an edge list."""
        weights = self.calls[call]
        if self.edges is None:
            return weights
        (targets, sources), (num_queries, num_keys) = self.edges[call]
        matrices = np.zeros((*weights.shape[:-1], num_queries, num_keys), dtype=weights.dtype)
        matrices[..., targets, sources] = weights
        return matrices if self.queries is None else matrices[..., self.queries, :]

    def follow(self, indices: Tensor | NDArray[Any] | Sequence[Sequence[int]]) -> "Record":
        """The record of hypotheses that went from beam to beam: `indices` [b t] says in which item step t was made.

        These are the `beam_indices` of `generate(…, return_dict_in_generate=True)` in transformers. Steps of −1, after
        the end of a hypothesis, have weights of zero.
        """
        places = np.asarray(indices.cpu() if isinstance(indices, Tensor) else indices)
        most = min((call.shape[0] for call in self.calls), default=0)
        if places.ndim != 2 or not self.calls or not -1 <= places.min(initial=0) <= places.max(initial=-1) < most:
            raise ShapeError(
                f"{self.name} cannot follow these beams",
                got=f"indices {list(places.shape)} up to {places.max(initial=-1)}, and {len(self.calls)} calls",
                expected=f"numbers [b t] from −1 to {most - 1}",
                cure="pass output.beam_indices of the same call of generate",
            )
        steps = [
            np.where((chosen >= 0).reshape(-1, *[1] * (call.ndim - 1)), call[chosen], 0)
            for call, chosen in zip(self.calls, places.T, strict=False)
        ]
        return replace(self, calls=steps)

    def _repr_html_(self) -> str:
        """What a notebook shows: the weights of the first item if they are few, else their shape."""
        from regard.attention.trace_views import records_html

        return records_html([self], "Record")

    def item(self, batch: int = 0) -> "Record":
        """One item of the batch, without its batch axis: cut to its labels, or a path, cut to glimpses that count."""
        if not self.calls:
            places, active = self.places[batch], self.active[batch]
            return replace(self, paths=[GlimpsePath(places[active], active[active])])
        weights = self.weights
        if self.axes.count("b") == 1:
            weights = weights[batch]
        elif self.axes.count("b") > 1:
            weights = weights.reshape(-1, *weights.shape[self.axes.count("b") :])[batch]
        rows, columns = _labels_of(self.rows, batch), _labels_of(self.columns, batch)
        if self.edges is not None:  # labels are of nodes, and no edge is cut
            return replace(self, calls=[weights], rows=rows, columns=columns, starts={})
        numbers = self.row_numbers
        of_these_rows = rows is not None and len(rows) == len(numbers) and max(numbers, default=0) >= len(rows)
        if rows is not None and not of_these_rows and numbers != list(range(len(rows))):
            labelled = [(row, number) for row, number in enumerate(numbers) if number < len(rows)]
            weights, rows = weights[..., [row for row, _ in labelled], :], [rows[number] for _, number in labelled]
        weights = weights[..., : None if columns is None else len(columns)]
        return replace(self, calls=[weights], rows=rows, columns=columns, starts={})


def _labels_of(labels: Labels | None, batch: int) -> list[str] | None:
    if labels is None:
        return None
    if labels and not isinstance(labels[0], str):
        return list(labels[batch])
    return list(cast(Sequence[str], labels))
