"""Additive attention without a tensor [q k a], on a GPU: one function over Triton kernels, with gradients.

`tiled.py` serves many queries and `single_query.py` one; both say how. This file imports neither before it is called,
so that it can be read without Triton. The work is done in two opaque operations, `regard::additive_forward` and
`regard::additive_backward`, which `torch.compile` and autocast leave alone.
"""

from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.base import ImplementationUnavailable
from regard.kernels.blocked import check_inputs, sides
from regard.kernels.derivatives import (
    differentiable_again,
    plain_additive,
    plain_additive_with_weights,
    refuse_transforms,
    visible_keys,
    without_autocast,
)
from regard.kernels.limits import EVERYWHERE, reasons_against_triton, width_limit
from regard.kernels.opaque import opaque


def fused_additive(
    query: Float[Tensor, "n q a"],
    keys: Float[Tensor, "n k a"],
    values: Float[Tensor, "n k d"],
    v: Float[Tensor, " a"],
    *,
    lengths: Int[Tensor, " n"] | None = None,
    causal: bool = False,
    window: tuple[int, int] | None = None,
    allowed: Bool[Tensor, "#n #q k"] | None = None,
    dropout: float = 0.0,
    seed: Int[Tensor, "1"] | None = None,
) -> tuple[Float[Tensor, "n q d"], Float[Tensor, "n q"]]:
    """The context of each query for the scores e_ij = Σ_a v_a tanh(q_ia + k_ja), and log Σ_j exp(e_ij).

    query and keys are projected already. A query sees the first `lengths` keys; with `causal` none after its own
    position, with `window=(before, after)` only keys that near; and keys where `allowed` is True. With more keys than
    queries, the queries are the last ones. A query that sees no key has the context 0 and the sum log 0 = −∞.

    float32, bfloat16 and float16, widths to 256, and to 2048 for one query; float32 inside, but for many queries and
    keys of bfloat16, which are as exact as plain PyTorch in bfloat16 (series.py). The sum is float32 and has no
    gradient: exp(e_ij − log_sum_i) are the weights. `dropout` acts on the weights, with noise from `seed` or else from
    torch's generator. All results repeat bit by bit.
    """
    context, log_sum, _ = _run(
        "fused_additive", query, keys, values, v, with_weights=False,
        lengths=lengths, causal=causal, window=window, allowed=allowed, dropout=dropout, seed=seed,
    )  # fmt: skip
    return context, log_sum


def fused_additive_with_weights(
    query: Float[Tensor, "n q a"],
    keys: Float[Tensor, "n k a"],
    values: Float[Tensor, "n k d"],
    v: Float[Tensor, " a"],
    **rules: Any,
) -> tuple[Float[Tensor, "n q d"], Float[Tensor, "n q k"]]:
    """The context as `fused_additive` gives it, and the weights before dropout, in float32.

    Both have gradients, which one backward pass makes together. For weights alone give values of width 0. `rules` are
    `lengths`, `causal`, `window`, `allowed`, `dropout` and `seed` of `fused_additive`.
    """
    context, _, weights = _run("fused_additive_with_weights", query, keys, values, v, with_weights=True, **rules)
    return context, weights


