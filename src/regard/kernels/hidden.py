# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""What stands between the two products of a feed-forward layer, in one kernel: dropout(max(0, x + bias)).

The result says by itself where a gradient flows: where it is not zero. So nothing else is saved, and the backward pass
draws no noise. The gradient of the bias is added up in the same pass, by parts, which a second kernel adds.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.columns import fold, parts_of
from regard.kernels.derivatives import has_no_memory, refuse_transforms
from regard.kernels.dropout import kept_in_rows
from regard.kernels.launch import jit, on, power_of_two, tl
from regard.kernels.noise import kept_scale, next_site, rows_of_a_draw, threshold


@jit
def _forward(
    x, bias, out, seed, site, num_rows, width, lost, kept_factor, rows_per_draw,
    has_bias: tl.constexpr, has_dropout: tl.constexpr, block: tl.constexpr, block_groups: tl.constexpr,
):  # fmt: skip
    """Some rows, some columns."""
    rows = (tl.program_id(0) * block + tl.arange(0, block)).to(tl.int64)
    groups = tl.program_id(1) * block_groups + tl.arange(0, block_groups)
    at = (groups[:, None] * 8 + tl.arange(0, 8)[None, :])[None, :, :]
    inside = (rows[:, None, None] < num_rows) & (at < width)
    place = rows[:, None, None] * width + at
    number = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    if has_bias:
        every = at + tl.zeros([block, 1, 1], tl.int32)  # read in the shape of the rows: one layout for all
        number += tl.load(bias + every, mask=inside, other=0.0).to(tl.float32)
    number = tl.maximum(number, 0.0, propagate_nan=tl.PropagateNan.ALL)
    if has_dropout:
        kept = kept_in_rows(seed, site, rows, groups, lost, rows_per_draw)
        number = tl.where(kept, number * kept_factor, 0.0)
    tl.store(out + place, number.to(out.dtype.element_ty), mask=inside)


@jit
def _backward(
    out, grad, grad_x, partial_sums, num_rows, width, kept_factor,
    has_bias: tl.constexpr, block: tl.constexpr, block_groups: tl.constexpr,
):  # fmt: skip
    """The gradient of x, over some columns and a part of the rows, and that part of the gradient of the bias."""
    part, parts = tl.program_id(0), tl.num_programs(0)
    groups = tl.program_id(1) * block_groups + tl.arange(0, block_groups)
    at = (groups[:, None] * 8 + tl.arange(0, 8)[None, :])[None, :, :]
    of_bias = tl.zeros([block, block_groups, 8], tl.float32)
    for tile in range(part, tl.cdiv(num_rows, block), parts):
        rows = (tile * block + tl.arange(0, block)).to(tl.int64)
        inside = (rows[:, None, None] < num_rows) & (at < width)
        place = rows[:, None, None] * width + at
        result = tl.load(out + place, mask=inside, other=0.0).to(tl.float32)
        gradient = tl.load(grad + place, mask=inside, other=0.0).to(tl.float32)
        gradient = tl.where(result == 0.0, 0.0, gradient * kept_factor)
        tl.store(grad_x + place, gradient.to(grad_x.dtype.element_ty), mask=inside)
        of_bias += gradient
    if has_bias:
        columns = groups[:, None] * 8 + tl.arange(0, 8)[None, :]
        tl.store(partial_sums + part.to(tl.int64) * width + columns, tl.sum(of_bias, 0), mask=columns < width)


def fused_hidden(
    x: Float[Tensor, "*s d"],
    bias: Float[Tensor, " d"] | None = None,
    *,
    dropout: float = 0.0,
    locked: bool = False,
) -> Float[Tensor, "*s d"]:
    """dropout(max(0, x + bias)); p is rounded to a multiple of 2⁻¹⁶. Gradients flow to both, also twice.

    `locked` sets the same numbers to zero at all places of the last axis but one.
    """
    refuse_transforms("fused_hidden")
    lost = threshold(dropout)
    seed, site = next_site(x.device) if lost else (None, 0)
    result: Tensor = _Hidden.apply(x, bias, seed, site, lost, rows_of_a_draw(x.shape, locked))
    return result


class _Hidden(torch.autograd.Function):
    """Saves the result: where it is zero, ReLU or dropout has stopped the gradient."""

    @staticmethod
    def forward(ctx, x, bias, seed, site, lost, rows_per_draw):
        x = x.contiguous()
        out = torch.empty_like(x)
        width = x.shape[-1]
        ctx.factor, ctx.has_bias = kept_scale(lost), bias is not None
        ctx.kind = None if bias is None else bias.dtype
        if x.numel():
            rows, tile = x.numel() // width, _tile(width)
            with on(x):
                _forward[(-(-rows // tile["block"]), -(-width // (8 * tile["block_groups"])))](
                    x, x if bias is None else bias, out, x if seed is None else seed, site, rows, width, lost,
                    ctx.factor, rows_per_draw, has_bias=ctx.has_bias, has_dropout=lost > 0, **tile,
                )  # fmt: skip
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, grad):
        (out,) = ctx.saved_tensors
        if torch.is_grad_enabled() or has_no_memory(grad):  # the slope is 0 or a constant: linear in the gradient
            of_x = grad * (out.detach() != 0).to(grad.dtype) * ctx.factor
            of_bias = of_x.sum(tuple(range(out.ndim - 1))).to(ctx.kind) if ctx.has_bias else None
            return of_x, of_bias, *(None,) * 4
        grad = grad.contiguous()
        of_x, width = torch.empty_like(out), out.shape[-1]
        rows, tile = out.numel() // max(width, 1), _tile(width)
        parts = parts_of(-(-rows // tile["block"]))
        partial_sums = torch.empty(parts, 1, width, dtype=torch.float32, device=out.device)
        with on(out):
            _backward[(parts, -(-width // (8 * tile["block_groups"])))](
                out, grad, of_x, partial_sums, rows, width, ctx.factor, has_bias=ctx.has_bias, **tile
            )
        return of_x, fold(partial_sums, ctx.kind)[0] if ctx.has_bias else None, *(None,) * 4


def plain_hidden(x: Tensor, bias: Tensor | None = None, *, noise: Tensor | None = None) -> Tensor:
    """The same in plain operations: `noise` has 0 for what is lost, and what survivors are multiplied by."""
    hidden = torch.relu(x if bias is None else x + bias)
    return hidden if noise is None else (hidden * noise).to(x.dtype)


def _tile(width: int) -> dict[str, int]:
    """Rows and groups of eight columns of a program: 1,024 numbers."""
    groups = min(32, power_of_two(-(-width // 8), 2))
    return {"block": 128 // groups, "block_groups": groups, "num_warps": 4}
