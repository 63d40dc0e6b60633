"""What an opaque operation owes to differentiation: to know when it is not enough, and a second derivative.

The fused operations have a first derivative, in reverse mode. Of the transforms of `torch.func` and of forward mode
they know nothing, and some of them would give zeros there: `transformed` says when one is active. A derivative of the
derivative is made by `differentiable_again`, from the same attention in plain operations.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import forward_ad

from regard.base import ImplementationUnavailable, RegardError

ALIGNMENT = 16  # bytes that a GPU reads at a time
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
    attention: Callable[..., Tensor | tuple[Tensor, Tensor]],
    inputs: Sequence[Tensor],
    needed: Sequence[bool],
    grad: Tensor | None,
    *,
    dropout: float,
    of_weights: Tensor | None = None,
) -> list[Tensor | None]:
    """The gradients of `attention(*inputs)`, where `needed`, by operations that can be differentiated once more.

    With `of_weights` there is a gradient of the weights too: then `attention` gives both, context and weights. Dropout
    does not act on the weights, so it matters for a gradient of the context alone.
    """
    if dropout > 0.0 and grad is not None:
        raise RegardError(
            "a second derivative through fused attention with dropout is not there: its noise cannot be drawn again",
            cure="use impl='reference', or no dropout",
        )
    graph = torch.is_grad_enabled()
    with torch.enable_grad():
        aliases = [x.view_as(x) for x in inputs]  # one tensor may be given twice, and has a gradient at each place
        wanted = [alias for alias, need in zip(aliases, needed, strict=True) if need]
        made = attention(*aliases)
    pairs = [(made, grad)] if isinstance(made, Tensor) else zip(made, (grad, of_weights), strict=True)
    asked = [(x, g) for x, g in pairs if g is not None and x.requires_grad]
    if not asked:
        return [None for _ in needed]
    outputs, outer = zip(*asked, strict=True)
    gradients = iter(torch.autograd.grad(outputs, wanted, outer, create_graph=graph, allow_unused=True))
    return [next(gradients) if need else None for need in needed]


def with_second_derivative(
    fast: Callable[..., Tensor], plain: Callable[..., Tensor], inputs: Sequence[Tensor], *, dropout: float = 0.0
) -> Tensor:
    """`fast(*inputs)`, of torch's operations that have a first derivative alone; `plain` is the same with all of them.

    The first goes back through `fast`. Where a graph of it is asked for, or many gradients at once, it is made of
    `plain`, and what comes back through `fast` is dropped. Compiled graphs have no second derivative in any case.
    """
    needed = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
    if torch.compiler.is_compiling() or not needed:
        return fast(*inputs)
    made = fast(*(_for_the_first_derivative(x, dropout) for x in inputs))
    result: Tensor = _Twice.apply(made, plain, dropout, *inputs)  # type: ignore[no-untyped-call]
    return result


def _by_plain_operations(grad: Tensor, dropout: float) -> bool:
    """Asked in a backward pass: whether it is to have a derivative (`create_graph`), or has many gradients at once."""
    return torch.is_grad_enabled() or (dropout == 0.0 and has_no_memory(grad))


def has_no_memory(x: Tensor) -> bool:
    """Whether `x` stands for many tensors or for none, so that no kernel can be told where its numbers lie.

    `torch.autograd.grad(…, is_grads_batched=True)` has a `vmap` of its own, which is no transform of `torch.func`.
    """
    wrapped = torch._C._functorch.is_legacy_batchedtensor(x) or torch._C._functorch.is_functorch_wrapped_tensor(x)
    return bool(wrapped) or type(x) not in (Tensor, torch.nn.Parameter)


def _for_the_first_derivative(x: Tensor, dropout: float) -> Tensor:
    if not x.requires_grad:
        return x
    alias = x.view_as(x)
    alias.register_hook(  # type: ignore[no-untyped-call]
        lambda grad: torch.zeros_like(grad) if _by_plain_operations(grad, dropout) else None
    )
    return alias


class _Twice(torch.autograd.Function):
    """`made` as it is. Its gradient goes to the operation that made it, or by way of `plain` to the inputs of that."""

    @staticmethod
    def forward(ctx: Any, made: Tensor, plain: Callable[..., Tensor], dropout: float, *inputs: Tensor) -> Tensor:
        ctx.plain, ctx.dropout = plain, dropout
        ctx.save_for_backward(*inputs)
        return made.view_as(made)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        inputs, needed = ctx.saved_tensors, ctx.needs_input_grad[3:]
        if not _by_plain_operations(grad, ctx.dropout):
            return as_fused_kernels_read(grad), None, None, *(None for _ in inputs)
        gradients = differentiable_again(ctx.plain, inputs, needed, grad, dropout=ctx.dropout)
        return grad, None, None, *gradients


def as_fused_kernels_read(x: Tensor) -> Tensor:
    """`x` where torch's fused kernels on a GPU can read it, or a copy that they can."""
    if not x.is_cuda or torch.compiler.is_compiling() or has_no_memory(x):
        return x  # a compiler sees to it by itself
    if is_readable(x):
        return x
    return x.clone(memory_format=torch.contiguous_format)


