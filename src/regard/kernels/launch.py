# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""What every Triton kernel needs to be compiled and launched. The files of kernels can be read without Triton."""

import os
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace

import torch
from torch import Tensor

try:
    import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
    import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
except ModuleNotFoundError:  # this file can be read without it; `reasons_against_triton` says what is missing
    triton, tl = None, SimpleNamespace(constexpr=lambda value: value)

INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")
MOST_LAUNCHES = 4096  # kinds of launches that a kernel remembers
WHOLE = frozenset({int, bool, type(None)})  # arguments whose values Triton builds into a program


def _kind(x):
    """What a program is built for, of an argument: a value, or the type of a real number, or that of a tensor."""
    its = type(x)
    return (its, x) if its in WHOLE else its if its is float else (x.dtype, x.data_ptr() % 16)


class Kernel(triton.JITFunction if triton else object):  # type: ignore[misc]
    """A Triton kernel that remembers what it was built into for each kind of launch.

    Triton looks at every argument and at every constant of the kernel before each launch, which takes the host 20 to
    40 µs. Two launches are of one kind if their tensors agree in type and alignment, and their whole numbers and
    options in value. Then Triton would launch the same program again, so it is launched as it is. Settings of Triton
    that change after the first launch have no effect on later ones. Tensors are given by position, options by name.
    """

    def __init__(self, function):
        super().__init__(function)
        self.launches = {}

    def run(self, *arguments, grid, warmup, **options):
        """Launches the kernel, as `kernel[grid](*arguments, **options)` asks for."""
        kind = (
            triton.runtime.driver.active.get_current_device(),
            *options.items(),
            *[x if type(x) is int else _kind(x) for x in arguments],
        )
        known = self.launches.get(kind)
        if known is None or warmup or self.pre_run_hooks:
            return self._run_anew(kind, arguments, grid=grid, warmup=warmup, **options)
        program, constants = known
        program[(*grid, 1, 1)[:3]](*arguments, *constants)
        return program

    def _run_anew(self, kind, arguments, **options):
        program = super().run(*arguments, **options)
        if isinstance(program, triton.compiler.CompiledKernel):
            if len(self.launches) == MOST_LAUNCHES:
                self.launches.clear()
            self.launches[kind] = program, [options[name] for name in self.arg_names[len(arguments) :]]
        return program


def jit(function):
    """A kernel, or a function for kernels, of Triton; without Triton the function as it is."""
    if triton is None:
        return function
    return triton.jit(function) if triton.knobs.runtime.interpret else Kernel(function)


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
    is_elsewhere = x.is_cuda and x.get_device() != torch.cuda.current_device()
    return torch.cuda.device(x.device) if is_elsewhere else nullcontext()
