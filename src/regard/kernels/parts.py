# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""What the Triton kernels of additive attention share: tanh, masks, dropout, and the rules they are launched by."""

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

try:
    import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
    import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
except ModuleNotFoundError:  # this file can be read without it; `reasons_against_triton` says what is missing
    triton, tl = None, SimpleNamespace(constexpr=lambda value: value)

jit: Any = triton.jit if triton else lambda function: function
EVERYWHERE = 1 << 30  # a window without end
INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")


# ── inside kernels ───────────────────────────────────────────────────────────────────────────────────────────────────


@jit
def reciprocal(x):
    """1/x in one instruction, good to one unit in the last place."""
    if INTERPRETED:
        result = 1.0 / x
    else:
        result = tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return result


@jit
def at_most(x, bound):
    """The smaller of the two, or not a number if x is none."""
    return tl.minimum(x, bound, propagate_nan=tl.PropagateNan.ALL)


@jit
def within(x, bound):
    """x between −bound and bound, or not a number if x is none."""
    return tl.maximum(at_most(x, bound), -bound, propagate_nan=tl.PropagateNan.ALL)


@jit
def falling(sums):
    """r = 1/(1 + exp(2s)), so that tanh(s) = 1 − 2r, for any s."""
    return reciprocal(1.0 + tl.exp(2.0 * within(sums, 20.0)))  # beyond 20, tanh is ±1 in float32


@jit
def signed_falling(sums):
    """r of |s|, with the sign of s: small where tanh is near ±1, so that 1 − tanh² = 4 (|r| − r²) keeps its digits."""
    r = falling(tl.abs(sums))
    return tl.where(sums < 0.0, -r, r)


@jit
def signed_tanh(r):
    """tanh(s) from it."""
    return tl.where(r < 0.0, -1.0, 1.0) - 2.0 * r


@jit
def precise_exp(x):
    """exp(x), good to one unit in the last place for every finite x; the plain one loses digits with the size of x."""
    power = tl.floor(x * 1.4426950408889634 + 0.5)
    rest = (x - power * 0.693359375) + power * 2.12194440e-4  # ln 2 in two parts, the first with few digits
    series = rest * (1.0 / 5040) + 1.0 / 720  # the series of exp: |rest| is below 0.35, and its square below 1/8
    series = rest * series + 1.0 / 120
    series = rest * series + 1.0 / 24
    series = rest * series + 1.0 / 6
    series = rest * series + 0.5
    return (rest * rest * series + rest + 1.0) * tl.exp2(power)


@jit
def _short(x):
    """x, rounded to the ten bits that the matrix units have for float32."""
    return ((x.to(tl.int32, bitcast=True) + 4096) & -8192).to(tl.float32, bitcast=True)


@jit
def _halves(x):
    """x as a sum of two short numbers, but for its last bit."""
    high = _short(x)
    return high, _short(x - high)


@jit
def dot(left, right):
    """left @ right. The matrix units have ten bits for float32: three products of halves give 22.

    Sums over many tiles are added outside: the matrix units cut off what does not fit, and it adds up.
    """
    if left.dtype == tl.float32:
        high, low = _halves(left)
        top, rest = _halves(right)
        total = tl.dot(low, top, input_precision="tf32")
        total = tl.dot(high, rest, total, input_precision="tf32")
        total = tl.dot(high, top, total, input_precision="tf32")
    else:
        total = tl.dot(left, right)
    return total


@jit
def kept(seed, item, rows, columns, dropout):
    """Which weights [rows, columns] of one batch item survive dropout: the same in every kernel."""
    zeros = tl.zeros([rows.shape[0], columns.shape[0]], tl.int32)
    number, _, _, _ = tl.philox(
        tl.load(seed), zeros + columns[None, :], zeros + rows[:, None], zeros + item.to(tl.int32), zeros
    )
    return tl.uint_to_uniform_float(number) >= dropout


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


# ── around kernels ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Rules:
    """Which keys a query sees, and dropout: what every kernel has to know besides the tensors."""

    lengths: Tensor | None = None  # [n]
    allowed: Tensor | None = None  # [n q k] of bytes, strides of 0 where it spreads
    seed: Tensor | None = None  # [1]
    before: int = EVERYWHERE
    after: int = EVERYWHERE
    dropout: float = 0.0

    def of(self, part: "Part") -> "Rules":
        """The rules of some items and rows."""
        lengths = None if self.lengths is None else self.lengths[part.items]
        allowed = None if self.allowed is None else self.allowed[part.items, part.rows]
        return replace(self, lengths=lengths, allowed=allowed)


@dataclass(frozen=True)
class Part:
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


def power_of_two(number: int, least: int = 1) -> int:
    """The next power of two.

    >>> power_of_two(5), power_of_two(16), power_of_two(3, 16)
    (8, 16, 16)
    """
    return max(least, 1 << (number - 1).bit_length())


def contiguous_rows(x: Tensor) -> Tensor:
    """`x` with neighbouring numbers in each row; expanded axes stay as they are."""
    return x if x.stride(-1) == 1 else x.contiguous()


def pointers(rules: Rules, filler: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Lengths, mask and seed; `filler` stands for those that are not there."""
    parts = (rules.lengths, rules.allowed, rules.seed)
    lengths, allowed, seed = (filler if part is None else part for part in parts)
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


def on(x: Tensor) -> AbstractContextManager[object]:
    """Triton launches on the current device: make it that of `x`."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()