def is_readable(x: Tensor) -> bool:
    """Whether a tensor is whole, or its rows lie at multiples of 16 bytes, as fused kernels take for granted.

    torch looks at widths, not at where rows begin: of a slice its kernels read what is not there, or stop with
    "misaligned address". An axis of stride 0 is not readable either.

    >>> x = torch.zeros(2, 4, 8)
    >>> [is_readable(view) for view in (x, x[..., 4:], x[..., 1:5], x.mT, x[:1].expand(2, 4, 8))]
    [True, True, False, False, False]
    """
    if x.data_ptr() % ALIGNMENT:
        return False
    if x.is_contiguous():
        return True
    axes = zip(x.shape[:-1], x.stride()[:-1], strict=True)
    apart = all(size == 1 or (stride > 0 and stride * x.element_size() % ALIGNMENT == 0) for size, stride in axes)
    return apart and (x.shape[-1] == 1 or x.stride(-1) == 1)


# ── the same attention in plain operations ──────────────────────────────────────────────────────────────────────────


def plain_additive(query: Tensor, keys: Tensor, values: Tensor, v: Tensor, *, seen: Tensor | None) -> Tensor:
    """The context [n q d] of Σ_a v_a tanh(q_ia + k_ja), over the keys that are `seen` [n q k]."""
    return plain_additive_with_weights(query, keys, values, v, seen=seen)[0]


def plain_additive_with_weights(
    query: Tensor, keys: Tensor, values: Tensor, v: Tensor, *, seen: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The same, and the weights [n q k] in float32 or better."""
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
    """The context [… q d] of scale · q_i·k_j + bias, over the keys that are `seen`.

    `causal` hides later keys; the last query sees all of them.
    """
    query, keys = _wide(query, keys)
    if causal:
        num_queries, num_keys = query.shape[-2], keys.shape[-2]
        every = torch.ones(num_queries, num_keys, dtype=torch.bool, device=query.device)
        seen = every.tril(num_keys - num_queries)
    with without_autocast(query.device):
        scores = query @ keys.mT * scale
        return _mixed(scores if bias is None else scores + bias, values, seen)[0]


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


def visible_band(
    num_queries: int, num_keys: int, before: int | None, after: int | None, block: int,
    starts: Tensor | None = None, lengths: Tensor | None = None, *, device: torch.device | str | None = None,
    rows: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The band as a tensor [*b q k], True = may attend; with `rows` [r], those rows alone."""
    places = torch.arange(num_queries, device=device) if rows is None else rows if device is None else rows.to(device)
    places = (places + num_keys - num_queries).unsqueeze(-1)
    keys = torch.arange(num_keys, device=places.device)
    seen = (keys >= 0).expand(len(places), num_keys)
    if before is not None:
        seen = seen & (keys >= places.div(block, rounding_mode="floor") * block - before)
    if after is not None:
        seen = seen & (keys <= places + after)
    if starts is not None:
        seen = seen & (keys >= starts.to(keys.device)[..., None, None])
    if lengths is not None:
        seen = seen & (keys < lengths.to(keys.device)[..., None, None])
    return seen


def by_key(by_distance: Float[Tensor, "*b q w"], num_keys: int) -> Float[Tensor, "*b q {num_keys}"]:
    """From a column for each distance to a column for each key, in plain operations."""
    num_queries, width = by_distance.shape[-2:]
    row = torch.arange(num_queries, device=by_distance.device).unsqueeze(1)
    column = torch.arange(num_keys, device=by_distance.device) + num_queries - 1 - row
    return by_distance.gather(-1, column.clamp(max=width - 1).expand(*by_distance.shape[:-1], num_keys))


def _mixed(scores: Tensor, values: Tensor, seen: Tensor | None) -> tuple[Tensor, Tensor]:
    """The context and the weights of scores, over the keys that are `seen`."""
    if seen is not None:
        scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1)
    weights = weights if seen is None else weights.masked_fill(~seen, 0.0)
    wide, content = _wide(weights, values)
    return (wide @ content).to(values.dtype), weights


def _wide(*tensors: Tensor) -> list[Tensor]:
    """In one type, float32 or better."""
    dtype = torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return [tensor.to(dtype) for tensor in tensors]
