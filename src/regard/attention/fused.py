"""Fused attention: the context without a tensor of pairs. The form of the score decides which kernels can do it."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.align import Softmax
from regard.attention.band import band_of
from regard.attention.mask import Mask, fit
from regard.base import ShapeError
from regard.kernels.derivatives import (
    as_fused_kernels_read,
    plain_dot,
    transformed,
    with_second_derivative,
    without_autocast,
)  # fmt: skip
from regard.kernels.limits import WIDEST, are_few, is_single, reasons_against_triton, width_limit
from regard.score import Prepared, Score
from regard.score.score import AdditiveForm, common_type, to_float32


def sdpa(
    query: Tensor,
    prepared: Prepared,
    values: Tensor,
    score: Score,
    align: Softmax,
    mask: Mask | None,
    bias: Tensor | None,
    dropout: float,
) -> Tensor:
    """The context [*b q v] through `torch.nn.functional.scaled_dot_product_attention`.

    In the widest type of what is given, under autocast too: a float32 bias, or float32 values, beside a query in half
    precision are not rounded to it. A bias that a temperature divides is at least float32.
    """
    form = score.as_dot(query, prepared.keys)
    query, keys, scale = form.query, form.keys, form.scale / align.temperature
    lead = broadcast(query, keys, values)
    num_queries, num_keys = query.shape[-2], keys.shape[-2]
    if num_queries == 1 and bias is None and not dropout and _is_wide(query, keys, values):
        return _one_wide_query(query, keys, values, scale, mask, lead)
    wish = mask is not None and mask.is_causal and bias is None
    causal = True if wish and num_queries == num_keys else False  # noqa: SIM210 - a symbolic length decides here
    scaled_bias = None if bias is None or align.temperature == 1.0 else to_float32(bias)
    dtype = common_type(query, keys, values, bias, scaled_bias)
    shape = (*lead, num_queries, num_keys)
    lower_right = wish and _reads_lower_right(num_queries, num_keys, dtype, query.device)
    no_tensor = causal or lower_right
    extra, empty = (None, None) if no_tensor else _additive(mask, bias, shape, dtype, query.device, align)
    four = _four_axes(lead)
    sides = _in_four_axes((query, keys, values), dtype, lead)
    extra = None if extra is None else _reshape_mask(extra, lead, four, num_keys)
    context = _fused_dot(sides, extra, no_tensor, scale, dropout)
    context = context.reshape(*lead, num_queries, values.shape[-1]).to(values.dtype)
    return context if empty is None else context.masked_fill(empty, 0.0)


def few(
    query: Tensor,
    prepared: Prepared,
    values: Tensor,
    score: Score,
    align: Softmax,
    mask: Mask | None,
    *,
    need_weights: bool,
) -> tuple[Tensor, Tensor | None] | None:
    """Context and weights of few queries [n h q d] and few keys in one kernel, as in a search; None where it has none.

    It takes no bias, no dropout and no gradient, and no mask but a tensor that all heads share.
    """
    if query.ndim != 4 or values.ndim != 4 or torch.compiler.is_compiling() or transformed():
        return None
    if mask is not None and not mask.is_tensor:
        return None
    form = score.as_dot(query, prepared.keys)
    if (
        not are_few(form.query, form.keys, values)
        or not form.query.shape[:2] == form.keys.shape[:2] == values.shape[:2]
    ):
        return None
    allowed = None
    if mask is not None:
        allowed = mask.dense(query.shape[-2], values.shape[-2], device=query.device)
        allowed = fit(allowed, (*query.shape[:-1], values.shape[-2]))
        if allowed.shape[1] > 1:
            return None
        allowed = allowed[:, 0].expand(-1, -1, values.shape[-2])
    from regard.kernels.few_queries import few_queries

    return few_queries(
        form.query, form.keys, values, scale=form.scale / align.temperature, allowed=allowed, need_weights=need_weights
    )


def one_query(
    query: Tensor, prepared: Prepared, values: Tensor, score: Score, align: Softmax, mask: Mask | None
) -> tuple[Tensor, Tensor] | None:
    """Context and weights of one query [n 1 d] in one kernel, as in a search; None where it has none."""
    if query.ndim != 3 or query.shape[1] != 1 or torch.compiler.is_compiling() or transformed():
        return None
    form = score.as_dot(query, prepared.keys)
    if not is_single(form.query, form.keys, values) or not len(query) == len(form.keys) == len(values):
        return None
    from regard.kernels.single_query import single_dot_with_weights

    rules = mask_rules(mask, (len(query),), 1, values.shape[1], query.device)
    context, weights = single_dot_with_weights(
        form.query, form.keys, values, scale=form.scale / align.temperature, **rules
    )
    return context, weights.to(query.dtype)


def _reads_lower_right(num_queries: int, num_keys: int, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether torch has a kernel that hides later keys without a mask where there are more keys than queries."""
    half = dtype in (torch.bfloat16, torch.float16)
    return device.type == "cuda" and half and not torch.compiler.is_compiling() and 1 < num_queries < num_keys


