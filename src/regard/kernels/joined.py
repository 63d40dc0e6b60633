"""Tensors that lie side by side in memory, taken as one; and gradients that are written so that they do."""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.kernels.derivatives import ALIGNMENT


def join(tensors: Sequence[Tensor], axis: int) -> Tensor:
    """`torch.cat` along the first or the last axis; a view, without a copy, where the tensors lie side by side.

    >>> whole = torch.arange(12.0).view(2, 6)
    >>> joined = join(whole.split([2, 4], -1), -1)
    >>> torch.equal(joined, whole), joined.data_ptr() == whole.data_ptr()
    (True, True)
    """
    first = tensors[0]
    axis %= first.ndim
    size = sum(tensor.shape[axis] for tensor in tensors)
    if not are_side_by_side(tensors, axis):
        return torch.cat(list(tensors), axis)
    shape = [size if number == axis else length for number, length in enumerate(first.shape)]
    return first.as_strided(shape, first.stride())


def are_side_by_side(tensors: Sequence[Tensor], axis: int) -> bool:
    """Whether each tensor begins where the one before it ends along the axis, with the same steps."""
    first = tensors[0]
    axis %= first.ndim
    if any(tensor.device.type == "meta" or tensor.numel() == 0 for tensor in tensors):
        return False
    place, others = first.storage_offset(), (*first.shape[:axis], *first.shape[axis + 1 :])
    for tensor in tensors:
        alike = tensor.stride() == first.stride() and tensor.dtype == first.dtype
        alike = alike and (*tensor.shape[:axis], *tensor.shape[axis + 1 :]) == others
        beside = tensor.storage_offset() == place and _storage(tensor) == _storage(first)
        if not (alike and beside and first.stride(axis) > 0):
            return False
        place += tensor.shape[axis] * first.stride(axis)
    return True


def _storage(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()


def room_alike(*tensors: Tensor) -> list[Tensor]:
    """Room for the gradient of each tensor, with its steps. Those that share a whole memory share a new one likewise.

    So the gradients of what one product made, such as queries, keys and values, are one tensor for its backward pass.
    """
    rooms: list[Tensor | None] = [None] * len(tensors)
    for start in range(len(tensors) - 1):
        group = [number for number in range(start, len(tensors)) if rooms[number] is None]
        if len(group) < 2 or rooms[start] is not None:
            continue
        made = _shared_room([tensors[number] for number in group])
        if made is not None:
            for number, room in zip(group, made, strict=True):
                rooms[number] = room
    return [_own_room(x) if room is None else room for x, room in zip(tensors, rooms, strict=True)]


def _own_room(x: Tensor) -> Tensor:
    room = torch.empty_like(x)
    return room if room.stride(-1) == 1 else x.new_empty(x.shape)


def _shared_room(tensors: Sequence[Tensor]) -> list[Tensor] | None:
    """Views of one new memory, if the tensors together fill theirs from the first number to the last, each once."""
    first = tensors[0]
    step = tensors[1].storage_offset() - first.storage_offset()
    for number, tensor in enumerate(tensors):
        if tensor.shape != first.shape or tensor.stride() != first.stride() or tensor.dtype != first.dtype:
            return None
        if _storage(tensor) != _storage(first) or tensor.storage_offset() != first.storage_offset() + number * step:
            return None
    shape, strides = [len(tensors), *first.shape], [step, *first.stride()]
    size = 1
    for length, stride in sorted(zip(shape, strides, strict=True), key=lambda pair: pair[1]):
        if length != 1 and stride != size:
            return None  # there are gaps, or numbers that are there twice
        size *= length
    memory = first.new_empty(size)
    return [memory.as_strided(first.shape, first.stride(), number * step) for number in range(len(tensors))]


def side_by_side(tensors: Sequence[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """Copies in `dtype` in one memory, matrices first: those of one layer lie side by side, as one product reads them.

    >>> copies = side_by_side([torch.ones(2, 8), torch.ones(2), torch.zeros(3, 8)], torch.bfloat16)
    >>> are_side_by_side([copies[0], copies[2]], 0), [list(copy.shape) for copy in copies]
    (True, [[2, 8], [2], [3, 8]])
    """
    if not tensors:
        return []
    aligned = ALIGNMENT // dtype.itemsize
    order = sorted(range(len(tensors)), key=lambda number: tensors[number].ndim < 2)  # stable
    places, size = {}, 0
    for number in order:
        places[number] = size
        size += -(-tensors[number].numel() // aligned) * aligned
    memory = torch.zeros(size, dtype=dtype, device=tensors[0].device)
    copies = []
    for number, tensor in enumerate(tensors):
        start = places[number]
        copies.append(memory[start : start + tensor.numel()].view(tensor.shape).copy_(tensor.detach()))
    return copies
