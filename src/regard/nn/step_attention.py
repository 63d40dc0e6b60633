"""Attention in a loop over time: the query changes from step to step, keys and values stay the same.

A recurrent decoder calls `StepAttention` once for each word, in training and in decoding alike. Where the kernels can
do it, and nobody asks for weights, the gradients of keys and values are made at once, after the last step.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.align import Softmax
from regard.attention import Attention, Mask
from regard.attention.output import CallOptions
from regard.attention.tracing import watched
from regard.kernels import reasons_against_triton
from regard.kernels.derivatives import transformed
from regard.kernels.limits import WIDEST_SINGLE
from regard.score import Additive, Concat, Dot, General, Prepared, ProjectedAdditive, ScaledDot

if TYPE_CHECKING:
    from regard.kernels.steps import FusedSteps


class Glance(NamedTuple):
    """What one step of attention gives."""

    context: Tensor  # [n c]
    weights: Tensor | None  # [n k]; None when nobody needs them


def query_weight(attention: Attention) -> Float[Tensor, "a d"] | None:
    """The matrix by which an additive score projects its query, where only the score reads the query; else None.

    A recurrence multiplies the same state with its own matrix. With this one below it, one product serves both:
    `StepGRU(cell, words, beside=query_weight(attention))`.
    """
    score = attention.score
    if type(score) is not Additive or "query" in _needs(attention):
        return None
    return score.to_query.weight


class StepAttention:
    """The attention of a decoder to its source, called once for each step: query [n d] → context [n c], weights [n k].

    `keys` are prepared (`attention.prepare`). `steps` is how often it will be called. `need_weights` gives weights at
    every step; scores and alignments with history get theirs in any case. `project`, where there is one, makes the
    projected query from the state (see `query_weight`). A trace sees every step as the layer `attention`.
    """

    def __init__(
        self,
        attention: Attention,
        keys: Float[Tensor, "n k a"],
        values: Float[Tensor, "n k c"],
        *,
        allowed: Bool[Tensor, "n 1 k"],
        steps: int = 1,
        need_weights: bool = True,
        project: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self._traced, self._project = attention, project
        if project is not None:
            score = attention.score
            assert isinstance(score, Additive)
            training = attention.training
            attention = Attention(
                ProjectedAdditive(score.v), attention.align, dropout=attention.dropout, impl=attention.impl
            )
            attention.training = training
        self._attention, self._keys, self._values, self._mask = attention, keys, values, Mask.of(allowed)
        self._has_history = "previous" in _needs(attention)
        self._need_weights = need_weights or self._has_history
        self._fused = None if self._need_weights else self._fuse(allowed, steps)

    def __call__(
        self, query: Float[Tensor, "n d"], previous: Float[Tensor, "n k"] | None = None, time: int | Tensor = 0
    ) -> Glance:
        """The next step. `previous` is the weights of the step before, and `time` the number of this one."""
        if self._project is not None:
            query = self._project(query)
        if self._fused is not None:
            return Glance(self._fused_context(query), None)
        dropout = self._attention.dropout if self._attention.training else 0.0
        out = self._attention.run(
            query.unsqueeze(1),
            Prepared(self._keys),
            self._values,
            CallOptions(self._mask, None, previous if self._has_history else None, time, dropout),
            need_weights=self._need_weights,
            trace_as=self._traced,
        )
        return Glance(out.context.squeeze(1), None if out.weights is None else out.weights.squeeze(1))

    def _fuse(self, allowed: Tensor, steps: int) -> "FusedSteps | None":
        """The kernels for all steps, in training, if they can do it and nobody watches the weights."""
        attention, keys, values = self._attention, self._keys, self._values
        score, align = attention.score, attention.align
        known = (Additive, Concat, ProjectedAdditive, Dot, ScaledDot, General)
        if type(score) not in known or type(align) is not Softmax or attention.impl != "auto":
            return None
        if not torch.is_grad_enabled() or torch.compiler.is_compiling() or watched(self._traced) or transformed():
            return None
        if (attention.dropout and attention.training) or 0 in (*keys.shape, *values.shape):
            return None
        if reasons_against_triton(keys.device, None, keys, values, widest=WIDEST_SINGLE):
            return None
        from regard.kernels.steps import FusedSteps

        v = None
        if isinstance(score, Additive | Concat | ProjectedAdditive):
            v = score.v.to(keys.dtype) / align.temperature
        scale = (keys.shape[-1] ** -0.5 if isinstance(score, ScaledDot) else 1.0) / align.temperature
        return FusedSteps(keys, values, v, scale=scale, allowed=allowed, steps=steps)

    def _fused_context(self, query: Float[Tensor, "n d"]) -> Float[Tensor, "n c"]:
        assert self._fused is not None
        query, score = query.unsqueeze(1), self._attention.score
        if score.is_additive:
            query = score.as_additive(query, self._keys).query
        return self._fused(query.to(self._keys.dtype)).squeeze(1)


def _needs(attention: Attention) -> tuple[str, ...]:
    """What score and alignment take beside query, keys and scores."""
    return (*getattr(attention.score, "needs", ()), *getattr(attention.align, "needs", ()))
