"""Operations that compilers and tracers see as one step, and that cost the host little when nobody looks on.

An operator of `torch.library` passes the dispatcher, checks of its schema and several Python wrappers in every call,
which takes longer than many of our kernels. Only an observer needs that: torch.compile, an exporter, a mode, a
transform of torch.func, a tensor of another class, a profiler. All other calls run the same functions directly.
"""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey, DispatchKeySet
from torch._C._dynamo.eval_frame import get_eval_frame_callback
from torch.autograd import forward_ad


def _bits(*names: str) -> int:
    """The keys of torch's dispatcher with these names, as the bits of one number."""
    bits = 0
    for name in names:
        bits |= DispatchKeySet(getattr(DispatchKey, name)).raw_repr()
    return bits


_OF_PLAIN_TENSORS = _bits(
    "CPU", "CUDA", "AutogradCPU", "AutogradCUDA", "AutocastCPU", "AutocastCUDA", "ADInplaceOrView"
)  # fmt: skip
_OF_PLAIN_THREADS = _bits("BackendSelect", "ADInplaceOrView")


class Opaque:
    """A function as an operator of `torch.library`; a call that nobody watches does not pass the dispatcher.

    `register_fake` and `register_autograd` are those of `torch.library.custom_op`. Both ways run the same functions,
    so outputs, gradients and second derivatives are the same. The direct way takes all arguments by position; a call
    with names or defaults is slower. A tensor with a tangent of forward mode raises an error.

    `function` is the function itself, and `operator` what torch.ops has under the name.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        namespace, _, short_name = name.partition("::")
        self.function = function
        self._num_arguments = len(inspect.signature(function).parameters)
        self._definition = torch.library.custom_op(name, mutates_args=())(function)
        self.operator = getattr(getattr(torch.ops, namespace), short_name).default
        self._with_graph: Callable[..., Any] = self.operator
        self._short_name = short_name

    def register_fake(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Takes the function that gives outputs of the right shapes, without their numbers."""
        return self._definition.register_fake(function)

    def register_autograd(self, backward: Callable[..., Any], *, setup_context: Callable[..., None]) -> None:
        """Takes `setup_context(ctx, inputs, output)`, which saves what `backward(ctx, *gradients)` needs."""
        self._definition.register_autograd(backward, setup_context=setup_context)
        function = self.function

        def forward(ctx: Any, *arguments: Any) -> Any:
            output = function(*arguments)
            setup_context(ctx, arguments, output)
            return output

        ways = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        self._with_graph = type(self._short_name, (torch.autograd.Function,), ways).apply  # type: ignore[attr-defined]

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """The outputs for these arguments."""
        if torch.compiler.is_compiling() or named or len(arguments) < self._num_arguments or _is_watched(arguments):
            return self.operator(*arguments, **named)
        has_gradient = torch.is_grad_enabled() and torch._C._any_requires_grad(*arguments)
        if has_gradient or forward_ad._current_level >= 0:
            return self._with_graph(*arguments)
        return self.function(*arguments)


def opaque(name: str) -> Callable[[Callable[..., Any]], Opaque]:
    """Makes a function the operator `name`, as `torch.library.custom_op` does; it must not change its arguments.

    >>> @opaque("regard::doubled_in_the_documentation")
    ... def doubled(x: torch.Tensor) -> torch.Tensor:
    ...     return 2 * x
    >>> doubled(torch.ones(2)), torch.ops.regard.doubled_in_the_documentation(torch.ones(2))
    (tensor([2., 2.]), tensor([2., 2.]))
    """
    return lambda function: Opaque(name, function)


def _is_watched(arguments: tuple[Any, ...]) -> bool:
    """Whether a call with these arguments must pass the dispatcher, because somebody looks on or changes its meaning.

    A thread has other keys than usual inside a dispatch mode, a transform of torch.func or a trace. A tensor has other
    keys if it is fake, functional, sparse, on another device, or waits to be negated.
    """
    if torch._C._has_torch_function(arguments) or torch._C._autograd._profiler_enabled():
        return True
    if get_eval_frame_callback() is not None:  # torch.compile would compile what is called from here
        return True
    if torch._C._dispatch_tls_local_include_set().raw_repr() & ~_OF_PLAIN_THREADS:
        return True
    for argument in arguments:
        if isinstance(argument, Tensor) and torch._C._dispatch_keys(argument).raw_repr() & ~_OF_PLAIN_TENSORS:
            return True
    return False
