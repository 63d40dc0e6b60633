"""A watch over indices: what would end a CUDA program, and what a cast hides, is found on a CPU."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_A = torch.ops.aten
_ALONG = {_A.gather, _A.scatter, _A.scatter_, _A.scatter_add, _A.scatter_add_, _A.index_select}


class IndexGuard(TorchDispatchMode):
    """Inside it, every index must lie in its axis, counted from the front, and what becomes an integer be finite."""

    def __init__(self) -> None:
        super().__init__()
        self.checked = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name, call = func.overloadpacket, lambda: f"{func} on {list(args[0].shape)}"
        if (
            name is _A._to_copy
            and args[0].is_floating_point()
            and not kwargs.get("dtype", torch.float).is_floating_point
        ):
            self.checked += 1
            assert args[0].isfinite().logical_and(args[0].abs() < 2**31).all(), f"a cast of {args[0]}"
        elif name in (_A.index, _A.index_put, _A.index_put_):
            for axis, index in enumerate(args[1]):
                if index is not None and index.dtype != torch.bool:
                    self._inside(index, args[0].shape[axis], call)
        elif name in _ALONG:
            self._inside(args[2], args[0].shape[args[1]], call)
        elif name in (_A.embedding, _A.take):
            self._inside(args[1], len(args[0]) if name is _A.embedding else args[0].numel(), call)
        return func(*args, **kwargs)

    def _inside(self, index: Tensor, size: int, call: Callable[[], str]) -> None:
        self.checked += 1
        if index.numel():
            assert 0 <= int(index.min()) <= int(index.max()) < size, f"{call()}: {index.min()} to {index.max()}"
