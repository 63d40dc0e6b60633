# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""What every Triton kernel needs to be compiled and launched. The files of kernels can be read without Triton."""

import os
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

try:
    import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
    import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
except ModuleNotFoundError:  # this file can be read without it; `reasons_against_triton` says what is missing
    triton, tl = None, SimpleNamespace(constexpr=lambda value: value)

jit: Any = triton.jit if triton else lambda function: function
INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")


def power_of_two(number: int, least: int = 1) -> int:
    """The next power of two.

    >>> power_of_two(5), power_of_two(16), power_of_two(3, 16)
    (8, 16, 16)
    """
    return max(least, 1 << (number - 1).bit_length())


def contiguous_rows(x: Tensor) -> Tensor:
    """`x` with neighbouring numbers in each row; expanded axes stay as they are."""
    return x if x.stride(-1) == 1 else x.contiguous()


def on(x: Tensor) -> AbstractContextManager[object]:
    """Triton launches on the current device: make it that of `x`."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()
