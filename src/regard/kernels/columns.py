# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""Sums over all rows of a matrix, which the gradient of a bias is: parts first, then the sum of the parts.

torch's own kernel for it is made for long rows; of a few hundred columns it uses a few programs. Here parts of the rows
are added up side by side, in float32, and then the parts in a fixed order: results repeat bit by bit.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.launch import contiguous_rows, jit, on, power_of_two, tl

PARTS = 512  # of the rows at most; the second kernel has one number of each at once


@jit
def _parts(x, partial_sums, stride_row, num_rows, width, block: tl.constexpr, block_columns: tl.constexpr):
    """The sum of the rows of one part, over some columns."""
    part, parts = tl.program_id(0), tl.num_programs(0)
    columns = tl.program_id(1) * block_columns + tl.arange(0, block_columns)
    total = tl.zeros([block, block_columns], tl.float32)
    for tile in range(part, tl.cdiv(num_rows, block), parts):
        rows = (tile * block + tl.arange(0, block)).to(tl.int64)
        inside = (rows[:, None] < num_rows) & (columns[None, :] < width)
        total += tl.load(x + rows[:, None] * stride_row + columns[None, :], mask=inside, other=0.0).to(tl.float32)
    tl.store(partial_sums + part.to(tl.int64) * width + columns, tl.sum(total, 0), mask=columns < width)


@jit
def _fold(partial_sums, out, stride_row, num_parts, width, padded_parts: tl.constexpr, block_columns: tl.constexpr):
    """The sum of all parts, over some columns."""
    parts = tl.arange(0, padded_parts)
    columns = tl.program_id(0) * block_columns + tl.arange(0, block_columns)
    inside = (parts[:, None] < num_parts) & (columns[None, :] < width)
    place = partial_sums + parts.to(tl.int64)[:, None] * stride_row + columns[None, :]
    total = tl.sum(tl.load(place, mask=inside, other=0.0), 0)
    tl.store(out + columns, total.to(out.dtype.element_ty), mask=columns < width)


def parts_of(tiles: int) -> int:
    """Into how many parts a sum over tiles of rows is cut: one for each, or four tiles to a part where there are many.

    >>> parts_of(0), parts_of(100), parts_of(1024), parts_of(10_000)
    (1, 100, 256, 512)
    """
    return max(1, min(PARTS, tiles if tiles <= PARTS // 2 else max(PARTS // 2, tiles // 4)))


def fold(partial_sums: Float[Tensor, "p n d"], dtype: torch.dtype) -> Float[Tensor, "n d"]:
    """The sum of up to 512 parts, in `dtype`; parts may lie apart, what belongs to one part lies together."""
    parts, count, width = partial_sums.shape
    out = torch.empty(count, width, dtype=dtype, device=partial_sums.device)
    if out.numel():
        with on(out):
            _fold[(-(-count * width // 16),)](
                partial_sums, out, partial_sums.stride(0), parts, count * width,
                padded_parts=power_of_two(parts), block_columns=16, num_warps=4,
            )  # fmt: skip
    return out


def hand_on(x: Float[Tensor, "*s d"], sums: Float[Tensor, " d"]) -> None:
    """Lets a gradient carry the sums of its columns, which the kernel that wrote it has made on its way."""
    x._column_sums = (x._version, sums.to(x.dtype))  # type: ignore[attr-defined]


def handed_on(x: Float[Tensor, "*s d"]) -> Float[Tensor, " d"] | None:
    """The sums that a gradient carries; None where it carries none, or was changed in place since."""
    version, sums = getattr(x, "_column_sums", (None, None))
    return sums if version == x._version else None


def column_sums(x: Float[Tensor, "n d"]) -> Float[Tensor, " d"]:
    """Σ over the rows, in the type of x, added up in float32."""
    x = contiguous_rows(x)
    rows, width = x.shape
    if not x.numel():
        return x.new_zeros(width)
    block_columns = min(64, power_of_two(width, 16))
    parts = max(1, min(PARTS // 8, -(-rows // 32)))
    partial_sums = torch.empty(parts, 1, width, dtype=torch.float32, device=x.device)
    with on(x):
        _parts[(parts, -(-width // block_columns))](
            x, partial_sums, x.stride(0), rows, width, block=32, block_columns=block_columns, num_warps=4
        )
    return fold(partial_sums, x.dtype)[0]