def _lower_right(num_queries: int, num_keys: int) -> Tensor:
    """torch's rule that hides later keys, where the last query sees all of them: no tensor of pairs is behind it."""
    from torch.nn.attention.bias import causal_lower_right  # which brings 900 modules with it

    rule: Tensor = causal_lower_right(num_queries, num_keys)
    return rule


def _fused_dot(sides: list[Tensor], extra: Tensor | None, causal: bool, scale: float, dropout: float) -> Tensor:
    """torch's kernel, on tensors [b h q d], [b h k d], [b h k v], with a mask or a bias.

    `causal` hides later keys, and the last query sees all of them, however many there are.
    """
    is_bias = extra is not None and extra.dtype != torch.bool
    num_queries, num_keys = sides[0].shape[-2], sides[1].shape[-2]
    lower_right = True if causal and num_queries != num_keys else False  # noqa: SIM210 - as in `sdpa`
    square = causal and not lower_right

    def fast(query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None = None) -> Tensor:
        added = extra if bias is None else bias
        query, keys, values = (as_fused_kernels_read(x) for x in (query, keys, values))
        added = None if added is None else as_fused_kernels_read(added)
        added = _lower_right(num_queries, num_keys) if lower_right else added
        with without_autocast(query.device):
            return F.scaled_dot_product_attention(
                query,
                keys,
                values,
                attn_mask=added,
                dropout_p=dropout,
                is_causal=square,
                scale=scale,
            )

    plain = partial(plain_dot, scale=scale, causal=causal, seen=None if is_bias else extra)
    inputs = [*sides, extra] if extra is not None and is_bias else sides
    return with_second_derivative(fast, plain, inputs, dropout=dropout)


def _is_wide(query: Tensor, keys: Tensor, values: Tensor) -> bool:
    """Whether torch's kernels stop here, and ours for one query does not."""
    if not query.is_cuda or max(keys.shape[-1], values.shape[-1]) <= WIDEST:
        return False
    return not reasons_against_triton(query.device, query, keys, values, widest=width_limit(1))


def _one_wide_query(
    query: Tensor, keys: Tensor, values: Tensor, scale: float, mask: Mask | None, lead: tuple[int, ...]
) -> Tensor:
    from regard.kernels.single_query import fused_single_dot

    sides = (x.expand(*lead, -1, -1).reshape(-1, *x.shape[-2:]) for x in (query, keys, values))
    context: Tensor = fused_single_dot(*sides, scale=scale, **mask_rules(mask, lead, 1, keys.shape[-2], query.device))
    return context.reshape(*lead, 1, values.shape[-1])


