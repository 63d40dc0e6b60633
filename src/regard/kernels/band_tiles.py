# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""What the kernels over a band share: the edges of the band, tiles of tensors, products, and the sizes of tiles.

The query in row i stands at the place p = i + num_keys − num_queries, and sees the keys

    first(i) = ⌊p / block⌋ · block − before   …   last(i) = p + after,

of those the ones from `starts` on and below `lengths` of its batch item. Both edges never go back from one row to the
next, so the keys of a tile of rows are one interval, and in its middle is an interval that all of the rows see.
"""

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from regard.kernels.arithmetic import dot
from regard.kernels.launch import INTERPRETED, jit, power_of_two, tl

BITS = tl.constexpr(1.4426950408889634)  # exp(x) = 2^(x · log2 e)


# ── inside kernels ──────────────────────────────────────────────────────────────────────────────────────────────────


@jit
def first_key(places, before, block, lift):
    """The first key that each place sees, or a negative number; `lift`, a multiple of `block`, lifts places above 0."""
    return (places + lift) // block * block - lift - before


@jit
def end_of_places(key, before, block, lift):
    """The place after the last one whose first key is not behind `key`."""
    return ((key + before + lift) // block + 1) * block - lift


@jit
def key_bounds(
    starts, lengths, batch, head, stride_sb, stride_sh, stride_lb, stride_lh, num_keys,
    has_starts: tl.constexpr, has_lengths: tl.constexpr,
):  # fmt: skip
    """The first key of a batch item and the one after its last."""
    start, length = 0, num_keys
    if has_starts:
        start = tl.maximum(tl.load(starts + batch * stride_sb + head * stride_sh).to(tl.int32), 0)
    if has_lengths:
        length = tl.minimum(tl.load(lengths + batch * stride_lb + head * stride_lh).to(tl.int32), num_keys)
    return start, length


@jit
def load_tile(pointer, stride, start, local, wide, end, width, ragged: tl.constexpr, even: tl.constexpr):
    """Rows `start` + `local` of a matrix, zero from the row `end` on; only `ragged` tiles reach so far."""
    place = pointer + tl.cast(start, tl.int64) * stride + local[:, None] * stride + wide[None, :]
    if ragged:
        if even:
            result = tl.load(place, mask=(start + local < end)[:, None], other=0.0)
        else:
            result = tl.load(place, mask=(start + local < end)[:, None] & (wide < width)[None, :], other=0.0)
    else:
        if even:
            result = tl.load(place)
        else:
            result = tl.load(place, mask=(wide < width)[None, :] & (local >= 0)[:, None], other=0.0)
    return result


@jit
def anew(x, step):
    """The whole numbers x, which a compiler takes to be others at each `step` of a loop, and so makes them there.

    The addresses of a tile of the bias are two registers for each number. Made before a loop and kept, they would
    leave no room for the tiles themselves.
    """
    if INTERPRETED:
        result = x
    else:
        result = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r,r", [x, step], dtype=tl.int32, is_pure=True, pack=1)
    return result


@jit
def product(left, right, tf32: tl.constexpr):
    """left @ right: in float32 with 22 bits, or with the ten that `tf32` allows."""
    if INTERPRETED:
        result = tl.dot(left.to(tl.float32), right.to(tl.float32), input_precision="ieee")  # bfloat16 is wrong there
    elif tf32:
        result = tl.dot(left, right, input_precision="tf32")
    else:
        result = dot(left, right)
    return result


@jit
def add_product(total, left, right, tf32: tl.constexpr):
    """total + left @ right, with the digits of `product`."""
    if INTERPRETED:
        result = tl.dot(left.to(tl.float32), right.to(tl.float32), total, input_precision="ieee")
    elif left.dtype != tl.float32:
        result = tl.dot(left, right, total)
    elif tf32:
        result = tl.dot(left, right, total, input_precision="tf32")
    else:
        result = total + dot(left, right)
    return result


# ── when kernels are launched ───────────────────────────────────────────────────────────────────────────────────────


class Tile(NamedTuple):
    """How a kernel is cut: rows and keys of a tile, warps of a program, and stages of its loop over tiles."""

    queries: int
    keys: int
    warps: int
    stages: int


# For Hopper: by kernel, type ("half", or float32 in full or with the ten bits of "tf32") and width, without and with a
# bias. Compiled for it, those of half precision keep no registers in memory, or a few; the addresses of a bias need
# many. tools/tune_band.py times others.
TILES: dict[tuple[str, str, int], tuple[Tile, Tile]] = {
    ("forward", "half", 64): (Tile(128, 64, 4, 3), Tile(64, 64, 4, 3)),
    ("forward", "half", 128): (Tile(128, 64, 8, 3), Tile(128, 64, 8, 2)),
    ("forward", "tf32", 64): (Tile(64, 32, 4, 2), Tile(64, 32, 4, 2)),
    ("forward", "tf32", 128): (Tile(64, 32, 8, 2), Tile(64, 32, 8, 2)),
    ("forward", "float32", 64): (Tile(64, 32, 4, 2), Tile(64, 32, 4, 2)),
    ("forward", "float32", 128): (Tile(32, 32, 4, 1), Tile(32, 32, 4, 1)),
    ("queries", "half", 64): (Tile(128, 64, 8, 2), Tile(64, 32, 4, 2)),
    ("queries", "half", 128): (Tile(128, 64, 8, 2), Tile(64, 32, 4, 2)),
    ("queries", "tf32", 64): (Tile(64, 32, 4, 2), Tile(64, 32, 4, 2)),
    ("queries", "tf32", 128): (Tile(32, 32, 4, 1), Tile(32, 32, 4, 1)),
    ("queries", "float32", 64): (Tile(64, 32, 4, 2), Tile(32, 32, 4, 2)),
    ("queries", "float32", 128): (Tile(32, 32, 4, 1), Tile(32, 32, 4, 1)),
    ("keys", "half", 64): (Tile(64, 128, 8, 2), Tile(32, 64, 4, 2)),
    ("keys", "half", 128): (Tile(32, 64, 8, 2), Tile(32, 64, 8, 2)),
    ("keys", "tf32", 64): (Tile(32, 64, 4, 2), Tile(32, 64, 4, 2)),
    ("keys", "tf32", 128): (Tile(32, 32, 4, 1), Tile(32, 32, 4, 1)),
    ("keys", "float32", 64): (Tile(32, 64, 4, 2), Tile(32, 32, 4, 2)),
    ("keys", "float32", 128): (Tile(32, 32, 4, 1), Tile(32, 32, 4, 1)),
}


def tile_of(kernel: str, query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tile:
    """The tile of the table for these types and widths, not longer than the rows and keys that there are."""
    width = 64 if max(query.shape[-1], values.shape[-1]) <= 64 else 128
    kind = "half" if query.dtype != torch.float32 else "tf32" if allows_tf32(query) else "float32"
    tile = TILES[kernel, kind, width][bias is not None]
    if query.is_cuda and not _is_roomy(query.device):
        tile = Tile(min(tile.queries, 64), min(tile.keys, 32), 4, 1)
    most_queries, most_keys = (power_of_two(x.shape[-2], 16) for x in (query, keys))
    return tile._replace(queries=min(tile.queries, most_queries), keys=min(tile.keys, most_keys))


@cache
def _is_roomy(device: torch.device) -> bool:
    """Whether a program may have 163 KiB of shared memory or more; chips that are not for servers have 99."""
    major, minor = torch.cuda.get_device_capability(device)
    return major in (9, 10) or (major, minor) == (8, 0)


class Band(NamedTuple):
    """The numbers that say which keys a row sees."""

    before: int
    after: int
    block: int
    lift: int


def band_of(num_queries: int, num_keys: int, before: int | None, after: int | None, block: int) -> Band:
    """The band for these lengths. None is without end; numbers beyond all keys are cut, so that no sum is too large.

    >>> band_of(3, 5, None, 0, 1)
    Band(before=8, after=0, block=1, lift=0)
    """
    most = num_queries + num_keys
    before, after = (most if side is None else min(side, most) for side in (before, after))
    block = min(block, most)
    return Band(before, after, block, -(-max(0, num_queries - num_keys) // block) * block)


def widths(query: Tensor, values: Tensor) -> dict[str, int | bool]:
    """Widths as powers of two, and whether the true ones are such."""
    features, depth = power_of_two(query.shape[-1], 16), power_of_two(values.shape[-1], 16)
    return {
        "padded_features": features,
        "padded_depth": depth,
        "even_features": features == query.shape[-1],
        "even_depth": depth == values.shape[-1],
    }


def allows_tf32(query: Tensor) -> bool:
    """Whether products of float32 may have ten bits, as torch's own."""
    return query.dtype == torch.float32 and torch.backends.cuda.matmul.allow_tf32


def item_strides(x: Tensor | None) -> tuple[int, int]:
    """The strides of a tensor [b h] of one number for each item, or zeros where there is none."""
    return (0, 0) if x is None else (x.stride(0), x.stride(1))


def shifted_strides(by_distance: Tensor | None) -> tuple[int, int, int]:
    """The strides at which a bias of distances [b h q w] is read by row and key.

    The score of row i and key j is in column j + num_queries − 1 − i. So a row further is one column less.
    """
    if by_distance is None:
        return 0, 0, 0
    return by_distance.stride(0), by_distance.stride(1), by_distance.stride(2) - 1
