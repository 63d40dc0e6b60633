"""Masks that leave a band of keys to each query: a few numbers, of which a fused kernel needs no tensor of pairs."""

from dataclasses import dataclass, field
from typing import Any, cast

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.attention.mask import Device, Mask
from regard.base import ConfigError
from regard.kernels.derivatives import transformed, visible_band


@dataclass(frozen=True, eq=False)
class Band(Mask):
    """Keys from `before` places before the query's block to `after` places behind the query.

    Blocks have `block_size` places and are counted from the first key; with blocks of 1 the band is a window. None is
    without end. `starts` [*b] is the number of the first key of each batch item that may be seen: keys before it are
    room that nothing has been written to. The last query stands at the last key.

    >>> Band(before=1, after=0, block_size=2).dense(4, 4).int()
    tensor([[1, 0, 0, 0],
            [1, 1, 0, 0],
            [0, 1, 1, 0],
            [0, 1, 1, 1]], dtype=torch.int32)
    """

    before: int | None = None
    after: int | None = None
    block_size: int = 1
    starts: Tensor | None = None
    key_padding: Mask | None = None
    _made: dict[Any, Tensor] = field(default_factory=dict, repr=False)  # the last tensor, which layers share

    def __post_init__(self) -> None:
        if self.block_size < 1 or any(side is not None and side < 0 for side in (self.before, self.after)):
            raise ConfigError(
                "a band of keys",
                got=f"before={self.before}, after={self.after}, block_size={self.block_size}",
                expected="before and after of 0 or more, or None; a block_size of 1 or more",
                cure="count positions, in whole numbers",
            )

    def dense(
        self, num_queries: int, num_keys: int, *, device: Device = None, rows: Tensor | None = None
    ) -> Bool[Tensor, "..."]:
        """The band as a tensor [*b q k], True = may attend."""
        keeps = rows is None and _may_keep(device)
        sizes = num_queries, num_keys, str(device), torch.is_inference_mode_enabled()
        if keeps and sizes in self._made:
            return self._made[sizes]
        seen = visible_band(
            num_queries, num_keys, self.before, self.after, self.block_size, self.starts, device=device, rows=rows
        )
        if self.key_padding is not None:
            seen = seen & self.key_padding.dense(num_queries, num_keys, device=device, rows=rows)
        if keeps:
            self._made.clear()
            self._made[sizes] = seen
        return seen

    def lengths(self, num_keys: int, device: torch.device) -> Tensor | None:
        """How many keys each batch item has, [*b]; None if all are there."""
        if self.key_padding is None:
            return None
        padding = cast(Any, self.key_padding)
        padding.check(num_keys)
        return cast(Tensor, padding.lengths.to(device))


def _may_keep(device: Device) -> bool:
    """Whether a tensor that is made now may be used later: not one of a compiled, transformed or captured call."""
    if torch.compiler.is_compiling() or transformed():
        return False
    return torch.device(device or "cpu").type != "cuda" or not torch.cuda.is_current_stream_capturing()


def band_of(mask: Mask | None) -> Band | None:
    """A mask as a band, or None for a mask that is not one.

    >>> band_of(Mask.causal())
    Band(before=None, after=0, block_size=1, starts=None, key_padding=None)
    """
    if mask is None or isinstance(mask, Band):
        return Band() if mask is None else mask
    simple = mask.simple()
    if simple is None:
        return None
    before, after = (None, None) if simple.window is None else simple.window
    return Band(before, 0 if simple.causal else after, key_padding=simple.padding)
