# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""Cross entropy with smoothed labels: one pass over the logits forward, and one backward that writes their gradient.

A program has a row, block by block. It keeps the highest logit and the sum of exponentials in float32, and what is
saved is the logarithm of that sum. Rows that are ignored are not read. Nothing but the gradient is as large as the
logits.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.kernels.arithmetic import precise_exp
from regard.kernels.derivatives import refuse_transforms
from regard.kernels.launch import jit, on, power_of_two, tl

BLOCK = 2048  # logits that a program has at once


@jit
def _exp(x, exact: tl.constexpr):
    """exp(x) for x ≤ 0, and 0 for −∞; with all digits of float32 where `exact`."""
    if exact:
        result = precise_exp(tl.maximum(x, -87.0, propagate_nan=tl.PropagateNan.ALL))
        result = tl.where(x < -87.0, 0.0, result)
    else:
        result = tl.exp(x)
    return result


@jit
def _forward(
    logits, targets, losses, log_sums, stride_row, width, share, spread, ignore,
    smooth: tl.constexpr, exact: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """The loss of one row, and log Σ exp of it."""
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(targets + row)
    at = tl.arange(0, block)
    logits += row * stride_row
    if target == ignore:
        tl.store(losses + row, 0.0)
        tl.store(log_sums + row, 0.0)
    else:
        peak, total, plain = -float("inf"), 0.0, 0.0
        for start in range(0, width, block):
            inside = start + at < width
            x = tl.load(logits + start + at, mask=inside, other=-float("inf")).to(tl.float32)
            higher = tl.maximum(peak, tl.max(x, 0))
            base = tl.where(higher == -float("inf"), 0.0, higher)
            total = total * _exp(peak - base, exact) + tl.sum(_exp(x - base, exact), 0)
            peak = higher
            if smooth:
                plain += tl.sum(tl.where(inside, x, 0.0), 0)
        log_sum = tl.log(total) + tl.where(peak == -float("inf"), 0.0, peak)
        there = (target >= 0) & (target < width)
        found = tl.load(logits + tl.where(there, target, 0)).to(tl.float32)
        loss = log_sum - share * tl.where(there, found, float("nan"))
        if smooth:
            loss -= spread * plain
        tl.store(losses + row, loss)
        tl.store(log_sums + row, log_sum)


@jit
def _backward(
    logits, targets, log_sums, outer, grad_logits, stride_row, stride_outer, width, share, spread, ignore,
    exact: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """outer · (softmax − q) of one row."""
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(targets + row)
    at = tl.arange(0, block)
    logits += row * stride_row
    grad_logits += row * width
    if target == ignore:
        zeros = tl.zeros([block], tl.float32).to(grad_logits.dtype.element_ty)
        for start in range(0, width, block):
            tl.store(grad_logits + start + at, zeros, mask=start + at < width)
    else:
        log_sum, factor = tl.load(log_sums + row), tl.load(outer + row * stride_outer)
        for start in range(0, width, block):
            inside = start + at < width
            x = tl.load(logits + start + at, mask=inside, other=0.0).to(tl.float32)
            shares = _exp(x - log_sum, exact) - spread - tl.where(start + at == target, share, 0.0)
            tl.store(grad_logits + start + at, (factor * shares).to(grad_logits.dtype.element_ty), mask=inside)


def fused_token_losses(
    logits: Float[Tensor, "n v"], targets: Int[Tensor, " n"], *, smoothing: float, ignore: int
) -> Float[Tensor, " n"]:
    """−Σ_y q_t(y) log softmax(logits_t)(y) of each row in float32, zero where the target is `ignore`.

    A target that is no word gives NaN. It can be differentiated once; results repeat bit by bit.
    """
    refuse_transforms("fused_token_losses")
    losses: Tensor = _Losses.apply(logits, targets, smoothing, ignore)
    return losses


class _Losses(torch.autograd.Function):
    """Keeps the logits as they are, and log Σ exp of each row."""

    @staticmethod
    def forward(ctx, logits, targets, smoothing, ignore):
        logits = logits if logits.stride(-1) == 1 else logits.contiguous()
        targets = targets.contiguous()
        rows, width = logits.shape
        losses, log_sums = (logits.new_empty(rows, dtype=torch.float32) for _ in range(2))
        ctx.settings = width, 1.0 - smoothing, smoothing / max(width, 1), ignore
        if rows:
            with on(logits):
                _forward[(rows,)](
                    logits, targets, losses, log_sums, logits.stride(0), *ctx.settings, smooth=smoothing > 0.0,
                    exact=logits.dtype == torch.float32, **_block(width),
                )  # fmt: skip
        ctx.save_for_backward(logits, targets, log_sums)
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx, outer):
        logits, targets, log_sums = ctx.saved_tensors
        rows, width = logits.shape
        gradient = logits.new_empty(rows, width)
        if rows:
            with on(logits):
                _backward[(rows,)](
                    logits, targets, log_sums, outer, gradient, logits.stride(0), outer.stride(0), *ctx.settings,
                    exact=logits.dtype == torch.float32, **_block(width),
                )  # fmt: skip
        return gradient, None, None, None


def _block(width: int) -> dict[str, int]:
    """The size of a block, and threads that have 16 numbers of it each."""
    block = min(BLOCK, power_of_two(width, 16))
    return {"block": block, "num_warps": max(1, block // 512)}
