"""A tape: a recurrence writes one cell after another on it, and reads all earlier cells at every step.

Joining the cells anew at each step would copy t cells at step t, and as many gradients on the way back. Here every cell
is copied once, into its place of a store that is large enough for all, and what is read is a view of the store.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.base import ShapeError
from regard.kernels.derivatives import transformed


class StepTape:
    """Room for `capacity` cells, each with a key and a value; what was written is not changed afterwards.

    Gradients flow from what was read to what was written. They are added up, cell by cell, in one store as large as the
    tape; that a cell's sum is complete before it is passed on follows from the order in which cells were written. Under
    the transforms of `torch.func`, in forward mode and in a compiler, cells are joined by `torch.cat` instead.

    >>> tape = StepTape(3)
    >>> for number in (1.0, 2.0):
    ...     tape.write(torch.full((1, 1, 2), number), torch.full((1, 1, 1), 10 * number))
    >>> keys, values = tape.read()
    >>> keys.tolist(), values.tolist()
    ([[[1.0, 1.0], [2.0, 2.0]]], [[[10.0], [20.0]]])
    """

    def __init__(self, capacity: int) -> None:
        self.capacity, self.length = capacity, 0
        self._store = _Store()
        self._token: Tensor | None = None  # depends on every cell so far
        self._joined: tuple[list[Tensor], list[Tensor]] | None = ([], []) if _must_join() else None

    def write(self, keys: Float[Tensor, "n c a"], values: Float[Tensor, "n c v"]) -> None:
        """Adds c cells at the end."""
        end = self.length + keys.shape[1]
        if end > self.capacity:
            raise ShapeError("the tape is full", got=f"{end} cells", expected=f"at most {self.capacity}")
        if self._joined is not None:
            self._joined[0].append(keys)
            self._joined[1].append(values)
        elif keys.shape[1]:
            if not self._store.data:
                self._store.make(keys, values, self.capacity)
            if torch.is_grad_enabled():
                token = keys.new_zeros(()) if self._token is None else self._token
                self._token = _Write.apply(self._store, self.length, token, keys, values)  # type: ignore[no-untyped-call]
            else:
                self._store.write(self.length, keys, values)
        self.length = end

    def read(self, first: int = 0) -> tuple[Float[Tensor, "n k a"], Float[Tensor, "n k v"]]:
        """The keys and the values of all cells from `first` on; there must be one."""
        if not 0 <= first < self.length:
            raise ShapeError("there is no such cell", got=first, expected=f"0 to {self.length - 1}")
        if self._joined is not None:
            keys, values = (torch.cat(cells, 1)[:, first:] for cells in self._joined)
            return keys, values
        if self._token is not None and self._token.requires_grad and torch.is_grad_enabled():
            keys, values = _Read.apply(self._store, first, self.length, self._token)  # type: ignore[no-untyped-call]
            return keys, values
        return self._store.read(first, self.length)


class _Store:
    """The places of all cells, and those of their gradients: two tensors each, for keys and for values."""

    def __init__(self) -> None:
        self.data: list[Tensor] = []
        self.gradients: list[Tensor] = []

    def make(self, keys: Tensor, values: Tensor, capacity: int) -> None:
        self.data = [cell.new_empty(len(cell), capacity, cell.shape[2]) for cell in (keys, values)]

    def write(self, place: int, keys: Tensor, values: Tensor) -> None:
        for store, cells in zip(self.data, (keys, values), strict=True):
            store[:, place : place + cells.shape[1]] = cells.detach()

    def read(self, first: int, end: int) -> tuple[Tensor, Tensor]:
        # `.data` has a version counter of its own: later writes go to other cells, and need not alarm autograd.
        keys, values = (store.data[:, first:end] for store in self.data)
        return keys, values

    def add_gradients(self, first: int, end: int, gradients: tuple[Tensor | None, ...]) -> None:
        if not self.gradients:
            wide = [torch.promote_types(store.dtype, torch.float32) for store in self.data]
            self.gradients = [torch.zeros_like(store, dtype=kind) for store, kind in zip(self.data, wide, strict=True)]
        for total, gradient in zip(self.gradients, gradients, strict=True):
            if gradient is not None:
                total[:, first:end] += gradient

    def take_gradients(self, first: int, end: int) -> list[Tensor | None]:
        """The sums of some cells, which begin anew: a graph may be differentiated twice."""
        if not self.gradients:
            return [None, None]
        sums: list[Tensor | None] = []
        for total, store in zip(self.gradients, self.data, strict=True):
            sums.append(total[:, first:end].to(store.dtype, copy=True))
            total[:, first:end].zero_()
        return sums


class _Write(torch.autograd.Function):
    """Puts cells into their places. Its token stands for all cells so far: who reads them depends on it."""

    @staticmethod
    def forward(ctx: Any, store: _Store, place: int, token: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.store, ctx.first, ctx.end = store, place, place + keys.shape[1]
        store.write(place, keys, values)
        return token.new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor | None) -> tuple[Tensor | None, ...]:
        return None, None, None, *ctx.store.take_gradients(ctx.first, ctx.end)


class _Read(torch.autograd.Function):
    """Gives cells to read, and adds their gradients to the sums of the cells."""

    @staticmethod
    def forward(ctx: Any, store: _Store, first: int, end: int, token: Tensor) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.store, ctx.first, ctx.end = store, first, end
        return store.read(first, end)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[None, None, None, None]:
        ctx.store.add_gradients(ctx.first, ctx.end, gradients)
        return None, None, None, None


def _must_join() -> bool:
    return torch.compiler.is_compiling() or transformed()
