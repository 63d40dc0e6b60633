"""The one place that decides whether a kernel for small models serves a call that names no implementation."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor, nn
from torch.nn.modules import module as modules

from regard.base import ConfigError
from regard.kernels import limits
from regard.kernels.derivatives import transformed

LARGE = 2**24  # numbers in a tensor, from which on a kernel pays that is launched by itself
_RECORDING: ContextVar[bool] = ContextVar("recording", default=False)


@contextmanager
def recording() -> Iterator[None]:
    """Launches in this block are recorded in a graph, or will be: what they cost the host is paid once."""
    token = _RECORDING.set(True)
    try:
        yield
    finally:
        _RECORDING.reset(token)


def serves(name: str, *tensors: Tensor | None) -> bool:
    """Whether the kernel `name` of limits.SMALL is chosen, and can serve such tensors; the first one must be there.

    It is chosen where limits.CHOSEN_ON_A_GPU has its name. On a GPU it serves where launches are recorded, or the first
    tensor is large: a Triton kernel takes several times as long to launch as one of torch's. Plain operations serve a
    CPU, float64, compilers, transforms of torch.func, tensors of other classes, and code that watches torch's
    functions, such as `intervene`.

    >>> serves("token_loss", torch.zeros(2, 3))
    False
    """
    if name not in limits.SMALL:
        raise ConfigError(
            "a kernel for small models", got=repr(name), expected=f"one of {', '.join(sorted(limits.SMALL))}"
        )
    if name not in limits.CHOSEN_ON_A_GPU or not limits.HAS_TRITON or _is_compiled():
        return False
    present = [tensor for tensor in tensors if tensor is not None]
    device = present[0].device
    if device.type != "cuda" and not (device.type == "cpu" and os.environ.get("TRITON_INTERPRET") == "1"):
        return False
    if not pays(device.type, present[0].numel()):
        return False
    plain = all(
        type(tensor) in (Tensor, nn.Parameter)
        and tensor.device == device
        and tensor.dtype in limits.DTYPES
        and tensor.numel() > 0
        for tensor in present
    )
    return plain and not transformed() and torch._C._len_torch_function_stack() == 0


def pays(kind: str, numbers: int) -> bool:
    """Whether a Triton kernel over so many numbers is worth its launch on a device of this kind.

    >>> with recording():
    ...     inside = pays("cuda", 100)
    >>> inside, pays("cuda", 100), pays("cuda", LARGE)
    (True, False, True)
    """
    return kind != "cuda" or _RECORDING.get() or numbers >= LARGE


def _is_compiled() -> bool:
    """Whether a compiler or an exporter looks on, which shall see plain operations."""
    return torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None


def is_bare(layer: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether a layer is just one of torch's, without hooks, so that its weights may be used in its place.

    >>> is_bare(nn.Linear(2, 3), nn.Linear)
    True
    """
    hooks = (layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks)
    own = "forward" in layer.__dict__ or layer._compiled_call_impl is not None
    return type(layer) is kind and not own and not any(hooks) and not modules._has_any_global_hook()  # type: ignore[no-untyped-call]


def is_autocast(x: Tensor) -> bool:
    """Whether autocast would give a product of `x` another type than it has."""
    return torch.is_autocast_enabled(x.device.type) and x.dtype != torch.get_autocast_dtype(x.device.type)
