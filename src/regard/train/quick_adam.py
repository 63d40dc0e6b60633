"""The end of an update in few kernels: gradients of bfloat16 copies, clipping, Adam, and the copies renewed."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from regard.kernels.serving import serves

STEP = "step", "exp_avg", "exp_avg_sq"


class QuickAdam:
    """Does what collecting gradients, clipping, torch's Adam and publishing copies do, on the state of torch's Adam.

    So checkpoints stay those of torch's optimiser. `step` says whether it was done: the first update ever, which makes
    that state, and all that the kernel does not know, are left to the ordinary way.
    """

    def __init__(self, optimiser: torch.optim.Optimizer, used: list[nn.Parameter], full: list[nn.Parameter]) -> None:
        self.optimiser, self.used, self.full = optimiser, used, full
        self.table: Any = None
        self.rows: list[tuple[Tensor, ...]] | None = None

    def prepare(self) -> bool:
        """Whether `step` can do it; what it needs on the device is made, unless a graph is being captured."""
        if type(self.optimiser) not in (torch.optim.Adam, torch.optim.AdamW):
            return False
        if not self.used or not serves("adam", *self.used):
            return False
        self.rows = self._rows()
        return self.rows is not None and self._prepared(self.rows)

    def step(self, clip: float | None) -> bool:
        """One step from the gradients of `used`, which are gone then; False where it must be done in another way."""
        if not self.prepare() or self.rows is None:
            return False
        groups, rows = self.optimiser.param_groups, self.rows
        halves = [torch.zeros_like(used) if used.grad is None else used.grad for used in self.used]
        torch._foreach_copy_(self.table.views, halves)
        torch._foreach_add_([row[4] for row in rows], 1.0)
        from regard.kernels.adam import adam_step

        first, second = groups[0]["betas"]
        adam_step(
            self.table, rates=(1.0 - first, 1.0 - second), logs=(math.log(first), math.log(second)),
            eps=groups[0]["eps"], clip=clip, decoupled=type(self.optimiser) is torch.optim.AdamW,
        )  # fmt: skip
        for used in self.used:
            used.grad = None
        return True

    def _rows(self) -> list[tuple[Tensor, ...]] | None:
        """Weight, moments, copy, counter and rate of each parameter; None if one is not as the kernel wants it."""
        copies = {id(full): used for full, used in zip(self.full, self.used, strict=True)}
        groups, rows = self.optimiser.param_groups, {}
        for group in groups:
            rate, betas = group["lr"], group["betas"]
            plain = not (group["amsgrad"] or group["maximize"]) and min(betas) > 0.0
            alike = betas == groups[0]["betas"] and group["eps"] == groups[0]["eps"]
            if not (plain and alike and isinstance(rate, Tensor) and rate.dtype == torch.float32):
                return None
            for full in group["params"]:
                state, used = self.optimiser.state.get(full, {}), copies.get(id(full))
                if used is None or any(not isinstance(state.get(name), Tensor) for name in STEP):
                    return None
                step, *moments = (state[name] for name in STEP)
                row = (full.data, *moments, used.data, step, rate)
                kinds = [tensor.dtype for tensor in row]
                wanted = [torch.float32] * 3 + [torch.bfloat16] + [torch.float32] * 2
                here = all(tensor.device == used.device for tensor in row)
                if kinds != wanted or not here or not all(tensor.is_contiguous() for tensor in row):
                    return None
                rows[id(full)] = row
        return [rows[id(full)] for full in self.full] if len(rows) == len(self.full) else None

    def _prepared(self, rows: list[tuple[Tensor, ...]]) -> bool:
        """Whether the table is that of these tensors; it is made where no graph is being captured."""
        from regard.kernels.adam import Table, places_of

        device = rows[0][0].device
        if self.table is not None and self.table.places == places_of(rows):
            return True
        if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return False
        decays = {id(full): group["weight_decay"] for group in self.optimiser.param_groups for full in group["params"]}
        self.table = Table(rows, [decays[id(full)] for full in self.full], device)
        return True
