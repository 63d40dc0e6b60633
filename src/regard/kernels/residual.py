# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""What stands between two sub-layers of a Transformer, in one kernel: bias, dropout, residual sum and layer norm.

    sum    = x + dropout(y + bias)
    normed = (sum − mean) / √(variance + ε) · γ + β        mean and variance of each row

Any of y, bias and norm may be missing. A program has some rows, whole; the sum is rounded to its type before it is
normalised, as it is where each operation is one of torch's. The backward pass reads the sum again, makes mean and
variance anew, and draws the same noise. There a program walks over many rows and adds up its part of the gradients of
γ, β and bias; a second kernel adds the parts, in a fixed order, so that results repeat bit by bit.
"""

from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.columns import fold, hand_on, parts_of
from regard.kernels.derivatives import differentiable_again, has_no_memory, refuse_transforms
from regard.kernels.dropout import kept_in_rows
from regard.kernels.launch import jit, on, power_of_two, tl
from regard.kernels.noise import kept_scale, next_site, rows_of_a_draw, threshold


@jit
def _mean_and_scale(x, inside, width, eps):
    """The mean of each row [r g 8], and 1 / √(variance + ε)."""
    mean = tl.sum(tl.sum(x, 2), 1) / width
    apart = tl.where(inside, x - mean[:, None, None], 0.0)
    variance = tl.sum(tl.sum(apart * apart, 2), 1) / width
    return mean, 1.0 / tl.sqrt(variance + eps)


@jit
def _forward(
    x, y, bias, weight, shift_by, total, normed, seed, site, num_rows, width, lost, kept_factor, rows_per_draw, eps,
    has_y: tl.constexpr, has_bias: tl.constexpr, has_dropout: tl.constexpr, has_norm: tl.constexpr,
    writes_total: tl.constexpr, block: tl.constexpr, padded_groups: tl.constexpr,
):  # fmt: skip
    """Some rows: their sum, and what is normalised of it."""
    rows = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    groups = tl.arange(0, padded_groups)
    at = (groups[:, None] * 8 + tl.arange(0, 8)[None, :])[None, :, :]
    inside = (rows[:, None, None] < num_rows) & (at < width)
    place = rows[:, None, None] * width + at
    every = at + tl.zeros([block, 1, 1], tl.int32)  # vectors are read in the shape of the rows: one layout for all
    number = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    if has_y:
        added = tl.load(y + place, mask=inside, other=0.0).to(tl.float32)
        if has_bias:
            added += tl.load(bias + every, mask=inside, other=0.0).to(tl.float32)
        if has_dropout:
            kept = kept_in_rows(seed, site, rows, groups, lost, rows_per_draw)
            added = tl.where(kept, added * kept_factor, 0.0)
        number += added
    rounded = number.to(total.dtype.element_ty)
    if writes_total:
        tl.store(total + place, rounded, mask=inside)
    if has_norm:
        number = tl.where(inside, rounded.to(tl.float32), 0.0)
        mean, scale = _mean_and_scale(number, inside, width, eps)
        result = (number - mean[:, None, None]) * scale[:, None, None]
        result *= tl.load(weight + every, mask=inside, other=0.0).to(tl.float32)
        result += tl.load(shift_by + every, mask=inside, other=0.0).to(tl.float32)
        tl.store(normed + place, result.to(normed.dtype.element_ty), mask=inside)


@jit
def _backward(
    total, weight, of_total, of_normed, grad_x, grad_y, partial_sums, seed,
    site, num_rows, width, lost, kept_factor, rows_per_draw, eps,
    has_total: tl.constexpr, has_y: tl.constexpr, has_bias: tl.constexpr, has_dropout: tl.constexpr,
    has_norm: tl.constexpr, block: tl.constexpr, padded_groups: tl.constexpr,
):  # fmt: skip
    """The gradients of x and y, and a part of those of γ, β and bias: three rows of `partial_sums`."""
    part, parts = tl.program_id(0), tl.num_programs(0)
    groups = tl.arange(0, padded_groups)
    at = (groups[:, None] * 8 + tl.arange(0, 8)[None, :])[None, :, :]
    factor = 1.0
    if has_norm:  # read in the shape of the rows: one layout for all
        every = at + tl.zeros([block, 1, 1], tl.int32)
        factor = tl.load(weight + every, mask=every < width, other=0.0).to(tl.float32)
    of_weight = tl.zeros([block, padded_groups, 8], tl.float32)
    of_shift = tl.zeros([block, padded_groups, 8], tl.float32)
    of_bias = tl.zeros([block, padded_groups, 8], tl.float32)
    for tile in range(part, tl.cdiv(num_rows, block), parts):
        rows = (tile * block + tl.arange(0, block)).to(tl.int64)
        inside = (rows[:, None, None] < num_rows) & (at < width)
        place = rows[:, None, None] * width + at
        gradient = tl.zeros([block, padded_groups, 8], tl.float32)
        if has_total:
            gradient += tl.load(of_total + place, mask=inside, other=0.0).to(tl.float32)
        if has_norm:
            number = tl.load(total + place, mask=inside, other=0.0).to(tl.float32)
            mean, scale = _mean_and_scale(number, inside, width, eps)
            unit = tl.where(inside, (number - mean[:, None, None]) * scale[:, None, None], 0.0)
            outer = tl.load(of_normed + place, mask=inside, other=0.0).to(tl.float32)
            of_weight += outer * unit
            of_shift += outer
            outer *= factor
            first = tl.sum(tl.sum(outer, 2), 1) / width
            second = tl.sum(tl.sum(outer * unit, 2), 1) / width
            gradient += (outer - first[:, None, None] - unit * second[:, None, None]) * scale[:, None, None]
        tl.store(grad_x + place, gradient.to(grad_x.dtype.element_ty), mask=inside)
        if has_y:
            if has_dropout:
                kept = kept_in_rows(seed, site, rows, groups, lost, rows_per_draw)
                gradient = tl.where(kept, gradient * kept_factor, 0.0)
                tl.store(grad_y + place, gradient.to(grad_y.dtype.element_ty), mask=inside)
            if has_bias:
                of_bias += tl.where(inside, gradient, 0.0)
    columns = groups[:, None] * 8 + tl.arange(0, 8)[None, :]
    partial_sums += part.to(tl.int64) * 3 * width
    if has_norm:
        tl.store(partial_sums + columns, tl.sum(of_weight, 0), mask=columns < width)
        tl.store(partial_sums + width + columns, tl.sum(of_shift, 0), mask=columns < width)
    if has_bias:
        tl.store(partial_sums + 2 * width + columns, tl.sum(of_bias, 0), mask=columns < width)


def fused_residual(
    x: Float[Tensor, "*s d"],
    y: Float[Tensor, "*s d"] | None = None,
    *,
    bias: Float[Tensor, " d"] | None = None,
    weight: Float[Tensor, " d"] | None = None,
    shift: Float[Tensor, " d"] | None = None,
    eps: float = 1e-5,
    dropout: float = 0.0,
    locked: bool = False,
) -> tuple[Float[Tensor, "*s d"], Float[Tensor, "*s d"] | None]:
    """x + dropout(y + bias), and that normalised with `weight` γ and `shift` β, or None without them.

    Without y the first result is x itself, as one that takes a gradient beside that of the norm. p of the dropout is
    rounded to a multiple of 2⁻¹⁶. `locked` sets the same numbers to zero at all places of the last axis but one.
    Gradients flow to all tensors, also twice.
    """
    refuse_transforms("fused_residual")
    has_norm = weight is not None and shift is not None
    lost = threshold(dropout) if y is not None else 0
    seed, site = next_site(x.device) if lost else (None, 0)
    hands_on = y is not None and getattr(y.grad_fn, "wants_column_sums", False)  # y comes from `fused_linear`
    bias = bias if y is not None else None
    rows_per_draw = rows_of_a_draw(x.shape, locked)
    outputs = _Residual.apply(x, y, bias, weight, shift, seed, site, lost, rows_per_draw, float(eps), hands_on)
    return outputs if has_norm else (outputs, None)


class _Residual(torch.autograd.Function):
    """Saves the sum, from which the backward pass makes mean and variance again."""

    @staticmethod
    def forward(ctx, x, y, bias, weight, shift, seed, site, lost, rows_per_draw, eps, hands_on):
        shape, width = x.shape, x.shape[-1]
        x = x.contiguous()
        y = None if y is None else y.contiguous()
        total = x if y is None else torch.empty(shape, dtype=_common(x, y), device=x.device)
        has_norm = weight is not None
        normed = torch.empty_like(total) if has_norm else None
        ctx.set_materialize_grads(False)
        ctx.settings = site, lost, rows_per_draw, eps
        ctx.adds_up = hands_on or bias is not None
        ctx.kinds = x.dtype, None if y is None else y.dtype
        if total.numel():
            rows = total.numel() // width
            with on(x):
                tile = _tile(width)
                _forward[(-(-rows // tile["block"]),)](
                    x, x if y is None else y, *_or(x, bias, weight, shift), total, *_or(x, normed, seed),
                    site, rows, width, lost, kept_scale(lost), rows_per_draw, eps,
                    has_y=y is not None, has_bias=bias is not None, has_dropout=lost > 0, has_norm=has_norm,
                    writes_total=y is not None, **tile,
                )  # fmt: skip
        needs_inputs = has_norm and any(ctx.needs_input_grad)
        ctx.save_for_backward(
            total if needs_inputs else None, bias, weight, shift, seed, x, y if y is not None else None
        )
        if not has_norm:
            return total
        return (total.view_as(total) if y is None else total), normed

    @staticmethod
    def backward(ctx, of_total, of_normed=None):
        total, bias, weight, shift, seed, *_ = ctx.saved_tensors
        site, lost, rows_per_draw, eps = ctx.settings
        if of_total is None and of_normed is None:
            return (None,) * 11
        if torch.is_grad_enabled() or any(g is not None and has_no_memory(g) for g in (of_total, of_normed)):
            return *_again(ctx, of_total, of_normed), *(None,) * 6
        given = of_total if of_total is not None else of_normed
        shape, width = given.shape, given.shape[-1]
        of_total, of_normed = (None if g is None else g.contiguous() for g in (of_total, of_normed))
        has_norm, has_y = of_normed is not None, ctx.kinds[1] is not None
        if not has_norm and not lost and not ctx.adds_up:  # a sum alone
            return of_total.to(ctx.kinds[0]), of_total.to(ctx.kinds[1]) if has_y else None, *(None,) * 9
        grad_x = torch.empty(shape, dtype=ctx.kinds[0], device=given.device)
        grad_y = torch.empty(shape, dtype=ctx.kinds[1], device=given.device) if has_y and lost else None
        rows = given.numel() // width if given.numel() else 0
        tile = _tile(width)
        parts = parts_of(-(-rows // tile["block"]))
        partial_sums = torch.empty(parts, 3, width, dtype=torch.float32, device=given.device)
        with on(given):
            _backward[(parts,)](
                *_or(given, total, weight, of_total, of_normed), grad_x, *_or(given, grad_y), partial_sums,
                *_or(given, seed), site, rows, width, lost, kept_scale(lost), rows_per_draw, eps,
                has_total=of_total is not None, has_y=has_y, has_bias=ctx.adds_up, has_dropout=lost > 0,
                has_norm=has_norm, **tile,
            )  # fmt: skip
        if has_y and grad_y is None:
            grad_y = grad_x.to(ctx.kinds[1])
        kind = next((p.dtype for p in (weight, bias) if p is not None), torch.float32)
        first, last = (0 if has_norm else 2), (3 if ctx.adds_up else 2)
        sums = (
            dict(zip(range(first, last), fold(partial_sums[:, first:last], kind), strict=True)) if last > first else {}
        )
        parameters = [
            None if parameter is None or number not in sums else sums[number].to(parameter.dtype)
            for number, parameter in ((2, bias), (0, weight), (1, shift))
        ]
        if ctx.adds_up and bias is None and grad_y is not None:
            hand_on(grad_y, sums[2])
        return grad_x, grad_y, *parameters, *(None,) * 6


def _again(ctx, of_total, of_normed):
    """The gradients by plain operations, with the noise of the forward pass."""
    _, bias, weight, shift, seed, x, y = ctx.saved_tensors
    site, lost, rows_per_draw, eps = ctx.settings
    inputs = {
        name: each
        for name, each in zip(("x", "y", "bias", "weight", "shift"), (x, y, bias, weight, shift), strict=True)
        if each is not None
    }
    noise = None
    if lost:
        noise = survivors(x.shape, seed, site, lost, rows_per_draw).to(torch.float32)
    plain = partial(_named, tuple(inputs), noise, eps)
    needed = [
        need for need, each in zip(ctx.needs_input_grad, (x, y, bias, weight, shift), strict=False) if each is not None
    ]
    found = differentiable_again(plain, list(inputs.values()), needed, of_total, dropout=0.0, of_weights=of_normed)
    gradients = dict(zip(inputs, found, strict=True))
    return [gradients.get(name) for name in ("x", "y", "bias", "weight", "shift")]


def _named(names: tuple[str, ...], noise: Tensor | None, eps: float, *tensors: Tensor) -> Any:
    total, normed = plain_residual(**dict(zip(names, tensors, strict=True)), noise=noise, eps=eps)
    return (total, total if normed is None else normed)


def plain_residual(
    x: Tensor,
    y: Tensor | None = None,
    bias: Tensor | None = None,
    weight: Tensor | None = None,
    shift: Tensor | None = None,
    *,
    noise: Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor | None]:
    """The same in plain operations: `noise` has 0 for what is lost, and what survivors are multiplied by."""
    total = x
    if y is not None:
        added = y if bias is None else y + bias
        total = x + (added if noise is None else (added * noise).to(y.dtype))
    if weight is None or shift is None:
        return total, None
    return total, torch.layer_norm(total, weight.shape, weight.to(total.dtype), shift.to(total.dtype), eps)


def survivors(shape: torch.Size, seed: Tensor, site: int, lost: int, rows_per_draw: int = 1) -> Float[Tensor, "*s d"]:
    """The noise of a call: 0 for what is lost, else what survivors are multiplied by; float32."""
    zeros = torch.zeros(shape, device=seed.device)
    noise = torch.empty_like(zeros)
    if zeros.numel():
        width = shape[-1]
        rows, tile = zeros.numel() // width, _tile(width)
        with on(zeros):
            _forward[(-(-rows // tile["block"]),)](
                zeros, zeros + 1.0, *_or(zeros, None, None, None), noise, zeros, seed,
                site, rows, width, lost, kept_scale(lost), rows_per_draw, 1.0,
                has_y=True, has_bias=False, has_dropout=True, has_norm=False, writes_total=True, **tile,
            )  # fmt: skip
    return noise


def _common(x: Tensor, y: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, y.dtype)


def _or(filler: Tensor, *tensors: Tensor | None) -> list[Tensor]:
    return [filler if tensor is None else tensor for tensor in tensors]


def _tile(width: int) -> dict[str, int]:
    """Rows of a program, in groups of eight numbers, and as many threads as leave about 16 numbers to each."""
    groups = power_of_two(-(-width // 8), 2)
    block = max(1, 256 // groups)
    return {"block": block, "padded_groups": groups, "num_warps": min(16, max(4, block * groups // 64))}
