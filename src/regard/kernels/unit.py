# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""Rows of length one, x / |x|, in one pass over memory; as a series of operations it takes eight.

With u = x/|x| the gradient is (g − u (u·g)) / |x|. Rows are divided by their largest number first, so that squares
neither overflow nor vanish; a row of zeros stays one, with zero gradient.
"""

import torch
from torch import Tensor

from regard.kernels.launch import jit, on, power_of_two, tl
from regard.kernels.opaque import opaque


@jit
def _unit(x, grad, out, num_rows, width, backward: tl.constexpr, block: tl.constexpr, padded: tl.constexpr):
    rows, at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block), tl.arange(0, padded)
    inside = (rows[:, None] < num_rows) & (at[None, :] < width)
    place = rows[:, None] * width + at[None, :]
    row = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    peak = tl.max(tl.abs(row), 1)
    peak = tl.where(peak == 0.0, 1.0, peak)
    row = row / peak[:, None]
    norm = tl.sqrt(tl.sum(row * row, 1))
    is_zero = norm == 0.0
    norm = tl.where(is_zero, 1.0, norm)
    row = row / norm[:, None]
    if backward:
        outer = tl.load(grad + place, mask=inside, other=0.0).to(tl.float32)
        row = (outer - row * tl.sum(outer * row, 1)[:, None]) / norm[:, None] / peak[:, None]
        row = tl.where(is_zero[:, None], 0.0, row)
    tl.store(out + place, row.to(out.dtype.element_ty), mask=inside)


def _run(x: Tensor, grad: Tensor | None) -> Tensor:
    x = x.contiguous()
    out = torch.empty_like(x)
    width = x.shape[-1]
    if x.numel():
        padded = power_of_two(width, 16)
        block = max(1, 4096 // padded)
        count = x.numel() // width
        with on(x):
            _unit[(-(-count // block),)](
                x, x if grad is None else grad.contiguous(), out, count, width,
                backward=grad is not None, block=block, padded=padded, num_warps=8,
            )  # fmt: skip
    return out


@opaque("regard::unit")
def unit_rows(x: Tensor) -> Tensor:
    """x / |x| for each row [… d], in the dtype of x, computed in float32."""
    return _run(x, None)


@opaque("regard::unit_backward")
def _backward(x: Tensor, grad: Tensor) -> Tensor:
    return _run(x, grad)


@unit_rows.register_fake
def _(x):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@_backward.register_fake
def _(x, grad):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _remember(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _differentiate(ctx, grad):
    (x,) = ctx.saved_tensors
    if not torch.is_grad_enabled():
        return _backward(x, grad)
    full, grad = x.float(), grad.float()  # somebody wants a second derivative: once more, in operations that have one
    peak = full.detach().abs().amax(-1, keepdim=True)
    zero = peak == 0
    full = full / peak.masked_fill(zero, 1.0)
    norm = full.masked_fill(zero, 1.0).square().sum(-1, keepdim=True).sqrt()
    unit = full / norm
    result = (grad - unit * (unit * grad).sum(-1, keepdim=True)) / norm / peak.masked_fill(zero, 1.0)
    return result.masked_fill(zero, 0.0).to(x.dtype)


unit_rows.register_autograd(_differentiate, setup_context=_remember)
