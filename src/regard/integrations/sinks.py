"""Sinks: one more place for each head, which every query sees and which gives nothing (GPT-OSS).

Sinks are scores, one for each head. As an alignment (`WithSink`) they go with any score and any alignment; with softmax
of dot products, `context_with_sinks` leaves them to a fused kernel.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.align import Alignment, Softmax
from regard.align.align import align_with
from regard.attention.attention import AlignLike, Attention
from regard.attention.mask import Mask
from regard.attention.output import CallOptions
from regard.attention.tracing import record, untraced, watched
from regard.attention.weights import recompute_weights
from regard.integrations.model_score import ScaledBy
from regard.score import Score


class WithSink:
    """An alignment over the keys and one more place, which every query sees and which gives nothing (GPT-OSS).

    `sinks` [h] are the scores of that place, one for each head. What it takes is missing in the sum of the weights.
    """

    def __init__(self, align: AlignLike, sinks: Tensor) -> None:
        self.align, self.sinks = align, sinks
        self.needs: tuple[str, ...] = getattr(align, "needs", ())

    def __call__(self, scores: Tensor, mask: Tensor | None, **history: Any) -> Alignment:
        """Weights of the keys alone, [b h q k]."""
        column = self.sinks.to(scores.dtype).reshape(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
        allowed = scores.new_ones(scores.shape, dtype=torch.bool) if mask is None else mask.expand_as(scores)
        allowed = F.pad(allowed, (0, 1), value=True)
        aligned = align_with(self.align, torch.cat([scores, column], -1), allowed, history)
        return aligned._replace(weights=aligned.weights[..., :-1])


class SinkWeights(NamedTuple):
    """Makes the weights of a call with sinks later, for a trace."""

    query: Tensor
    keys: Tensor
    values: Tensor
    score: Score
    align: Softmax
    mask: Mask | None

    @torch.no_grad()
    def __call__(self, rows: Sequence[int] | None, heads: Sequence[int] | None) -> Tensor:
        """Weights of these rows and heads, without the sink."""
        return recompute_weights(*self, None, rows=rows, heads=heads)[..., 1:]


def context_with_sinks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sinks: Tensor,
    scale: float | int,
    options: CallOptions,
    *,
    trace_as: nn.Module,
) -> Tensor:
    """The context [b h q v], by a kernel that knows no sinks: they are one more key, before all others.

    Queries and keys become one wider. There a query has 1, a key 0 and the sink its score over the scale, so that its
    product with each query is its score; its value is 0. A causal mask stays one, as the last query sees all keys.
    """
    query = torch.cat([query, query.new_ones(*query.shape[:-1], 1)], -1)
    column = (sinks / scale).to(key.dtype).reshape(1, -1, 1, 1).expand(key.shape[0], -1, -1, -1)
    key = torch.cat([F.pad(column, (key.shape[-1], 0)), F.pad(key, (0, 1))], 2)
    value, mask = F.pad(value, (0, 0, 1, 0)), options.mask
    if mask is not None and not mask.is_causal:
        allowed = mask.dense(query.shape[2], value.shape[2] - 1, device=query.device)
        mask = Mask.of(F.pad(allowed.expand(*allowed.shape[:-1], value.shape[2] - 1), (1, 0), value=True))
    score, align = ScaledBy(scale), Softmax()
    watch = watched(trace_as)
    with untraced() if watch else nullcontext():
        attention, options = Attention(score, align), options._replace(mask=mask)
        out = attention.run(query, key, value, options, need_weights=False, trace_as=trace_as)
    if watch:
        record(trace_as, None, SinkWeights(query, key, value, score, align, mask), heads=True)
    return out.context
