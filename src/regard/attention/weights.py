"""Weights beside a fused pass: a second one, over the rows and heads that are asked for, in bounded memory.

A row of weights needs its own scores alone, so any rows can be had without the others. They are those that the fused
pass used, before dropout: the same scores, in float32, under the same mask.

Where something requires a gradient they have one. Weights of dot products are made without a graph and given their
gradient after, which needs nothing but them: ∂e_ij = w_ij (∂w_ij − Σ_j w_ij ∂w_ij), and from it two products. Those of
additive scores come from the kernels of the context, over values without width.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.align import Softmax
from regard.attention.fused import additive_kernel, broadcast, mask_rules
from regard.attention.mask import Mask, fit
from regard.base import ShapeError
from regard.kernels import reasons_against_triton
from regard.kernels.derivatives import without_autocast
from regard.kernels.limits import width_limit
from regard.score import Prepared, Score
from regard.score.score import common_type, to_float32

AT_ONCE = 2**25  # numbers in a block of scores, or of the sums inside an additive score


def recompute_weights(
    query: Tensor,
    keys: Tensor | Prepared,
    values: Tensor,
    score: Score,
    align: Softmax,
    mask: Mask | None,
    bias: Tensor | None,
    *,
    rows: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
) -> Tensor:
    """Weights [*b r k] of the queries numbered `rows`, or of all; with `heads`, of those on the last batch axis."""
    prepared = keys.keys if isinstance(keys, Prepared) else score.prepare(keys).keys
    lead = broadcast(query, prepared, values)
    num_queries, num_keys = query.shape[-2], values.shape[-2]
    chosen = torch.arange(num_queries, device=query.device) if rows is None else _numbers(rows, num_queries, query)
    query, prepared = (side.expand(*lead, -1, -1) for side in (query, prepared))
    some = None if heads is None else _numbers(heads, lead[-1] if lead else 1, query)
    if some is not None:
        query, prepared = query.index_select(-3, some), prepared.index_select(-3, some)
    if 0 in (*query.shape[:-2], len(chosen), num_keys):
        return query.new_zeros(*query.shape[:-2], len(chosen), num_keys)
    picked = None if rows is None else chosen
    wanted = _Wanted(score, align, mask, lead, num_queries, num_keys, picked, some)
    sources = query, prepared, bias, *score.parameters()
    if not torch.is_grad_enabled() or not any(x is not None and x.requires_grad for x in sources):
        return wanted.without_gradient(query, prepared, bias, query.dtype)
    asked = query if rows is None else query.index_select(-2, chosen)
    if score.is_additive:
        return wanted.additive(asked, prepared).to(query.dtype)
    form = score.as_dot(asked, prepared)
    dtype = common_type(form.query, form.keys, bias, form.query.new_empty(0, dtype=torch.float32))
    made = wanted.without_gradient(query.detach(), prepared.detach(), None if bias is None else bias.detach(), dtype)
    added = None if bias is None else select_pairs(bias, picked, some)
    weights: Tensor = _WithGradient.apply(  # type: ignore[no-untyped-call]
        made, form.query, form.keys, added, form.scale, align.temperature
    )
    return weights.to(query.dtype)


class _Wanted(NamedTuple):
    """Of which score, alignment and mask, and of which rows and heads."""

    score: Score
    align: Softmax
    mask: Mask | None
    lead: tuple[int, ...]  # of all heads
    num_queries: int  # all of them
    num_keys: int
    rows: Tensor | None
    heads: Tensor | None

    @torch.no_grad()
    def without_gradient(self, query: Tensor, prepared: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Tensor:
        """Weights in `dtype`, from all queries of the wanted heads."""
        score, num_keys = self.score, self.num_keys
        if score.is_dot and bias is None and not reasons_against_triton(query.device, query, prepared):
            return self._in_one_pass(query, prepared, dtype)
        chosen = torch.arange(self.num_queries, device=query.device) if self.rows is None else self.rows
        shape = (*query.shape[:-2], len(chosen), num_keys)
        prepared = prepared if score.is_dot and query.device.type == "cuda" else to_float32(prepared)  # once for all
        inside = prepared.shape[-1] if score.is_additive else 1
        size = max(1, AT_ONCE // max(1, math.prod(shape[:-2]) * num_keys * inside))
        out = query.new_empty(shape, dtype=dtype) if size < len(chosen) else None
        for start in range(0, len(chosen), size):
            rows = chosen[start : start + size]
            whole = self.rows is None and size >= self.num_queries
            scores = _scores(score, query if whole else query.index_select(-2, rows), prepared)
            if bias is not None:
                scores = scores + select_pairs(bias, rows, self.heads)
            weights = self.align(scores, self._allowed(rows, query.device)).weights.to(dtype)
            if out is None:
                return weights
            out[..., start : start + size, :] = weights
        assert out is not None
        return out

    def additive(self, query: Tensor, prepared: Tensor) -> Tensor:
        """Weights with their gradient, from the wanted queries."""
        form = self.score.as_additive(query, prepared)
        values = form.keys.new_empty(*query.shape[:-2], self.num_keys, 0)
        against = reasons_against_triton(
            query.device, form.query, form.keys, values, widest=width_limit(query.shape[-2])
        )
        impl = "triton" if not against else "blocked" if query.device.type == "cpu" else None
        if impl is None:
            return self.align(self.score.compare(query, prepared), self._allowed(self.rows, query.device)).weights
        lead = tuple(query.shape[:-2])
        if self.rows is None and self.heads is None:
            rules = mask_rules(self.mask, lead, self.num_queries, self.num_keys, query.device)
        else:
            allowed = self._allowed(self.rows, query.device)
            rules = mask_rules(
                None if allowed is None else Mask.of(allowed), lead, query.shape[-2], self.num_keys, query.device
            )
        weights = additive_kernel(impl, form, values, lead, self.align, True, **rules)[1]
        assert weights is not None
        return weights

    def _allowed(self, rows: Tensor | None, device: torch.device) -> Tensor | None:
        """Which keys these rows of the wanted heads see; None: all."""
        if self.mask is None:
            return None
        allowed = self.mask.dense(self.num_queries, self.num_keys, device=device, rows=rows)
        count = self.num_queries if rows is None else len(rows)
        return select_pairs(fit(allowed, (*self.lead, count, self.num_keys)), None, self.heads)

    def _in_one_pass(self, query: Tensor, prepared: Tensor, dtype: torch.dtype) -> Tensor:
        """The same through a kernel that writes nothing but the weights."""
        from regard.kernels.dot_weights import dot_weights

        lead, heads = self.lead, self.heads
        rules = mask_rules(self.mask, lead, self.num_queries, self.num_keys, query.device)
        if heads is not None:
            for name, value in rules.items():
                if isinstance(value, Tensor) and value.shape[0] > 1:
                    by_head = value.view(*lead, *value.shape[1:])
                    rules[name] = by_head.index_select(len(lead) - 1, heads).flatten(0, len(lead) - 1)
        form = self.score.as_dot(query, prepared)
        common = common_type(form.query, form.keys)
        left, right = (side.to(common).reshape(-1, *side.shape[-2:]) for side in (form.query, form.keys))
        scale = form.scale / self.align.temperature
        weights = dot_weights(left, right, scale=scale, rows=self.rows, dtype=dtype, **rules)
        return weights.view(*query.shape[:-2], *weights.shape[1:])


class _WithGradient(torch.autograd.Function):
    """Weights of scale · q·k + bias as they were made, with the gradient of their softmax.

    A weight of zero has none, whatever is asked of it: a penalty with a logarithm asks for an infinite one. All of it
    is plain operations on what was saved, so that the backward pass can be differentiated again.
    """

    @staticmethod
    def forward(
        ctx: Any, weights: Tensor, query: Tensor, keys: Tensor, bias: Tensor | None, scale: float, temperature: float
    ) -> Tensor:
        weights = weights.view_as(weights)
        ctx.save_for_backward(weights, query, keys, bias)
        ctx.scale, ctx.temperature = scale, temperature
        return weights

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        weights, query, keys, bias = ctx.saved_tensors
        _, of_query, of_keys, of_bias, *_ = ctx.needs_input_grad
        outer = outer.masked_fill(weights == 0.0, 0.0)
        scores = weights * (outer - (weights * outer).sum(-1, keepdim=True))
        scores = scores if ctx.temperature == 1.0 else scores / ctx.temperature
        if bias is not None:
            scores = scores.masked_fill(bias.isinf(), 0.0)
        with without_autocast(weights.device):
            grads = (
                (scores @ keys.to(scores.dtype) * ctx.scale).to(query.dtype) if of_query else None,
                (scores.mT @ query.to(scores.dtype) * ctx.scale).to(keys.dtype) if of_keys else None,
                scores.sum_to_size(bias.shape).to(bias.dtype) if of_bias else None,
            )
        return None, *grads, None, None


def _scores(score: Score, query: Tensor, prepared: Tensor) -> Tensor:
    """Scores in float32. On a GPU half-precision factors go to the matrix units, which add in float32."""
    if not (score.is_dot and query.device.type == "cuda" and query.dtype in (torch.bfloat16, torch.float16)):
        return score.compare(query, prepared)
    form = score.as_dot(query, prepared)
    if form.query.dtype != form.keys.dtype or form.query.dtype not in (torch.bfloat16, torch.float16):
        return score.compare(query, prepared)
    left, right = (side.reshape(-1, *side.shape[-2:]) for side in (form.query, form.keys))
    scores: Tensor = torch.bmm(left, right.mT, out_dtype=torch.float32)
    return scores.mul_(form.scale).view(*query.shape[:-1], prepared.shape[-2])


def _numbers(asked: Sequence[int], size: int, like: Tensor) -> Tensor:
    numbers = [number + size if number < 0 else number for number in asked]
    if any(not 0 <= number < size for number in numbers):
        raise ShapeError("a row or head is not there", got=list(asked), expected=f"numbers below {size}")
    return torch.tensor(numbers, dtype=torch.long, device=like.device)


def select_pairs(tensor: Tensor, rows: Tensor | None, heads: Tensor | None) -> Tensor:
    """Rows and heads of a tensor whose axes of size 1 serve all."""
    if rows is not None and tensor.shape[-2] > 1:
        tensor = tensor.index_select(-2, rows)
    if heads is not None and tensor.ndim > 2 and tensor.shape[-3] > 1:
        tensor = tensor.index_select(-3, heads)
    return tensor
