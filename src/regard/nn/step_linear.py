"""Products in a loop over time. Their weights get the gradients of all steps at once, by one product after the last.

Left alone, autograd makes the gradient of a weight that T steps use from T small products and T sums as large as the
weight. Those, not the arithmetic, are most of a recurrent decoder's training step.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.base import RegardError, ShapeError
from regard.kernels.derivatives import transformed


class StepLinear:
    """x_t Wᵀ + b for t = 0, 1, …: `shape` is (steps, rows), and each call is one step with x [rows, in].

    `bias` is [out], or [steps, rows, out] with an addend for each row of each step. Nothing has to be closed at the
    end: the inputs of the steps are kept, and the gradients of their results, all together, are multiplied with them.
    A gradient of that gradient is refused.

    >>> product = StepLinear(torch.eye(2), torch.ones(2), shape=(3, 1))
    >>> product(product(torch.tensor([[1.0, 2.0]])))
    tensor([[3., 4.]])
    """

    def __init__(
        self,
        weight: Float[Tensor, "o i"],
        bias: Float[Tensor, " o"] | Float[Tensor, "t n o"] | None = None,
        *,
        shape: tuple[int, int],
    ) -> None:
        weight, bias = _as_autocast(weight), None if bias is None else _as_autocast(bias)
        wanted = (*shape, weight.shape[0])
        if bias is not None and tuple(bias.shape) not in (wanted, wanted[2:]):
            expected = f"{list(wanted[2:])}, or {list(wanted)}: one for each row of each step"
            raise ShapeError("the bias does not fit", got=list(bias.shape), expected=expected)
        weight = weight.contiguous()
        self._steps = iter(range(shape[0]))
        self._inputs: list[Tensor] = []
        self._tokens: tuple[Tensor, ...] | None = None
        self._plain = weight, bias
        if transformed():  # torch.func and forward mode see plain products alone
            return
        self._plain = weight.detach(), None if bias is None else bias.detach()
        if torch.is_grad_enabled() and (weight.requires_grad or (bias is not None and bias.requires_grad)):
            tokens: Tensor = _Collect.apply(weight, bias, self._inputs, wanted)  # type: ignore[no-untyped-call]
            self._tokens = tokens.unbind(0)

    def __call__(self, x: Float[Tensor, "n i"]) -> Float[Tensor, "n o"]:
        """The next step."""
        step = next(self._steps, None)
        if step is None:
            raise RegardError("there are no more steps", cure="give their number: StepLinear(…, shape=(steps, rows))")
        weight, bias = self._plain
        bias = bias[step] if bias is not None and bias.ndim == 3 else bias
        x = x.to(weight.dtype)
        if self._tokens is None:
            return _linear(x, weight, bias)
        self._inputs.append(x.detach())
        result: Tensor = _Step.apply(x, self._tokens[step], weight, bias)  # type: ignore[no-untyped-call]
        return result


class _Collect(torch.autograd.Function):
    """Gives each step a token that holds nothing. The gradients of all tokens arrive here, together, at the end."""

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, bias: Tensor | None, inputs: list[Tensor], shape: tuple[int, int, int]
    ) -> Tensor:
        ctx.inputs, ctx.axes = inputs, 0 if bias is None else bias.ndim
        return weight.new_zeros(()).expand(shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        of_weight = of_bias = None
        if ctx.needs_input_grad[0]:
            rows = torch.stack(ctx.inputs).flatten(0, 1)
            of_weight = grad[: len(ctx.inputs)].flatten(0, 1).t() @ rows
        if ctx.needs_input_grad[1]:
            of_bias = grad if ctx.axes == 3 else grad.sum((0, 1))
        return of_weight, of_bias, None, None


class _Step(torch.autograd.Function):
    """The product of one step; its token gets the gradient of the result, as if it had been added."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, token: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(weight)
        return _linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, None, None]:
        [weight] = ctx.saved_tensors
        return grad @ weight if ctx.needs_input_grad[0] else None, grad, None, None


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if bias is not None and bias.ndim == 2:
        return torch.addmm(bias, x, weight.t())
    return torch.nn.functional.linear(x, weight, bias)


def _as_autocast(tensor: Tensor) -> Tensor:
    """In the dtype of autocast, where that is on: once, not at each step."""
    kind = tensor.device.type
    if not torch.amp.is_autocast_available(kind) or not torch.is_autocast_enabled(kind):
        return tensor
    if tensor.dtype == torch.float64:
        return tensor
    return tensor.to(torch.get_autocast_dtype(kind))
