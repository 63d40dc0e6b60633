# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""Adam over all tensors of a model in one kernel: clipping, moments, float32 weights, and their bfloat16 copies.

With torch's functions, gradients are copied to float32, their norm is taken, they are scaled, Adam runs over lists of
tensors, and the weights are copied to bfloat16: about twenty kernels that read and write all numbers six times. Here
gradients lie in one flat tensor of bfloat16. One kernel adds up their squares, by parts; the other one takes a chunk of
a tensor per program, and reads addresses of weights, moments and copies from a table.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.kernels.arithmetic import precise_exp
from regard.kernels.launch import jit, on, tl

CHUNK = 4096  # numbers of one tensor that a program takes
SQUARES = 256  # parts of the sum of squares


@jit
def _squares(gradients, parts_of_squares, size, block: tl.constexpr):
    """The sum of the squares of every 256th block."""
    part, parts = tl.program_id(0), tl.num_programs(0)
    total = tl.zeros([block], tl.float32)
    for tile in range(part, tl.cdiv(size, block), parts):
        place = (tile * block + tl.arange(0, block)).to(tl.int64)
        number = tl.load(gradients + place, mask=place < size, other=0.0).to(tl.float32)
        total += number * number
    tl.store(parts_of_squares + part, tl.sum(total, 0))


@jit
def _one_minus_power(log_base, step):
    """1 − b^step, with all digits where b is near 1."""
    y = log_base * step
    series = 1.0 + y * (1.0 / 9)
    series = 1.0 + y * (1.0 / 8) * series
    series = 1.0 + y * (1.0 / 7) * series
    series = 1.0 + y * (1.0 / 6) * series
    series = 1.0 + y * (1.0 / 5) * series
    series = 1.0 + y * (1.0 / 4) * series
    series = 1.0 + y * (1.0 / 3) * series
    series = 1.0 + y * (1.0 / 2) * series
    return tl.where(y > -0.5, -y * series, 1.0 - precise_exp(tl.maximum(y, -80.0)))


@jit
def _step(
    table, decays, which, starts, gradients, parts_of_squares,
    max_norm, first_rate, second_rate, first_log, second_log, eps,
    clips: tl.constexpr, decoupled: tl.constexpr, squares: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """One chunk of one tensor."""
    chunk = tl.program_id(0)
    row = table + tl.load(which + chunk) * 8
    start = tl.load(starts + chunk)
    weights, first, second = (
        tl.load(row).to(tl.pointer_type(tl.float32)),
        tl.load(row + 1).to(tl.pointer_type(tl.float32)),
        tl.load(row + 2).to(tl.pointer_type(tl.float32)),
    )
    copies = tl.load(row + 3).to(tl.pointer_type(tl.bfloat16))
    step = tl.load(tl.load(row + 4).to(tl.pointer_type(tl.float32)))
    rate = tl.load(tl.load(row + 5).to(tl.pointer_type(tl.float32)))
    size, flat = tl.load(row + 6), tl.load(row + 7)
    decay = tl.load(decays + tl.load(which + chunk))
    at = start + tl.arange(0, block)
    inside = at < size
    gradient = tl.load(gradients + flat + at, mask=inside, other=0.0).to(tl.float32)
    if clips:
        norm = tl.sqrt(tl.sum(tl.load(parts_of_squares + tl.arange(0, squares)), 0))
        factor = max_norm / (norm + 1e-6)
        gradient *= tl.where(factor >= 1.0, 1.0, factor)
    weight = tl.load(weights + at, mask=inside, other=0.0)
    if decoupled:
        weight -= rate * decay * weight
    else:
        gradient += decay * weight
    mean = tl.load(first + at, mask=inside, other=0.0)
    mean += first_rate * (gradient - mean)
    square = tl.load(second + at, mask=inside, other=0.0)
    square += second_rate * (gradient * gradient - square)
    below = tl.sqrt(square) / tl.sqrt(_one_minus_power(second_log, step)) + eps
    weight -= rate / _one_minus_power(first_log, step) * mean / below
    tl.store(first + at, mean, mask=inside)
    tl.store(second + at, square, mask=inside)
    tl.store(weights + at, weight, mask=inside)
    tl.store(copies + at, weight.to(tl.bfloat16), mask=inside)


class Table:
    """Where the tensors of an update lie, on the device. It is made outside of a captured graph."""

    def __init__(self, rows: Sequence[tuple[Tensor, ...]], decays: Sequence[float], device: torch.device) -> None:
        """Each row: weight, first and second moment, copy, step and rate."""
        self.places = places_of(rows)
        flat, numbers = 0, []
        which: list[int] = []
        starts: list[int] = []
        for number, row in enumerate(rows):
            size = row[0].numel()
            numbers.append([*(tensor.data_ptr() for tensor in row), size, flat])
            chunks = range(0, size, CHUNK)
            which += [number] * len(chunks)
            starts += chunks
            flat += -(-size // 8) * 8  # so that each begins at a multiple of 16 bytes
        self.gradients = torch.zeros(flat, dtype=torch.bfloat16, device=device)
        self.views = [
            self.gradients[row[7] : row[7] + row[6]].view(tensors[0].shape)
            for row, tensors in zip(numbers, rows, strict=True)
        ]
        self.squares = torch.zeros(SQUARES, dtype=torch.float32, device=device)
        self.numbers = torch.tensor(numbers, dtype=torch.int64, device=device)
        self.decays = torch.tensor(list(decays), dtype=torch.float32, device=device)
        self.which, self.starts = (torch.tensor(x, dtype=torch.int32, device=device) for x in (which, starts))


def places_of(rows: Sequence[tuple[Tensor, ...]]) -> list[int]:
    """The addresses that a table holds: where one of them is another one, the table is out of date."""
    return [tensor.data_ptr() for row in rows for tensor in row]


def adam_step(
    table: Table,
    *,
    rates: tuple[float, float],
    logs: tuple[float, float],
    eps: float,
    clip: float | None,
    decoupled: bool,
) -> None:
    """One step from the gradients in `table.gradients`, clipped to the norm `clip`; the counters were advanced before.

    `rates` are 1 − β₁ and 1 − β₂, `logs` the logarithms of β₁ and β₂. With `decoupled` weight decay is that of AdamW.
    """
    with on(table.gradients):
        if clip is not None:
            _squares[(SQUARES,)](table.gradients, table.squares, table.gradients.numel(), block=1024, num_warps=4)
        _step[(len(table.which),)](
            table.numbers, table.decays, table.which, table.starts, table.gradients, table.squares,
            0.0 if clip is None else float(clip), *rates, *logs, eps,
            clips=clip is not None, decoupled=decoupled, squares=SQUARES, block=CHUNK, num_warps=8,
        )  # fmt: skip
