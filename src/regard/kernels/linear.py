"""Several linear layers of one input as one product, and gradients of biases without torch's slow sums.

    [y₁, y₂, …] = x [W₁; W₂; …]ᵀ + [b₁, b₂, …]

Weights that lie side by side in memory are read as they are, as one matrix; others are copied together. The results
are views of one tensor; gradients that come back side by side are read as one too.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.columns import column_sums, handed_on
from regard.kernels.derivatives import has_no_memory, refuse_transforms
from regard.kernels.joined import join


def fused_linear(
    x: Float[Tensor, "*s d"], weights: Sequence[Tensor], biases: Sequence[Tensor | None]
) -> tuple[Tensor, ...]:
    """x W_iᵀ + b_i for all weights [e_i d] in one product; biases are all there, or none.

    Gradients flow, also twice.
    """
    refuse_transforms("fused_linear")
    with_bias = biases[0] is not None
    results: tuple[Tensor, ...] = _Linear.apply(x, len(weights), with_bias, *weights, *(biases if with_bias else ()))  # type: ignore[no-untyped-call]
    return results


class _Linear(torch.autograd.Function):
    """Keeps the input and the weights."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, count: int, with_bias: bool, *parameters: Tensor) -> tuple[Tensor, ...]:
        weights, biases = parameters[:count], parameters[count:]
        weight = join(weights, 0)
        rows = x.reshape(-1, x.shape[-1])
        made = torch.addmm(join(biases, 0), rows, weight.t()) if with_bias else rows @ weight.t()
        ctx.save_for_backward(x, *parameters)
        ctx.count = count
        ctx.wants_column_sums = with_bias and count == 1  # a kernel that writes the gradient may bring them along
        ctx.set_materialize_grads(False)
        sizes = [each.shape[0] for each in weights]
        whole = made.view(*x.shape[:-1], sum(sizes))
        return (whole,) if count == 1 else tuple(_apart(whole, sizes))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        x, *parameters = ctx.saved_tensors
        weights, biases = parameters[: ctx.count], parameters[ctx.count :]
        if all(grad is None for grad in grads):
            return (None,) * (3 + len(parameters))
        filled = [
            x.new_zeros(*x.shape[:-1], weight.shape[0]) if grad is None else grad
            for grad, weight in zip(grads, weights, strict=True)
        ]
        again = torch.is_grad_enabled() or any(has_no_memory(grad) for grad in filled)
        grad = torch.cat(filled, -1) if again else join(filled, -1)
        weight = torch.cat(list(weights), 0) if again else join(weights, 0)
        rows, outer = x.reshape(-1, x.shape[-1]), grad.reshape(-1, grad.shape[-1])
        sizes = [each.shape[0] for each in weights]
        of_x = (outer @ weight).view(x.shape) if ctx.needs_input_grad[0] else None
        wanted = ctx.needs_input_grad[3:]
        of_weights: Sequence[Tensor | None] = [None] * ctx.count
        if any(wanted[: ctx.count]):
            of_weights = torch.split(outer.t() @ rows, sizes, 0)
        of_biases: Sequence[Tensor | None] = [None] * len(biases)
        if any(wanted[ctx.count :]):
            sums = outer.sum(0) if again else handed_on(filled[0]) if ctx.count == 1 else None
            of_biases = torch.split(column_sums(outer) if sums is None else sums, sizes, 0)
        return of_x, None, None, *of_weights, *of_biases


def _apart(whole: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """Parts of the last axis, as tensors that share a memory, but are no views of each other for autograd."""
    place, parts = whole.storage_offset(), []
    for size in sizes:
        part = whole.new_empty(0)
        part.set_(whole.untyped_storage(), place, (*whole.shape[:-1], size), whole.stride())
        parts.append(part)
        place += size
    return parts