def _run(
    name: str,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    v: Tensor,
    *,
    with_weights: bool,
    lengths: Tensor | None = None,
    causal: bool = False,
    window: tuple[int, int] | None = None,
    allowed: Tensor | None = None,
    dropout: float = 0.0,
    seed: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    check_inputs(query, keys, values, v, lengths, allowed, dropout)
    refuse_transforms(name)
    reasons = reasons_against_triton(query.device, query, keys, values, widest=width_limit(query.shape[1]))
    if reasons:
        raise ImplementationUnavailable(
            f"{name} cannot run here: " + "; ".join(reasons),
            cure="use blocked_additive" + name[len("fused_additive") :],
        )
    before, after = (EVERYWHERE, EVERYWHERE) if window is None else sides(window)
    after = 0 if causal else after
    before, after = min(before, EVERYWHERE), min(after, EVERYWHERE)
    if dropout > 0.0 and seed is None:
        seed = torch.randint(1 << 62, (1,), device=query.device)
    seed = seed if dropout > 0.0 else None
    rules = lengths, allowed, seed, before, after, float(dropout)
    learns = torch.is_grad_enabled() and any(x.requires_grad for x in (query, keys, values, v))
    keep = learns and not torch.compiler.is_compiling()  # a compiler asks for shapes, which may be symbols
    context, log_sum, _, weights = _forward(query, keys, values, v, *rules, with_weights, keep)
    return context, log_sum, weights


# ── operations ──────────────────────────────────────────────────────────────────────────────────────────────────────


@opaque("regard::additive_forward")
def _forward(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    v: Tensor,
    lengths: Tensor | None,
    allowed: Tensor | None,
    seed: Tensor | None,
    before: int,
    after: int,
    dropout: float,
    with_weights: bool = False,
    keep: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    from regard.kernels import masks, single_query, tiled

    shape = (*query.shape[:2], keys.shape[1]) if with_weights else (0,)
    weights = query.new_empty(shape, dtype=torch.float32)
    if 0 in (*query.shape, *keys.shape) or (values.shape[2] == 0 and not with_weights):
        context = values.new_zeros(query.shape[0], query.shape[1], values.shape[2])
        log_sum = query.new_full(query.shape[:2], -torch.inf, dtype=torch.float32)
        return context, log_sum, _no_sums(query), weights
    rules = masks.rules(query, keys, lengths, allowed, seed, before, after, dropout)
    wanted = weights if with_weights else None
    if query.shape[1] == 1:
        return *single_query.forward(query, keys, values, v, rules, weights=wanted), weights
    keep = keep and _kept_shape(query, keys, values) is not None
    context, log_sum, scores = tiled.forward(query, keys, values, v, rules, weights=wanted, keep=keep)
    return context, log_sum, _no_sums(query) if scores is None else scores, weights


def _no_sums(query: Tensor) -> Tensor:
    """What stands for the highest scores and the sums of `single_query`, and for scores that were not kept."""
    return query.new_zeros(len(query) if query.shape[1] == 1 else 0, 2, dtype=torch.float32)


def _kept_shape(query: Tensor, keys: Tensor, values: Tensor) -> tuple[int, int, int] | None:
    """The shape of the scores of many queries that are kept for the backward pass; None: none are."""
    from regard.kernels import tiled

    (n, q, a), (k, d) = query.shape, values.shape[1:]
    if q == 1 or 0 in (*query.shape, *keys.shape, d):
        return None
    return tiled.kept_shape(n, q, k, tiled.blocks(q, k, a, d))


@opaque("regard::additive_backward")
def _backward(
    grad: Tensor,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    v: Tensor,
    context: Tensor,
    log_sum: Tensor,
    sums: Tensor,
    lengths: Tensor | None,
    allowed: Tensor | None,
    seed: Tensor | None,
    before: int,
    after: int,
    dropout: float,
    grad_weights: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    from regard.kernels import gradients, masks, single_query

    if 0 in (*query.shape, *keys.shape) or (values.shape[2] == 0 and grad_weights is None):
        return torch.zeros_like(query), torch.zeros_like(keys), torch.zeros_like(values), torch.zeros_like(v)
    rules = masks.rules(query, keys, lengths, allowed, seed, before, after, dropout)
    if query.shape[1] == 1:
        return single_query.backward(grad, query, keys, values, v, context, sums, rules, grad_weights=grad_weights)
    scores = sums if sums.numel() else None
    with without_autocast(query.device):
        return gradients.backward(
            grad, query, keys, values, v, log_sum, rules, grad_weights=grad_weights, scores=scores
        )


@_forward.register_fake
def _(query, keys, values, v, lengths, allowed, seed, before, after, dropout, with_weights=False, keep=False):  # type: ignore[no-untyped-def]
    context = values.new_empty(query.shape[0], query.shape[1], values.shape[2])
    shape = (*query.shape[:2], keys.shape[1]) if with_weights else (0,)
    weights = query.new_empty(shape, dtype=torch.float32)
    kept = _kept_shape(query, keys, values) if keep else None
    sums = _no_sums(query) if kept is None else query.new_empty(kept, dtype=torch.float32)
    return context, query.new_empty(query.shape[:2], dtype=torch.float32), sums, weights


@_backward.register_fake
def _(grad, query, keys, values, v, *rest):  # type: ignore[no-untyped-def]
    return tuple(x.new_empty(x.shape) for x in (query, keys, values, v))


def _remember(ctx, inputs, output):  # type: ignore[no-untyped-def]
    query, keys, values, v, lengths, allowed, seed, *ctx.settings, with_weights, _ = inputs
    context, log_sum, sums, weights = output
    ctx.save_for_backward(query, keys, values, v, context, log_sum, sums, lengths, allowed, seed)
    ctx.mark_non_differentiable(log_sum, sums, *(() if with_weights else (weights,)))
    ctx.set_materialize_grads(False)  # no zeros for it


def _differentiate(ctx, grad, _log_sum, _sums, of_weights):  # type: ignore[no-untyped-def]
    if grad is None and of_weights is None:
        return (None,) * 12
    query, keys, values, v, context, _, _, lengths, allowed, _ = ctx.saved_tensors
    if not torch.is_grad_enabled():
        grad = torch.zeros_like(context) if grad is None else grad
        return *_backward(grad, *ctx.saved_tensors, *ctx.settings, of_weights), *(None,) * 8
    before, after, dropout = ctx.settings  # somebody wants a second derivative
    made = plain_additive if of_weights is None else plain_additive_with_weights
    plain = partial(made, seen=visible_keys(query, keys, lengths, allowed, before, after))
    inputs, needed = (query, keys, values, v), ctx.needs_input_grad[:4]
    found = differentiable_again(plain, inputs, needed, grad, dropout=dropout, of_weights=of_weights)
    return *found, *(None,) * 8


_forward.register_autograd(_differentiate, setup_context=_remember)
