# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""Word vectors with their places, in one kernel: dropout(scale · W[token] + place).

The gradient of a vector is a sum over the places of its word. Tokens are sorted, in 16 bits where these are enough, and
one program adds up one word, in the order of the text: results repeat bit by bit, and words that do not occur get their
zeros from the same kernel.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.kernels.derivatives import has_no_memory, refuse_transforms
from regard.kernels.dropout import kept_in_rows
from regard.kernels.launch import jit, on, power_of_two, tl
from regard.kernels.noise import kept_scale, next_site, rows_of_a_draw, threshold
from regard.kernels.residual import survivors


@jit
def _forward(
    tokens, weight, places, first, out, seed, site, num_rows, width, length, words, scale, lost, kept_factor,
    rows_per_draw, has_places: tl.constexpr, has_first: tl.constexpr, has_dropout: tl.constexpr, block: tl.constexpr,
    padded_groups: tl.constexpr,
):  # fmt: skip
    """The vectors of some tokens; a number that is no word gives NaN."""
    rows = (tl.program_id(0) * block + tl.arange(0, block)).to(tl.int64)
    groups = tl.arange(0, padded_groups)
    at = (groups[:, None] * 8 + tl.arange(0, 8)[None, :])[None, :, :]
    inside = (rows[:, None, None] < num_rows) & (at < width)
    token = tl.load(tokens + rows, mask=rows < num_rows, other=0)
    known = ((token >= 0) & (token < words))[:, None, None]
    source = tl.where((token >= 0) & (token < words), token, 0).to(tl.int64)[:, None, None] * width + at
    number = tl.load(weight + source, mask=inside, other=0.0).to(tl.float32) * scale
    number = tl.where(known, number, float("nan"))
    if has_places:
        place = rows % length
        if has_first:
            place += tl.load(first)
        beside = place[:, None, None] * width + at
        number += tl.load(places + beside, mask=inside, other=0.0).to(tl.float32)
    if has_dropout:
        kept = kept_in_rows(seed, site, rows, groups, lost, rows_per_draw)
        number = tl.where(kept, number * kept_factor, 0.0)
    tl.store(out + rows[:, None, None] * width + at, number.to(out.dtype.element_ty), mask=inside)


@jit
def _backward(
    grad, order, bounds, grad_weight, seed, site, width, scale, lost, kept_factor, rows_per_draw, padding,
    has_dropout: tl.constexpr, block: tl.constexpr, padded_groups: tl.constexpr,
):  # fmt: skip
    """The gradient of the vector of one word."""
    word = tl.program_id(0)
    start, end = tl.load(bounds + word), tl.load(bounds + word + 1)
    end = tl.where(word == padding, start, end)
    groups = tl.arange(0, padded_groups)
    at = (groups[:, None] * 8 + tl.arange(0, 8)[None, :])[None, :, :]
    total = tl.zeros([block, padded_groups, 8], tl.float32)
    for first in range(start, end, block):
        number = first + tl.arange(0, block)
        rows = tl.load(order + number, mask=number < end, other=0).to(tl.int64)
        inside = (number < end)[:, None, None] & (at < width)
        gradient = tl.load(grad + rows[:, None, None] * width + at, mask=inside, other=0.0).to(tl.float32)
        if has_dropout:
            kept = kept_in_rows(seed, site, rows, groups, lost, rows_per_draw)
            gradient = tl.where(kept, gradient * kept_factor, 0.0)
        total += gradient
    columns = groups[:, None] * 8 + tl.arange(0, 8)[None, :]
    result = tl.sum(total, 0) * scale
    place = grad_weight + word.to(tl.int64) * width + columns
    tl.store(place, result.to(grad_weight.dtype.element_ty), mask=columns < width)


