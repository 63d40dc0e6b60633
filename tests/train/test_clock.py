"""The clock of a training, on a time that the test moves by hand."""

import pytest
import torch

from regard.train.clock import Clock


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be changed by the test."""
    time = [100.0]
    monkeypatch.setattr("regard.train.clock.time.perf_counter", lambda: time[0])
    return time


def test_it_runs_inside_and_stands_still_outside(now: list[float]) -> None:
    clock = Clock(torch.device("cpu"))
    now[0] += 5
    assert clock.seconds == 0
    with clock:
        now[0] += 3
        assert clock.seconds == 3
        with clock.paused():
            now[0] += 50
            assert clock.seconds == 3
        now[0] += 1
    now[0] += 7
    assert clock.seconds == 4


def test_a_pause_outside_starts_nothing(now: list[float]) -> None:
    clock = Clock(torch.device("cpu"))
    clock.seconds = 12.0  # of a checkpoint
    with clock.paused():
        now[0] += 2
    now[0] += 2
    assert clock.seconds == 12
    with clock:
        now[0] += 1
    assert clock.seconds == 13
