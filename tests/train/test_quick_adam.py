"""Adam in one kernel: what it leaves to torch's own; the rest is in `tests/kernels/small_cases.py`."""

import pytest
import torch
from torch import nn

from regard.kernels import limits
from regard.train.mixed_precision import Masters
from regard.train.quick_adam import QuickAdam


def test_a_cpu_is_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CHOSEN_ON_A_GPU", limits.SMALL)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    masters = Masters(nn.Linear(3, 2), half=True)
    masters.start()
    optimiser = torch.optim.Adam(masters.full, lr=torch.tensor(0.1), foreach=False)
    quick = QuickAdam(optimiser, masters.used, masters.full)
    before = [full.detach().clone() for full in masters.full]
    for used in masters.used:
        used.grad = torch.ones_like(used)
    assert not quick.step(1.0)
    assert all(used.grad is not None for used in masters.used)
    assert all(torch.equal(full, old) for full, old in zip(masters.full, before, strict=True))


def test_without_parameters_there_is_nothing_to_do() -> None:
    parameter = nn.Parameter(torch.zeros(1))
    assert not QuickAdam(torch.optim.Adam([parameter]), [], []).step(None)
