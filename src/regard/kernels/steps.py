# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""Attention to one memory, step after step: keys and values stay the same, so their gradients are made once at the end.

The steps themselves are those of `single_query.py`.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.kernels import single_query
from regard.kernels.arithmetic import signed_falling, signed_tanh
from regard.kernels.derivatives import refuse_transforms
from regard.kernels.launch import contiguous_rows, jit, on, power_of_two, tl
from regard.kernels.limits import EVERYWHERE
from regard.kernels.masks import rules as rules_of


@jit
def _of_keys(
    queries, keys, v, pairs, grad_keys, grad_v, stride_kn, stride_k, num_items, num_steps, num_keys, features,
    block: tl.constexpr, block_features: tl.constexpr,
):  # fmt: skip
    """The gradients of the keys of one item over all steps, for some features; that of v is to be added over items."""
    item, at = tl.program_id(0).to(tl.int64), tl.program_id(1) * block_features + tl.arange(0, block_features)
    weight = tl.load(v + at, mask=at < features, other=0.0).to(tl.float32)
    total_v = tl.zeros([block_features], tl.float32)
    for tile in range(tl.cdiv(num_keys, block)):
        columns = tile * block + tl.arange(0, block)
        inside = (columns[:, None] < num_keys) & (at[None, :] < features)
        key = tl.load(keys + item * stride_kn + columns[:, None] * stride_k + at[None, :], mask=inside, other=0.0)
        key = key.to(tl.float32)
        total = tl.zeros([block, block_features], tl.float32)
        for step in range(num_steps):
            place = step * num_items + item
            q = tl.load(queries + place * features + at, mask=at < features, other=0.0).to(tl.float32)
            grads = tl.load(pairs + place * 2 * num_keys + columns, mask=columns < num_keys, other=0.0)
            r = signed_falling(q[None, :] + key)
            total += grads[:, None] * (tl.abs(r) - r * r)
            total_v += tl.sum(grads[:, None] * signed_tanh(r), 0)
        place = (item * num_keys + columns)[:, None] * features + at[None, :]
        tl.store(grad_keys + place, (4.0 * weight[None, :] * total).to(grad_keys.dtype.element_ty), mask=inside)
    tl.store(grad_v + item * features + at, total_v, mask=at < features)


class FusedSteps:
    """The context of one query in each item, step after step, over keys and values that stay the same.

    The score is Σ_a v_a tanh(q_a + k_ja), or without v scale · q·k_j. As in `StepLinear` of
    `regard.nn`, keys, values and v get their gradients at once, from all steps; each step's own backward pass leaves
    but two numbers for each key.
    """

    def __init__(
        self,
        keys: Float[Tensor, "n k a"],
        values: Float[Tensor, "n k d"],
        v: Float[Tensor, " a"] | None = None,
        *,
        scale: float = 1.0,
        allowed: Bool[Tensor, "#n 1 k"] | None = None,
        steps: int,
    ) -> None:
        refuse_transforms("FusedSteps")
        self._queries: list[Tensor] = []
        self._steps = iter(range(steps))
        self._fixed = (keys.detach(), values.detach(), None if v is None else v.detach(), allowed, scale)
        pairs, grads = _Collect.apply(keys, values, v, self._queries, steps, scale)
        self._tokens = pairs.unbind(0), grads.unbind(0)

    def __call__(self, query: Float[Tensor, "n 1 a"]) -> Float[Tensor, "n 1 d"]:
        """The context of the query of the next step."""
        step = next(self._steps)
        self._queries.append(query.detach())
        pairs, grads = self._tokens
        context: Tensor = _Step.apply(query, pairs[step], grads[step], *self._fixed)
        return context


class _Collect(torch.autograd.Function):
    """Gives each step two tokens that hold nothing; what the steps leave for keys, values and v arrives here."""

    @staticmethod
    def forward(ctx, keys, values, v, queries, steps, scale):
        ctx.save_for_backward(keys, v)
        ctx.queries, ctx.scale = queries, scale
        n, k, d = values.shape
        pairs = torch.zeros((), dtype=torch.float32, device=keys.device).expand(steps, n, 2, k)
        return pairs, values.new_zeros(()).expand(steps, n, 1, d)

    @staticmethod
    @once_differentiable
    def backward(ctx, pairs, grads):
        keys, v = ctx.saved_tensors
        done = len(ctx.queries)
        pairs, grads = pairs[:done], grads[:done].squeeze(2).transpose(0, 1)
        queries = torch.stack(ctx.queries).squeeze(2)
        of_values = pairs[:, :, 1].permute(1, 2, 0).to(grads.dtype) @ grads  # [n k t] @ [n t d]
        if v is None:
            of_keys = pairs[:, :, 0].permute(1, 2, 0).mul(ctx.scale).to(keys.dtype) @ queries.transpose(0, 1)
            return of_keys, of_values, None, None, None, None
        of_keys, of_v = _gradients_of_keys(queries, keys, v, pairs)
        return of_keys, of_values, of_v, None, None, None


def _gradients_of_keys(queries: Tensor, keys: Tensor, v: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor]:
    (t, n, a), k, keys = queries.shape, keys.shape[1], contiguous_rows(keys)
    grad_keys, grad_v = keys.new_empty(n, k, a), torch.empty(n, a, dtype=torch.float32, device=keys.device)
    block_features = min(128, power_of_two(a, 16))
    with on(keys):
        _of_keys[(n, -(-a // block_features))](
            queries, keys, v.contiguous(), pairs.contiguous(), grad_keys, grad_v, *keys.stride()[:2], n, t, k, a,
            block=32, block_features=block_features, num_warps=4, num_stages=1,
        )  # fmt: skip
    return grad_keys, grad_v.sum(0).to(v.dtype)


class _Step(torch.autograd.Function):
    """One step; its tokens get the gradients of its scores beside its weights, and that of its context."""

    @staticmethod
    def forward(ctx, query, pairs, grads, keys, values, v, allowed, scale):
        rules = rules_of(query, keys, None, allowed, None, EVERYWHERE, EVERYWHERE, 0.0)
        context, _, sums = single_query.forward(query, keys, values, v, rules, scale=scale)
        ctx.save_for_backward(query, keys, values, v, context, sums)
        ctx.rules, ctx.scale = rules, scale
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        query, keys, values, v, context, sums = ctx.saved_tensors
        inputs = grad, query, keys, values, v, context, sums, ctx.rules
        grad_query, pairs = single_query.backward_of_step(*inputs, scale=ctx.scale)
        return grad_query, pairs, grad, None, None, None, None, None
