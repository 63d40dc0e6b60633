"""Seeds for dropout inside of kernels: drawn on the device by torch's generator; a captured graph renews them.

A kernel says by seed, layer and place what survives. Outside of `one_seed` every call draws its own seed; inside, all
calls share one, which is drawn at the first of them, and are told apart by their number: one launch less for each.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

STEPS = 1 << 16  # what survives is decided by 16 bits


class _Draw:
    """The seed that is shared, one on each device, and how many have used it."""

    def __init__(self) -> None:
        self.seeds: dict[torch.device, Tensor] = {}
        self.uses = 0


_SHARED: ContextVar[_Draw | None] = ContextVar("shared", default=None)


@contextmanager
def one_seed() -> Iterator[None]:
    """All dropout of kernels in this block has one seed: for one pass through a model, the same code each time."""
    token = _SHARED.set(_Draw())
    try:
        yield
    finally:
        _SHARED.reset(token)


def next_site(device: torch.device) -> tuple[Tensor, int]:
    """A seed [1] on the device, and the number of the layer that asks. Numbers are odd, which compiles kernels once."""
    shared = _SHARED.get()
    if shared is None:
        return _seed(device), 3
    if device not in shared.seeds:
        shared.seeds[device] = _seed(device)
    shared.uses += 1
    return shared.seeds[device], 2 * shared.uses + 1


def threshold(p: float) -> int:
    """How many of 65,536 equal chances are lost: p is rounded to a multiple of 2⁻¹⁶.

    >>> threshold(0.25)
    16384
    """
    return round(p * STEPS)


def kept_scale(lost: int) -> float:
    """What survivors are multiplied by, for a threshold.

    >>> kept_scale(16384)
    1.3333333333333333
    """
    return STEPS / (STEPS - lost)


def rows_of_a_draw(shape: Sequence[int], locked: bool) -> int:
    """How many neighbouring rows lose the same numbers: with `locked` all along the last axis but one, else each alone.

    >>> rows_of_a_draw((4, 7, 3), True), rows_of_a_draw((4, 7, 3), False), rows_of_a_draw((0, 3), True)
    (7, 1, 1)
    """
    return max(1, shape[-2]) if locked and len(shape) > 1 else 1


def _seed(device: torch.device) -> Tensor:
    return torch.randint(1 << 62, (1,), device=device)
