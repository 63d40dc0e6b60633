"""Edge lists: the pairs of query and key that are scored, where most pairs are not.

A mask over all pairs takes queries × keys numbers; an edge list takes two numbers for each pair that may attend. Every
score of single pairs works on both, with the same parameters: `score(query, keys)` gives [*b q k], and
`score.on_edges(query, keys, edges)` gives [*b e], the same numbers at the pairs of the list.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.base import ConfigError, MaskError, ShapeError

if TYPE_CHECKING:
    from regard.kernels.edges import SortedEdges


@dataclass(frozen=True, eq=False)
class Edges:
    """Query `targets[e]` may attend to key `sources[e]`, for each e; no other pair may.

    The list serves all batch axes and heads. Its order is free, and weights come in the same order. A pair may be there
    once only, so that every list has a mask with equal results. A query without an edge has an empty row. All of this
    is checked when the object is made, but not inside a compiled function, where the numbers cannot be looked at.

    >>> edges = Edges(targets=torch.tensor([0, 0, 2]), sources=torch.tensor([0, 1, 1]), num_queries=3, num_keys=2)
    >>> edges.mask().int()
    tensor([[1, 1],
            [0, 0],
            [0, 1]], dtype=torch.int32)
    """

    targets: Tensor  # [e], numbers of queries: who asks
    sources: Tensor  # [e], numbers of keys: who is asked
    num_queries: int
    num_keys: int

    def __post_init__(self) -> None:
        """Check the list, and hold it in 64 bits."""
        for name, size in (("num_queries", self.num_queries), ("num_keys", self.num_keys)):
            if size < 0:
                raise ConfigError(f"Edges {name}", got=size, expected="0 or more")
        for name, index in (("targets", self.targets), ("sources", self.sources)):
            if not isinstance(index, Tensor) or index.ndim != 1:
                got = list(index.shape) if isinstance(index, Tensor) else type(index).__name__
                cure = "give one list for all batch axes, or join many graphs into one list by Edges.join"
                raise ShapeError(f"{name} of Edges must be a tensor with one axis", got=got, expected="[e]", cure=cure)
            if index.is_floating_point() or index.is_complex() or index.dtype == torch.bool:
                cure = (
                    "use Edges.from_mask(mask) for a mask"
                    if index.dtype == torch.bool
                    else f"convert it: {name}.long()"
                )
                raise ShapeError(f"{name} of Edges must be whole numbers", got=index.dtype, cure=cure)
            if index.dtype != torch.int64:
                object.__setattr__(self, name, index.long())
        if self.targets.shape[0] != self.sources.shape[0]:
            lengths = f"{self.targets.shape[0]} and {self.sources.shape[0]}"
            raise ShapeError(
                "targets and sources of Edges differ in length", got=lengths, expected="one of each per edge"
            )
        if self.targets.device != self.sources.device:
            devices = f"{self.targets.device} and {self.sources.device}"
            raise ShapeError("targets and sources of Edges are on different devices", got=devices, expected="one")
        if torch.compiler.is_compiling() or self.targets.is_meta or len(self) == 0:
            return
        _check_numbers("targets", self.targets, "num_queries", self.num_queries)
        _check_numbers("sources", self.sources, "num_keys", self.num_keys)
        pairs = (self.targets * self.num_keys + self.sources).sort().values
        twice = pairs[1:] == pairs[:-1]
        if bool(twice.any()):
            first = int(pairs[1:][twice][0])
            raise MaskError(
                "a pair is twice in the edge list",
                got=f"query {first // self.num_keys} and key {first % self.num_keys}",
                expected="each pair once",
                cure="keep one of each: Edges.of(pairs.unique(dim=1), …); add missing loops by with_self_loops",
            )

    @classmethod
    def of(cls, pairs: Tensor, num_queries: int, num_keys: int | None = None) -> "Edges":
        """From `pairs` [2 e]: queries in the first row, keys in the second; as many keys as queries unless told.

        The order is that of the axes of a mask, [q k]. Libraries for graphs often write the source first, which is the
        key: `Edges(sources=edge_index[0], targets=edge_index[1], num_queries=n, num_keys=n)`.
        """
        if not isinstance(pairs, Tensor) or pairs.ndim != 2 or pairs.shape[0] != 2:
            got = list(pairs.shape) if isinstance(pairs, Tensor) else type(pairs).__name__
            raise ShapeError(
                "pairs of Edges",
                got=got,
                expected="[2, e]: queries, then keys",
                cure="pass pairs.mT if they are [e, 2]",
            )
        return cls(pairs[0], pairs[1], num_queries, num_queries if num_keys is None else num_keys)

    @classmethod
    def from_mask(cls, mask: Tensor) -> "Edges":
        """The pairs that are True in `mask` [q k], query by query.

        >>> Edges.from_mask(torch.tensor([[True, False], [True, True]])).pairs
        tensor([[0, 1, 1],
                [0, 0, 1]])
        """
        if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
            got = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
            cure = "make one of a Mask by mask.dense(num_queries, num_keys)"
            raise MaskError("a mask must be boolean, True = may attend", got=got, expected="torch.bool", cure=cure)
        if mask.ndim != 2:
            cure = "make one list of a batch: Edges.join([Edges.from_mask(each) for each in mask])"
            raise MaskError("one edge list has one mask", got=list(mask.shape), expected="[q, k]", cure=cure)
        targets, sources = mask.nonzero(as_tuple=True)
        return cls(targets, sources, *mask.shape)

    @classmethod
    def join(cls, graphs: Sequence["Edges"]) -> "Edges":
        """One list of several graphs side by side, for queries and keys that are laid end to end in the same order."""
        if not graphs:
            raise ConfigError("Edges.join", got="no edge list", expected="one or more")
        targets, sources, num_queries, num_keys = [], [], 0, 0
        for graph in graphs:
            targets.append(graph.targets + num_queries)
            sources.append(graph.sources + num_keys)
            num_queries, num_keys = num_queries + graph.num_queries, num_keys + graph.num_keys
        return cls(torch.cat(targets), torch.cat(sources), num_queries, num_keys)

    def with_self_loops(self) -> "Edges":
        """The list with a pair (i, i) for each query i that has none: in a graph, every node is its own neighbour.

        It is made once: the second call gives the same object, and a list that has all loops gives itself.
        """
        if (kept := self._kept("looped")) is not None:
            return self if kept is True else kept
        if self.num_queries != self.num_keys:
            got = f"{self.num_queries} queries and {self.num_keys} keys"
            raise ShapeError("self-loops need queries that are the keys", got=got, expected="as many of both")
        has_loop = torch.zeros(self.num_queries, dtype=torch.bool, device=self.targets.device)
        has_loop[self.targets[self.targets == self.sources]] = True
        missing = (~has_loop).nonzero().squeeze(1)
        targets, sources = torch.cat([self.targets, missing]), torch.cat([self.sources, missing])
        looped = Edges(targets, sources, self.num_queries, self.num_keys)
        looped._keep("looped", True)
        return self._keep("looped", looped)  # type: ignore[no-any-return]

    def sorted(self) -> "SortedEdges":
        """The list sorted by target and by source, as kernels over edges read it; it is made once."""
        from regard.kernels.edges import sort_edges  # Triton is imported where a kernel is asked for

        if (kept := self._kept("sorted")) is not None:
            return kept  # type: ignore[no-any-return]
        made = sort_edges(self.targets, self.sources, self.num_queries, self.num_keys)
        return self._keep("sorted", made)  # type: ignore[no-any-return]

    def to(self, device: torch.device | str) -> "Edges":
        """The same list on another device."""
        return Edges(self.targets.to(device), self.sources.to(device), self.num_queries, self.num_keys)

    def mask(self) -> Bool[Tensor, "q k"]:
        """The same pairs as a mask: True = may attend."""
        allowed = torch.zeros(self.num_queries, self.num_keys, dtype=torch.bool, device=self.targets.device)
        return allowed.index_put((self.targets, self.sources), torch.ones_like(self.targets, dtype=torch.bool))

    @property
    def pairs(self) -> Tensor:
        """[2 e]: the numbers of the queries, then those of the keys."""
        return torch.stack([self.targets, self.sources])

    def at_targets(self, x: Float[Tensor, "*b q d"]) -> Float[Tensor, "*b e d"]:
        """For each edge, what its query has."""
        return x.index_select(-2, self.targets)

    def at_sources(self, x: Float[Tensor, "*b k d"]) -> Float[Tensor, "*b e d"]:
        """For each edge, what its key has."""
        return x.index_select(-2, self.sources)

    def _kept(self, name: str) -> Any:
        """What was made of this list before under this name, or None."""
        return None if torch.compiler.is_compiling() else vars(self).get(f"_{name}")

    def _keep(self, name: str, made: Any) -> Any:
        """Keeps what was made of this list, as the list does not change; gives it back."""
        if not torch.compiler.is_compiling() and not torch.is_inference_mode_enabled():
            object.__setattr__(self, f"_{name}", made)
        return made

    def __len__(self) -> int:
        return self.targets.shape[0]

    def __repr__(self) -> str:
        return f"Edges({len(self)} pairs of {self.num_queries} queries and {self.num_keys} keys)"


def _check_numbers(name: str, index: Tensor, size_name: str, size: int) -> None:
    smallest, largest = (int(number) for number in index.aminmax())
    if smallest < 0 or largest >= size:
        raise ShapeError(
            f"{name} of Edges are out of range",
            got=f"numbers from {smallest} to {largest}",
            expected=f"0 to {size - 1}, as {size_name}={size}",
            cure="put queries first in Edges.of(pairs), keys second",
        )