def additive(
    impl: str,
    query: Tensor,
    prepared: Prepared,
    values: Tensor,
    score: Score,
    align: Softmax,
    mask: Mask | None,
    dropout: float,
    *,
    need_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """The context [*b q v] of vᵀ tanh(q + k), through the kernel that `impl` names: "triton" or "blocked".

    Weights [*b q k], if they are needed, come from the same pass, and have their gradient from the same backward pass.
    """
    form = score.as_additive(query, prepared.keys)
    lead = broadcast(form.query, form.keys, values)
    num_queries, num_keys = query.shape[-2], values.shape[-2]
    rules = mask_rules(mask, lead, num_queries, num_keys, query.device)
    context, weights = additive_kernel(impl, form, values, lead, align, need_weights, dropout=dropout, **rules)
    return context, None if weights is None else weights.to(query.dtype)


def additive_kernel(
    impl: str,
    form: AdditiveForm,
    values: Tensor,
    lead: tuple[int, ...],
    align: Softmax,
    need_weights: bool,
    **rules: Any,
) -> tuple[Tensor, Tensor | None]:
    """Context and weights, in float32 or better, of a kernel that has one batch axis and no temperature."""
    from regard.kernels import additive, blocked

    items = math.prod(lead)
    sides = (side.expand(*lead, -1, -1).reshape(items, *side.shape[-2:]) for side in (form.query, form.keys, values))
    query, keys, flat_values = sides
    v = form.v if align.temperature == 1.0 else to_float32(form.v) / align.temperature
    if not need_weights:
        kernel = additive.fused_additive if impl == "triton" else blocked.blocked_additive
        context, weights = kernel(query, keys, flat_values, v, **rules)[0], None
    else:
        both = additive.fused_additive_with_weights if impl == "triton" else blocked.blocked_additive_with_weights
        context, weights = both(query, keys, flat_values, v, **rules)
        weights = weights.reshape(*lead, *weights.shape[-2:])
    return context.reshape(*lead, *context.shape[-2:]), weights


def banded(
    query: Tensor,
    prepared: Prepared,
    values: Tensor,
    score: Score,
    align: Softmax,
    mask: Mask | None,
    by_distance: Tensor | None,
    dropout: float,
) -> Tensor:
    """The context [*b q v] of a scaled dot product over a band of keys, with a bias for each distance [*b q w]."""
    from regard.kernels.banded import fused_banded

    band = band_of(mask)
    assert band is not None
    form = score.as_dot(query, prepared.keys)
    lead, num_keys = broadcast(form.query, form.keys, values), values.shape[-2]
    dtype, four = common_type(form.query, form.keys, values), _four_axes(lead)
    sides = _in_four_axes((form.query, form.keys, values), dtype, lead)
    if by_distance is not None:
        by_distance = by_distance.expand(*lead, -1, -1).reshape(*four, *by_distance.shape[-2:])
    starts, lengths = (
        None if numbers is None else _for_each_item(numbers.to(query.device), lead, four)
        for numbers in (band.starts, band.lengths(num_keys, query.device))
    )
    context, _ = fused_banded(
        *sides,
        by_distance=by_distance,
        scale=form.scale / align.temperature,
        bias_scale=1.0 / align.temperature,
        before=band.before,
        after=band.after,
        block=band.block_size,
        starts=starts,
        lengths=lengths,
        dropout=dropout,
    )
    return context.reshape(*lead, *context.shape[-2:]).to(values.dtype)


def short(
    query: Tensor,
    prepared: Prepared,
    values: Tensor,
    score: Score,
    align: Softmax,
    mask: Mask | None,
    dropout: float,
) -> Tensor:
    """The context [*b q v] of a dot product over few keys, all of which one program has."""
    from regard.kernels.short import fused_short

    form = score.as_dot(query, prepared.keys)
    lead = broadcast(form.query, form.keys, values)
    sides = _in_four_axes((form.query, form.keys, values), common_type(form.query, form.keys, values), lead)
    rules = _short_rules(mask, lead, query.shape[-2], values.shape[-2], query.device)
    context = fused_short(*sides, scale=form.scale / align.temperature, dropout=dropout, **rules)
    return context.reshape(*lead, *context.shape[-2:]).to(values.dtype)


def _short_rules(
    mask: Mask | None, lead: tuple[int, ...], num_queries: int, num_keys: int, device: torch.device
) -> dict[str, Any]:
    """A mask as the kernel for short texts takes it: lengths [b] and causality as they are, any other [b h q k]."""
    if mask is None:
        return {}
    simple = mask.simple()
    if simple is not None and simple.window is None:
        if simple.padding is None:
            return {"causal": simple.causal}
        if len(lead) == 2 and simple.padding.lengths.shape == lead[:1]:
            simple.padding.check(num_keys)
            return {"causal": simple.causal, "lengths": simple.padding.lengths.to(device)}
    allowed = fit(mask.dense(num_queries, num_keys, device=device), (*lead, num_queries, num_keys))
    return {"allowed": _reshape_mask(allowed, lead, _four_axes(lead), num_keys)}


def _for_each_item(numbers: Tensor, lead: tuple[int, ...], four: tuple[int, int]) -> Tensor:
    """Numbers [*b], whose axes are the first ones of `lead`, as [b h] without a copy where that is possible."""
    fit(numbers[..., None, None], (*lead, 1, 1))
    return numbers.reshape(*numbers.shape, *[1] * (len(lead) - numbers.ndim)).expand(lead).reshape(four)


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
            cure="put the batch axes first: [batch, items, width]",
        ) from error


