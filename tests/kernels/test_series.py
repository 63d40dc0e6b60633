"""Additive scores as sums of sines: `cases.py` runs the kernels; here what the series is worth, in float64."""

import math

import child
import pytest
import torch

from regard.kernels import series


@pytest.mark.slow
def test_by_interpreter() -> None:
    child.run("cases.py", "-k", "series", interpret=True)


@pytest.mark.parametrize("reach", [0.1, 1.0, 3.0, 6.0, 10.0, 15.0])
def test_a_few_sines_are_a_tanh(reach: float) -> None:
    """With L and M of the kernels, what is cut off and what comes next are below half a rounding of bfloat16 each."""
    period = max(reach, (reach + 3.8) / 2)
    rate = math.pi**2 / (2 * period)
    terms = math.ceil(math.log(2 * math.pi / (period * (1 - math.exp(-rate)) * 2**-9)) / rate - 0.5)
    assert 1 <= terms <= series.MOST_TERMS
    s = torch.linspace(-reach, reach, 2001, dtype=torch.float64)
    omega = (torch.arange(1, terms + 1, dtype=torch.float64) - 0.5) * math.pi / period
    made = torch.sin(s[:, None] * omega) @ (math.pi / period / torch.sinh(math.pi * omega / 2))
    assert (made - s.tanh()).abs().max() < 2**-9 + 2**-10


def test_small_and_exact_ones_go_another_way() -> None:
    tensors = [torch.zeros(8, 512, 64, dtype=kind) for kind in (torch.bfloat16, torch.float32, torch.float16)]
    assert [series.pays(x, x) for x in tensors] == [True, False, False]
    assert not series.pays(tensors[0][:, :100], tensors[0])
    assert not series.pays(tensors[0][:1], tensors[0][:1])
