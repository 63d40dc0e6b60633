"""What the kernels can take, and what they say where they cannot."""

import pytest
import torch

from regard.kernels.limits import WIDEST, WIDEST_SINGLE, reasons_against_triton, width_limit


def test_one_query_leaves_more_room() -> None:
    assert [width_limit(queries) for queries in (1, 2, 100)] == [WIDEST_SINGLE, WIDEST, WIDEST]


def test_every_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    double, wide = torch.ones(1, 2, 3, dtype=torch.float64), torch.ones(1, 2, 257)
    reasons = reasons_against_triton("cpu", double, wide, wide)
    assert "device is cpu, not cuda" in reasons
    assert "query is torch.float64, not float32, bfloat16 or float16" in reasons
    assert "keys are 257 wide, more than 256" in reasons
    assert "values are 257 wide, more than 256" in reasons
    assert not any("wide" in reason for reason in reasons_against_triton("cpu", None, wide, wide, widest=WIDEST_SINGLE))


def test_the_interpreter_serves_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert not any("device" in reason for reason in reasons_against_triton("cpu"))
    assert "device is meta, not cuda" in reasons_against_triton("meta")
