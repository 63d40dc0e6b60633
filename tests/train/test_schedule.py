"""Rates in closed form."""

import math

import pytest

from regard.train import SCHEDULES, Train, learning_rate


def rates(steps: list[int], total: int = 100, **options: object) -> list[float]:
    settings = Train(steps=total, **options)  # type: ignore[arg-type]
    return [learning_rate(settings, step, step / total) for step in steps]


def test_the_rate_of_the_transformer() -> None:
    """Eq. (3) of Vaswani 2017: d^−½ · min(n^−½, n · w^−3⁄2), for d = 512 and w = 4000."""
    steps = [1, 10, 3999, 4000, 4001, 100_000]
    expected = [512**-0.5 * min(n**-0.5, n * 4000**-1.5) for n in steps]
    peak = (512 * 4000) ** -0.5
    for name in ("noam", "inverse_sqrt"):
        found = rates(steps, total=100_000, schedule=name, warmup=4000, lr=peak)
        assert found == pytest.approx(expected, rel=1e-12)
        assert max(found) == found[3] == pytest.approx(6.9877e-4, rel=1e-4)


def test_the_halving_of_luong() -> None:
    """Luong 2015, 4.1: twelve epochs; after eight the rate is halved every epoch."""
    epochs = [epoch * 100 + 50 for epoch in range(12)]
    found = rates(epochs, total=1200, schedule="halving", lr=1.0, hold=8 / 12, halvings=4)
    assert found == [1.0] * 8 + [0.5, 0.25, 0.125, 0.0625]
    ends = rates([799, 801, 1200], total=1200, schedule="halving", lr=1.0, hold=8 / 12, halvings=4)
    assert ends == [1.0, 0.5, 0.0625]
    assert rates([99, 100], schedule="halving", lr=1.0, hold=1.0) == [1.0, 0.5]
    assert rates([1, 100], schedule="halving", lr=1.0, halvings=0) == [1.0, 1.0]


def test_both_ends() -> None:
    assert rates([0, 50, 100], schedule="linear", lr=2.0) == pytest.approx([2.0, 1.0, 0.0])
    assert rates([0, 50, 100], schedule="linear", lr=2.0, floor=0.1) == pytest.approx([2.0, 1.1, 0.2])
    assert rates([0, 50, 100], schedule="cosine", lr=2.0) == pytest.approx([2.0, 1.0, 0.0])
    assert rates([0, 100], schedule="cosine", lr=2.0, floor=0.5) == pytest.approx([2.0, 1.0])
    assert rates([25], schedule="cosine", lr=2.0) == pytest.approx([1 + math.cos(math.pi / 4)])
    assert learning_rate(Train(schedule="cosine", lr=1.0, floor=0.1), 9, 1.7) == pytest.approx(0.1)  # beyond the end


@pytest.mark.parametrize("name", SCHEDULES)
def test_warm_up(name: str) -> None:
    cold, warm = (Train(schedule=name, lr=0.3, warmup=warmup) for warmup in (0, 10))
    assert [learning_rate(warm, step, 0.0) for step in (1, 5, 10)] == pytest.approx([0.03, 0.15, 0.3])
    assert learning_rate(cold, 1, 0.0) == pytest.approx(0.3)
    assert learning_rate(warm, 12, 0.0) <= 0.3


def test_plateau_and_constant() -> None:
    settings = Train(schedule="plateau", lr=0.4, factor=0.5)
    assert [learning_rate(settings, 7, 0.9, reductions) for reductions in (0, 1, 3)] == [0.4, 0.2, 0.05]
    assert learning_rate(Train(lr=0.4, factor=0.5), 7, 0.9, 3) == 0.4  # only the plateau counts reductions