def fused_embedding(
    weight: Float[Tensor, "v d"],
    tokens: Int[Tensor, "b t"],
    *,
    scale: float = 1.0,
    places: Float[Tensor, "p d"] | None = None,
    first: Int[Tensor, ""] | None = None,
    dropout: float = 0.0,
    padding: int | None = None,
    locked: bool = False,
) -> Float[Tensor, "b t d"]:
    """dropout(scale · weight[tokens] + places); the word `padding` learns nothing.

    Texts begin at the place `first`, a number of the device that nobody checks, or at 0. Gradients flow to the weight,
    also twice, and none to places. A token that is no word gives NaN. p of the dropout is rounded to a multiple of
    2⁻¹⁶. `locked` sets the same numbers to zero at all words of a text.
    """
    refuse_transforms("fused_embedding")
    lost = threshold(dropout)
    seed, site = next_site(weight.device) if lost else (None, 0)
    per_draw = rows_of_a_draw((*tokens.shape, weight.shape[-1]), locked)
    out: Tensor = _Embedding.apply(weight, tokens, places, first, seed, site, lost, per_draw, float(scale), padding)
    return out


class _Embedding(torch.autograd.Function):
    """Saves the tokens for the backward pass, which adds their gradients up word by word."""

    @staticmethod
    def forward(ctx, weight, tokens, places, first, seed, site, lost, rows_per_draw, scale, padding):
        weight, tokens = weight.contiguous(), tokens.contiguous()
        (words, width), rows = weight.shape, tokens.numel()
        out = weight.new_empty(*tokens.shape, width)
        ctx.save_for_backward(tokens, seed)
        ctx.settings = weight.shape, weight.dtype, site, lost, rows_per_draw, scale, padding
        if out.numel():
            tile = _tile(width, 2048)
            with on(weight):
                _forward[(-(-rows // tile["block"]),)](
                    tokens, weight, weight if places is None else places.contiguous(),
                    tokens if first is None else first, out,
                    tokens if seed is None else seed, site, rows, width, tokens.shape[-1], words, scale, lost,
                    kept_scale(lost), rows_per_draw, has_places=places is not None, has_first=first is not None,
                    has_dropout=lost > 0, **tile,
                )  # fmt: skip
        return out

    @staticmethod
    def backward(ctx, grad):
        tokens, seed = ctx.saved_tensors
        (words, width), dtype, site, lost, rows_per_draw, scale, padding = ctx.settings
        if torch.is_grad_enabled() or has_no_memory(grad):  # a second derivative, or many gradients at once
            shape = torch.Size((*tokens.shape, width))
            noise = scale * survivors(shape, seed, site, lost, rows_per_draw) if lost else scale
            given = (grad * noise).to(dtype)
            ignored = -1 if padding is None else padding
            return torch.ops.aten.embedding_dense_backward(given, tokens, words, ignored, False), *(None,) * 9
        grad = grad.contiguous()
        gradient = torch.empty(words, width, dtype=dtype, device=grad.device)
        if not grad.numel():
            return gradient.zero_(), *(None,) * 9
        kind = torch.int16 if words < 2**15 else torch.int32
        ordered, order = torch.sort(tokens.flatten().to(kind), stable=True)
        bounds = torch.searchsorted(ordered, torch.arange(words + 1, dtype=kind, device=grad.device), out_int32=True)
        if gradient.numel():
            with on(grad):
                _backward[(words,)](
                    grad, order, bounds, gradient, order if seed is None else seed, site, width, scale, lost,
                    kept_scale(lost), rows_per_draw, -1 if padding is None else padding, has_dropout=lost > 0,
                    **_tile(width, 8192),
                )  # fmt: skip
        return gradient, *(None,) * 9


def _tile(width: int, numbers: int) -> dict[str, int]:
    """Rows of a program, in groups of eight numbers; about so many numbers in all."""
    groups = power_of_two(-(-width // 8), 2)
    return {"block": max(1, numbers // 8 // groups), "padded_groups": groups, "num_warps": 4 if numbers < 4096 else 8}
