"""What an opaque operation owes to differentiation: to know when it is not enough, and a second derivative.

The fused operations have a first derivative, in reverse mode. Of the transforms of `torch.func` and of forward mode
they know nothing, and some of them would give zeros there: `transformed` says when one is active. A derivative of the
derivative is made by `differentiable_again`, from the same attention in plain operations.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from regard.base import ImplementationUnavailable, RegardError

REASON = "a transform of torch.func or forward-mode differentiation is active, which fused kernels do not know"


def transformed() -> bool:
    """Whether `torch.func` (grad, jvp, vmap, …) or a dual level of forward mode is active around this call.

    >>> transformed(), torch.func.vmap(lambda x: x + transformed())(torch.zeros(1))
    (False, tensor([1.]))
    """
    return bool(torch._C._are_functorch_transforms_active()) or forward_ad._current_level >= 0


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Products inside are made in the type of their factors, under autocast too."""
    if device.type == "meta" or not torch.is_autocast_enabled(device.type):  # torch knows no autocast of meta tensors
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


def refuse_transforms(name: str) -> None:
    """Raises where a kernel would be asked for a derivative that it does not have."""
    if transformed():
        raise ImplementationUnavailable(
            f"{name} cannot run here: {REASON}", cure="use plain operations, attend(…, impl='reference')"
        )


def differentiable_again(
    attention: Callable[..., Tensor], inputs: Sequence[Tensor], needed: Sequence[bool], grad: Tensor, *, dropout: float
) -> list[Tensor | None]:
    """The gradients of `attention(*inputs)`, where `needed`, by operations that can be differentiated once more."""
    if dropout > 0.0:
        raise RegardError(
            "a second derivative through fused attention with dropout is not there: its noise cannot be drawn again",
            cure="impl='reference', or no dropout",
        )
    aliases = [x.view_as(x) for x in inputs]  # one tensor may be given twice, and has a gradient at each place
    wanted = [alias for alias, need in zip(aliases, needed, strict=True) if need]
    context = attention(*aliases)
    found = iter(torch.autograd.grad(context, wanted, grad, create_graph=True, allow_unused=True))
    return [next(found) if need else None for need in needed]


class Twice(torch.autograd.Function):
    """`context` as it is, made of `inputs` by an operation that has a first derivative alone; this adds the second.

    The first goes back through the operation. Where a graph of it is asked for, it is made by plain operations instead.
    """

    @staticmethod
    def forward(ctx: Any, context: Tensor, attention: Callable[..., Tensor], dropout: float, *inputs: Tensor) -> Tensor:
        """The same numbers."""
        ctx.attention, ctx.dropout = attention, dropout
        ctx.save_for_backward(*inputs)
        return context.view_as(context)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        """The gradient goes to the operation, or to its inputs."""
        inputs, needed = ctx.saved_tensors, ctx.needs_input_grad[3:]
        if not torch.is_grad_enabled():
            return grad, None, None, *(None for _ in inputs)
        found = differentiable_again(ctx.attention, inputs, needed, grad, dropout=ctx.dropout)
        return None, None, None, *found


# ── the same attention in plain operations ──────────────────────────────────────────────────────────────────────────


def plain_additive(query: Tensor, keys: Tensor, values: Tensor, v: Tensor, *, seen: Tensor | None) -> Tensor:
    """The context [n q d] of Σ_a v_a tanh(q_ia + k_ja), over the keys that are `seen` [n q k]."""
    query, keys, v = _wide(query, keys, v)
    with without_autocast(query.device):
        scores = torch.tanh(query.unsqueeze(-2) + keys.unsqueeze(-3)) @ v
        return _mixed(scores, values, seen)


def plain_dot(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    bias: Tensor | None = None,
    *,
    scale: float,
    seen: Tensor | None = None,
    causal: bool = False,
) -> Tensor:
    """The context [… q d] of scale · q_i·k_j + bias, over the keys that are `seen`."""
    query, keys = _wide(query, keys)
    if causal:
        seen = torch.ones(query.shape[-2], keys.shape[-2], dtype=torch.bool, device=query.device).tril()
    with without_autocast(query.device):
        scores = query @ keys.mT * scale
        return _mixed(scores if bias is None else scores + bias, values, seen)


def visible_keys(
    query: Tensor, keys: Tensor, lengths: Tensor | None, allowed: Tensor | None, before: int | None, after: int | None
) -> Tensor | None:
    """The rules of the kernels as one tensor [n q k], True = may attend; None if all may."""
    (_, q, _), k = query.shape, keys.shape[1]
    key = torch.arange(k, device=query.device)
    distance = key - torch.arange(k - q, k, device=query.device).unsqueeze(1)
    rules = [] if before is None else [distance >= -before]
    rules += [] if after is None else [distance <= after]
    rules += [] if lengths is None else [(key < lengths.unsqueeze(-1)).unsqueeze(1)]
    rules += [] if allowed is None else [allowed]
    seen = None
    for rule in rules:
        seen = rule if seen is None else seen & rule
    return seen


def _mixed(scores: Tensor, values: Tensor, seen: Tensor | None) -> Tensor:
    if seen is not None:
        scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1)
    weights = weights if seen is None else weights.masked_fill(~seen, 0.0)
    weights, content = _wide(weights, values)
    return (weights @ content).to(values.dtype)


def _wide(*tensors: Tensor) -> list[Tensor]:
    """In one type, float32 or better."""
    dtype = torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return [tensor.to(dtype) for tensor in tensors]