def _in_four_axes(sides: Sequence[Tensor], dtype: torch.dtype, lead: tuple[int, ...]) -> list[Tensor]:
    """Query, keys and values in one type, with the two batch axes that kernels have."""
    four = _four_axes(lead)
    return [x.to(dtype).expand(*lead, -1, -1).reshape(*four, *x.shape[-2:]) for x in sides]


def _four_axes(lead: tuple[int, ...]) -> tuple[int, int]:
    """The kernels are fast for [batch, heads, length, width] only."""
    return (math.prod(lead[:-1]), lead[-1]) if lead else (1, 1)


def _additive(
    mask: Mask | None,
    bias: Tensor | None,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    device: torch.device,
    align: Softmax,
) -> tuple[Tensor | None, Tensor | None]:
    """Mask and bias in the one argument that torch has for both (boolean, or numbers with −∞), and the empty rows.

    Not every kernel gives zeros for an empty row: cuDNN, in half precision, attends to masked keys there. So such a
    row sees all keys here, and its context is blanked.
    """
    if mask is not None and mask.is_causal and shape[-2] == 1:
        mask = None  # a single query is the last one, and sees all keys
    allowed = None if mask is None else fit(mask.dense(shape[-2], shape[-1], device=device), shape)
    if bias is None:
        if allowed is None:
            return None, None
        empty = ~allowed.any(-1, keepdim=True)
        return allowed | empty, empty
    bias = bias.to(dtype) if align.temperature == 1.0 else bias.to(dtype) / align.temperature
    bias = bias.clamp(max=torch.finfo(dtype).max / 8)  # +∞ takes the row
    if allowed is not None:
        bias = torch.where(allowed, bias, -math.inf)
    empty = bias.detach().amax(-1, keepdim=True) == -math.inf
    return bias.masked_fill(empty, 0.0), empty


def _reshape_mask(extra: Tensor, lead: tuple[int, ...], four: tuple[int, int], num_keys: int) -> Tensor:
    """[b h q k], with axes of 1 that serve all, but for the keys: kernels read them side by side."""
    if extra.shape[-1] != num_keys:
        extra = extra.expand(*extra.shape[:-1], num_keys)
    if len(lead) == 2:
        return extra
    if all(size == 1 for size in extra.shape[:-2]):
        return extra.reshape(1, 1, *extra.shape[-2:])
    return extra.expand(*lead, *extra.shape[-2:]).reshape(*four, *extra.shape[-2:])


def mask_rules(
    mask: Mask | None, lead: tuple[int, ...], num_queries: int, num_keys: int, device: torch.device
) -> dict[str, Any]:
    """A mask as the additive kernels take it: lengths [n], causality and a window; any other as a tensor [n q k]."""
    if mask is None:
        return {}
    simple = mask.simple()
    if simple is None:
        allowed = fit(mask.dense(num_queries, num_keys, device=device), (*lead, num_queries, num_keys))
        rows = allowed.shape[-2]
        if allowed.shape[:-2] == (1,) * len(lead):
            return {"allowed": allowed.reshape(1, rows, -1).expand(1, rows, num_keys)}
        return {"allowed": allowed.expand(*lead, rows, num_keys).reshape(-1, rows, num_keys)}
    rules: dict[str, Any] = {"causal": simple.causal, "window": simple.window}
    if simple.padding is not None:
        allowed = fit(simple.padding.dense(1, num_keys, device=device), (*lead, 1, num_keys))
        rules["lengths"] = allowed.sum((-1, -2)).expand(lead).reshape(-1).contiguous()  # of one item: not a view of it
    return rules
