# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""Which keys a query sees, in every Triton kernel: the rules that a kernel is launched with, and the test inside it."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.kernels.launch import contiguous_rows, jit, tl
from regard.kernels.limits import EVERYWHERE

# ── inside kernels ───────────────────────────────────────────────────────────────────────────────────────────────────


@jit
def visible(
    allowed, stride_row, rows, columns, shift, num_rows, num_columns, before, after,
    has_window: tl.constexpr, has_allowed: tl.constexpr,
):  # fmt: skip
    """Which keys [rows, columns] may be attended to; `allowed` is at the batch item, `num_columns` its length."""
    seen = (columns[None, :] < num_columns) & (rows[:, None] < num_rows)
    if has_window:
        distance = columns[None, :] - (rows[:, None] + shift)
        seen &= (distance >= -before) & (distance <= after)
    if has_allowed:
        seen &= tl.load(allowed + rows[:, None] * stride_row + columns[None, :], mask=seen, other=0) != 0
    return seen


@jit
def walk_span(
    lengths, item, tile, num_own, num_walk, shift, behind, ahead,
    has_lengths: tl.constexpr, own_keys: tl.constexpr, block_own: tl.constexpr,
):  # fmt: skip
    """The first row of the other side that a tile of own rows may have to do with, and the one after the last."""
    first = tl.maximum(tile * block_own + shift - behind, 0)
    end = tl.minimum(tl.minimum(tile * block_own + block_own, num_own) + shift + ahead, num_walk)
    if has_lengths:
        length = tl.load(lengths + item).to(tl.int32)
        end = tl.where(tile * block_own < length, end, 0) if own_keys else tl.minimum(end, length)
    return first, end


# ── when kernels are launched ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Rules:
    """Which keys a query sees, and dropout: what every kernel has to know besides the tensors."""

    lengths: Tensor | None = None  # [n]
    allowed: Tensor | None = None  # [n q k] of bytes, strides of 0 where it spreads
    seed: Tensor | None = None  # [1]
    before: int = EVERYWHERE
    after: int = EVERYWHERE
    dropout: float = 0.0

    def of(self, chunk: "Chunk") -> "Rules":
        """The rules of some items and rows."""
        lengths = None if self.lengths is None else self.lengths[chunk.items]
        allowed = None if self.allowed is None else self.allowed[chunk.items, chunk.rows]
        return replace(self, lengths=lengths, allowed=allowed)


@dataclass(frozen=True)
class Chunk:
    """Some batch items and some rows of queries: what is worked on at once."""

    items: slice
    rows: slice

    def at(self, num_queries: int, num_keys: int) -> tuple[int, int, int]:
        """By how much the first row lies before its own key, and the numbers of the first item and row."""
        return num_keys - num_queries + self.rows.start, self.items.start, self.rows.start


def rules(
    query: Tensor,
    keys: Tensor,
    lengths: Tensor | None,
    allowed: Tensor | None,
    seed: Tensor | None,
    before: int,
    after: int,
    dropout: float,
) -> Rules:
    """The rules, with lengths and a mask as the kernels read them: neighbours in memory, whatever view was given."""
    if lengths is not None:
        lengths = lengths.contiguous()  # one of stride 0 or 2 would be read past its end
    if allowed is not None:
        allowed = contiguous_rows(allowed).view(torch.uint8).expand(query.shape[0], query.shape[1], keys.shape[1])
    return Rules(lengths, allowed, seed, before, after, dropout)


def pointers(rules: Rules, filler: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Lengths, mask and seed; `filler` stands for those that are not there."""
    tensors = (rules.lengths, rules.allowed, rules.seed)
    lengths, allowed, seed = (filler if tensor is None else tensor for tensor in tensors)
    return lengths, allowed, seed


def mask_strides(rules: Rules) -> tuple[int, int]:
    """Of batch items and of queries in the mask."""
    return (0, 0) if rules.allowed is None else (rules.allowed.stride(0), rules.allowed.stride(1))


def masks(rules: Rules) -> dict[str, bool]:
    """Which masks a kernel is built for."""
    return {
        "has_lengths": rules.lengths is not None,
        "has_window": min(rules.before, rules.after) < EVERYWHERE,
        "has_allowed": rules.allowed is not None,
    }


def flags(rules: Rules) -> dict[str, bool]:
    """The same, and whether for dropout."""
    return {**masks(rules), "has_dropout": rules.dropout > 0.0}
