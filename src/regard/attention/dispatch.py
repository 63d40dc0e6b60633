"""Which implementation runs, and why not a faster one. An explicit wish is met or refused, never replaced."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.align import Softmax
from regard.attention.mask import Mask, fit
from regard.base import ConfigError, ImplementationUnavailable, ShapeError
from regard.score import Prepared, Score

IMPLEMENTATIONS = ("auto", "reference", "sdpa")


def check_impl(impl: str) -> str:
    """`impl`, if there is one of that name."""
    if impl not in IMPLEMENTATIONS:
        raise ConfigError("impl", got=repr(impl), expected=f"one of {', '.join(IMPLEMENTATIONS)}")
    return impl


def reasons_against_sdpa(score: Any, align: Any, *, need_weights: bool) -> list[str]:
    """Every reason why torch's fused kernel cannot do this; empty if it can."""
    reasons = []
    if not getattr(score, "is_dot", False):
        reasons.append(f"score={_name(score)} is not a dot product of transformed queries and keys")
    if type(align) is not Softmax:
        reasons.append(f"align={_name(align)} is not Softmax")
    if need_weights:
        reasons.append("weights were asked for (by need_weights=True or a trace), and this kernel has none")
    return reasons


def choose(impl: str, score: Any, align: Any, *, need_weights: bool) -> str:
    """ "sdpa" or "reference"."""
    if impl == "reference":
        return impl
    if impl == "auto":  # the same question as below, without making sentences
        fits = not need_weights and type(align) is Softmax and getattr(score, "is_dot", False)
        return "sdpa" if fits else "reference"
    reasons = reasons_against_sdpa(score, align, need_weights=need_weights)
    if reasons:
        raise ImplementationUnavailable(
            f"impl={impl!r} cannot run here: " + "; ".join(reasons), cure="use impl='auto' or impl='reference'"
        )
    return impl


def _name(part: Any) -> str:
    return getattr(part, "__name__", type(part).__name__)


def sdpa(
    query: Tensor,
    keys: Tensor | Prepared,
    values: Tensor,
    score: Score,
    align: Softmax,
    mask: Mask | None,
    bias: Tensor | None,
    dropout: float,
) -> Tensor:
    """The context [*b q v] through `torch.nn.functional.scaled_dot_product_attention`."""
    prepared = keys if isinstance(keys, Prepared) else score.prepare(keys)
    form = score.as_dot(query, prepared.keys)
    query, keys = form.query, form.keys
    lead = broadcast(query, keys, values)
    num_queries, num_keys = query.shape[-2], keys.shape[-2]
    wish = mask is not None and mask.is_causal and bias is None
    causal = True if wish and num_queries == num_keys else False  # noqa: SIM210 - a symbolic length decides here
    extra, empty = (None, None) if causal else _additive(mask, bias, (*lead, num_queries, num_keys), query, align)
    four = _four_axes(lead)
    context = F.scaled_dot_product_attention(
        query.expand(*lead, -1, -1).reshape(*four, num_queries, query.shape[-1]),
        keys.to(query.dtype).expand(*lead, -1, -1).reshape(*four, num_keys, keys.shape[-1]),
        values.to(query.dtype).expand(*lead, -1, -1).reshape(*four, num_keys, values.shape[-1]),
        attn_mask=None if extra is None else _reshape_mask(extra, lead, four),
        dropout_p=dropout,
        is_causal=causal,
        scale=form.scale / align.temperature,
    ).reshape(*lead, num_queries, values.shape[-1])
    context = context.to(values.dtype)
    return context if empty is None else context.masked_fill(empty, 0.0)


def broadcast(*tensors: Tensor) -> tuple[int, ...]:
    """The leading axes that all tensors share, or spread to."""
    leads = [tuple(tensor.shape[:-2]) for tensor in tensors]
    if all(lead == leads[0] for lead in leads):
        return leads[0]
    try:
        return tuple(torch.broadcast_shapes(*leads))  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        raise ShapeError(
            "leading axes of query, keys and values do not fit",
            got=", ".join(map(str, map(list, leads))),
            expected="axes that are equal or 1",
            cure="batch axes come first: [batch, items, width]",
        ) from error


def _four_axes(lead: tuple[int, ...]) -> tuple[int, int]:
    """The kernels are fast for [batch, heads, length, width] only."""
    return (math.prod(lead[:-1]), lead[-1]) if lead else (1, 1)


def _additive(
    mask: Mask | None, bias: Tensor | None, shape: tuple[int, ...], query: Tensor, align: Softmax
) -> tuple[Tensor | None, Tensor | None]:
    """Mask and bias in the one argument that torch has for both (boolean, or numbers with −∞), and the empty rows.

    Not every kernel gives zeros for an empty row: cuDNN, in half precision, attends to masked keys there. So such a
    row sees all keys here, and its context is blanked.
    """
    if mask is not None and mask.is_causal and shape[-2] == 1:
        mask = None  # a single query is the last one, and sees all keys
    allowed = None if mask is None else fit(mask.dense(shape[-2], shape[-1], device=query.device), shape)
    if bias is None:
        if allowed is None:
            return None, None
        empty = ~allowed.any(-1, keepdim=True)
        return allowed | empty, empty
    bias = (bias.to(query.dtype) / align.temperature).clamp(max=torch.finfo(query.dtype).max / 8)  # +∞ takes the row
    if allowed is not None:
        bias = torch.where(allowed, bias, -math.inf)
    empty = (bias == -math.inf).all(-1, keepdim=True)
    return bias.masked_fill(empty, 0.0), empty


def _reshape_mask(extra: Tensor, lead: tuple[int, ...], four: tuple[int, int]) -> Tensor:
    if len(lead) == 2:
        return extra
    return extra.expand(*lead, *extra.shape[-2:]).reshape(*four, *extra.shape[-2:])
