"""Local attention in query and memory blocks (Parmar et al. 2018, section 3.2): cost linear in the length.

Places are cut into query blocks. All queries of a block share one memory block, which lies before them, and see their
own block up to themselves. So every block is causal attention of few queries over few keys, in which the last query
sees all of them: `Local1D` and `Local2D` say which keys these are, as a `Mask` and by gathering blocks.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.attention import Attention
from regard.attention.band import Band
from regard.attention.dispatch import Call, choose
from regard.attention.mask import Device, Mask
from regard.attention.multihead import MultiHead
from regard.attention.tracing import watched
from regard.base import ConfigError, ShapeError

Causal = Callable[[Tensor, Tensor, Tensor], Tensor]  # query, keys, values → context; the last query sees all keys


class Local(ABC):
    """Which earlier places each place sees, for places in the order in which they are generated."""

    @abstractmethod
    def mask(self) -> Mask:
        """The rule as a mask, True = may attend: for any implementation of attention, in quadratic cost."""

    @abstractmethod
    def visible(self, place: int) -> slice | tuple[int, ...]:
        """The places that a place sees, itself last: what a step of generation reads."""

    @abstractmethod
    def attend(self, query: Tensor, keys: Tensor, values: Tensor, causal: Causal) -> Tensor:
        """The context [*b n v] of all places, block by block, in linear cost: equal to attention under `mask`.

        `causal` attends from [*b q d] to [*b k d], with k ≥ q, where the last query sees all keys.
        """


@dataclass(frozen=True)
class Local1D(Local):
    """Query blocks of `block` places; each place sees its own block up to itself, and `memory` places before the block.

    >>> Local1D(block=2, memory=1).mask().dense(5, 5).int()
    tensor([[1, 0, 0, 0, 0],
            [1, 1, 0, 0, 0],
            [0, 1, 1, 0, 0],
            [0, 1, 1, 1, 0],
            [0, 0, 0, 1, 1]], dtype=torch.int32)
    """

    block: int
    memory: int

    def __post_init__(self) -> None:
        if self.block < 1 or self.memory < 0:
            got = f"block={self.block}, memory={self.memory}"
            raise ConfigError(
                "the blocks of local attention", got=got, expected="block of 1 or more, memory of 0 or more"
            )

    def mask(self) -> Mask:
        """The rule as a mask."""
        return Band(before=self.memory, after=0, block_size=self.block)

    def visible(self, place: int) -> slice:
        """The places that a place sees, itself last."""
        return slice(max(0, place // self.block * self.block - self.memory), place + 1)

    def attend(
        self, query: Float[Tensor, "*b n d"], keys: Float[Tensor, "*b n d"], values: Float[Tensor, "*b n v"],
        causal: Causal,
    ) -> Float[Tensor, "*b n v"]:  # fmt: skip
        """The context of all places. The first blocks see all that is before them; the rest are windows of one size."""
        length = query.shape[-2]
        head = (self.memory // self.block + 1) * self.block
        if length <= head:
            return causal(query, keys, values)
        first = causal(*(side[..., :head, :] for side in (query, keys, values)))
        missing = -length % self.block  # places after the end, which no real place sees
        blocks = _cut(_lengthened(query[..., head:, :], missing), self.block)
        size, start = self.memory + self.block, head - self.memory
        windows = [_lengthened(side[..., start:, :], missing) for side in (keys, values)]
        sides = [blocks, *(side.unfold(-2, size, self.block).mT for side in windows)]  # [*b m l d]
        rest = _before_heads(causal(*map(_before_heads, sides))).flatten(-3, -2)
        return torch.cat([first, rest[..., : length - head, :]], -2)


@dataclass(frozen=True)
class Local2D(Local):
    """Query blocks that are rectangles of a grid; the memory is the block, grown upwards and to both sides.

    `size` (rows, columns) is the grid, `block` the rows and columns of a query block, `memory` the rows above and the
    columns on either side. Places come block by block, blocks in rows, and row by row inside a block: `order` has the
    number of each in the grid. A place sees what of the memory was generated before it.

    >>> local = Local2D(size=(2, 4), block=(1, 2), memory=(1, 1))
    >>> local.order().tolist()
    [0, 1, 2, 3, 4, 5, 6, 7]
    >>> local.visible(4), local.visible(7)
    ((0, 1, 2, 4), (1, 2, 3, 5, 6, 7))
    """

    size: tuple[int, int]
    block: tuple[int, int]
    memory: tuple[int, int]

    def __post_init__(self) -> None:
        if min(*self.size, *self.block) < 1 or min(self.memory) < 0:
            got = f"size={self.size}, block={self.block}, memory={self.memory}"
            expected = "sides of 1 or more, memory of 0 or more"
            raise ConfigError("the blocks of local attention", got=got, expected=expected)
        if self.size[0] % self.block[0] or self.size[1] % self.block[1]:
            got = f"blocks of {self.block[0]} × {self.block[1]} in {self.size[0]} × {self.size[1]}"
            raise ConfigError("query blocks do not fill the grid", got=got, cure="choose sides that divide the grid")

    def order(self) -> Int[Tensor, " n"]:
        """The numbers of the places in the grid, row by row, in the order in which they are generated."""
        (rows, columns), (high, wide) = self.size, self.block
        grid = torch.arange(rows * columns).view(rows // high, high, columns // wide, wide)
        return grid.transpose(1, 2).flatten()

    def mask(self) -> Mask:
        """The rule as a mask."""
        return _Mask2D(self)

    def visible(self, place: int) -> tuple[int, ...]:
        """The places that a place sees, itself last."""
        own = self.block[0] * self.block[1]
        start = place // own * own
        return (*_memories(self)[place // own], *range(start, place + 1))

    def attend(
        self, query: Float[Tensor, "*b n d"], keys: Float[Tensor, "*b n d"], values: Float[Tensor, "*b n v"],
        causal: Causal,
    ) -> Float[Tensor, "*b n v"]:  # fmt: skip
        """The context of all places. Blocks at a border have a smaller memory: those of one size go together."""
        length, own = query.shape[-2], self.block[0] * self.block[1]
        if length != self.size[0] * self.size[1]:
            expected = f"{self.size[0]} × {self.size[1]}"
            raise ShapeError("places do not fill the grid of local attention", got=length, expected=expected)
        kinds, back = _kinds(self, query.device)
        blocks = [_cut(side, own) for side in (query, keys, values)]  # [*b m l d]
        contexts = []
        for numbers, seen in kinds:
            asking, *owned = (side.index_select(-3, numbers) for side in blocks)
            remembered = (
                _cut(side.index_select(-2, seen.flatten()), seen.shape[1], len(numbers)) for side in (keys, values)
            )
            sides = [torch.cat([far, near], -2) for far, near in zip(remembered, owned, strict=True)]
            contexts.append(_before_heads(causal(*map(_before_heads, (asking, *sides)))))
        return torch.cat(contexts, -3).index_select(-3, back).flatten(-3, -2)


class PlaceCache(NamedTuple):
    """Keys and values of all places of one layer, those not yet generated too; `LocalSelfAttention.step` writes it."""

    keys: Tensor  # [b h n d]
    values: Tensor  # [b h n d]


class LocalSelfAttention(nn.Module):
    """Multi-head self-attention in blocks: [b n dim] → [b n dim].

    Blocks are gathered. In one dimension they are a band of keys, for which there is a kernel on a GPU
    (`impl="banded"`, and `auto` where there are many blocks). `by_mask` computes the same from the dense mask, in
    quadratic cost. A layer that a trace looks at has a mask too, since its weights are asked for over all places.
    """

    def __init__(
        self, dim: int, *, num_heads: int, local: Local, attention: Attention | None = None, by_mask: bool = False
    ) -> None:
        super().__init__()
        self.inner = MultiHead(dim, num_heads=num_heads, attention=attention)
        self.local, self.by_mask = local, by_mask

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        """What each place takes from the places that it sees."""
        if self.by_mask:
            allowed = self.local.mask().dense(x.shape[-2], x.shape[-2], device=x.device)
            return self.inner(x, mask=Mask.of(allowed)).context
        if watched(self.inner):
            return self.inner(x, mask=self.local.mask()).context
        heads = self._heads(x)
        if self._in_one_pass(*heads):
            context = self.inner.attention(*heads, mask=self.local.mask(), need_weights=False).context
        else:
            context = self.local.attend(*heads, self._causal)
        result: Tensor = self.inner.to_output(context.transpose(-2, -3).flatten(-2))
        return result

    def empty_cache(self, batch: int, length: int) -> PlaceCache:
        """The cache before the first of `length` places."""
        like, heads = self.inner.to_keys.weight, self.inner.num_heads
        shape = (batch, heads, length, self.inner.to_keys.out_features // heads)
        return PlaceCache(like.new_zeros(shape), like.new_zeros(shape))

    def step(self, x: Float[Tensor, "b 1 d"], cache: PlaceCache, place: int) -> Float[Tensor, "b 1 d"]:
        """The same for one place, after those before it. Its key and its value are written into the cache."""
        query, key, value = self._heads(x)
        cache.keys[:, :, place], cache.values[:, :, place] = key[:, :, 0], value[:, :, 0]
        seen = self.local.visible(place)
        chosen = seen if isinstance(seen, slice) else list(seen)
        context = self._causal(query, cache.keys[:, :, chosen], cache.values[:, :, chosen])
        result: Tensor = self.inner.to_output(context.transpose(-2, -3).flatten(-2))
        return result

    def _in_one_pass(self, query: Tensor, keys: Tensor, values: Tensor) -> bool:
        """Whether the kernel over a band can do this, and is allowed to."""
        attention, mask = self.inner.attention, self.local.mask()
        if not isinstance(mask, Band) or attention.impl not in ("auto", "banded"):
            return False
        call = Call(query.device.type, query, values, keys=keys, mask=mask)
        return choose(attention.impl, attention.score, attention.align, call, gradient=False) == "banded"

    def _heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values [b h n d]."""
        inner = self.inner
        sides = (project(x).unflatten(-1, (inner.num_heads, -1)) for project in _projections(inner))
        query, keys, values = (side.transpose(-2, -3) for side in sides)
        return query, keys, values

    def _causal(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return self.inner.attention(query, keys, values, mask=Mask.causal(), need_weights=False).context


def _projections(inner: MultiHead) -> tuple[nn.Module, nn.Module, nn.Module]:
    return inner.to_query, inner.to_keys, inner.to_values


def _cut(side: Tensor, size: int, count: int = -1) -> Tensor:
    """[*b (m l) d] → [*b m l d]: blocks of `size` places, `count` of them."""
    return side.reshape(*side.shape[:-2], count, size, side.shape[-1])


def _lengthened(side: Tensor, missing: int) -> Tensor:
    return F.pad(side, (0, 0, 0, missing)) if missing else side


def _before_heads(blocks: Tensor) -> Tensor:
    """[b h m l d] ↔ [b m h l d]: batch and blocks side by side are one axis of a kernel, without a copy of queries."""
    return blocks.transpose(-3, -4) if blocks.ndim > 4 else blocks


@dataclass(frozen=True, eq=False)
class _Mask2D(Mask):
    local: Local2D

    def dense(self, num_queries: int, num_keys: int, *, device: Device = None, rows: Tensor | None = None) -> Tensor:
        query, key = _places(num_queries, num_keys, device, rows)
        (_, columns), (high, wide), (above, beside) = self.local.size, self.local.block, self.local.memory
        order = self.local.order().to(key.device)
        if num_keys > len(order):
            got, expected = f"{num_keys} keys", f"at most {len(order)}"
            raise ShapeError("places do not fit the grid of local attention", got=got, expected=expected)
        first = order[query // (high * wide) * (high * wide)]  # the corner of the query's block, [q 1]
        down, across = order[key] // columns - first // columns, order[key] % columns - first % columns
        inside = (down >= -above) & (down < high) & (across >= -beside) & (across < wide + beside)
        return inside & (key <= query)


def _places(num_queries: int, num_keys: int, device: Device, rows: Tensor | None) -> tuple[Tensor, Tensor]:
    """Numbers of queries [q 1] and keys [k]; where there are fewer queries, they are the last places."""
    asked = torch.arange(num_queries, device=device) if rows is None else rows if device is None else rows.to(device)
    return (asked + num_keys - num_queries).unsqueeze(-1), torch.arange(num_keys, device=asked.device)


@lru_cache(maxsize=32)
def _memories(local: Local2D) -> tuple[tuple[int, ...], ...]:
    """For each query block the places of its memory that are generated before it, in order."""
    (rows, columns), (high, wide), (above, beside) = local.size, local.block, local.memory
    place_of = {raster: place for place, raster in enumerate(local.order().tolist())}
    memories = []
    for number in range(rows // high * (columns // wide)):
        top, left = number // (columns // wide) * high, number % (columns // wide) * wide
        rectangle = (
            place_of[row * columns + column]
            for row in range(max(0, top - above), top + high)
            for column in range(max(0, left - beside), min(columns, left + wide + beside))
        )
        memories.append(tuple(sorted(place for place in rectangle if place < number * high * wide)))
    return tuple(memories)


@lru_cache(maxsize=32)
def _kinds(local: Local2D, device: torch.device) -> tuple[list[tuple[Tensor, Tensor]], Tensor]:
    """Blocks with memories of one size: their numbers [m] and memories [m s]; and where each block is then."""
    memories = _memories(local)
    kinds, order = [], []
    for size in sorted({len(memory) for memory in memories}):
        numbers = [number for number, memory in enumerate(memories) if len(memory) == size]
        seen = torch.tensor([memories[number] for number in numbers], dtype=torch.long, device=device)
        kinds.append((torch.tensor(numbers, device=device), seen.view(len(numbers), size)))
        order += numbers
    return kinds, torch.tensor(order, device=device).argsort()
