"""What kernels are launched with."""

import torch

from regard.kernels.launch import contiguous_rows, on, power_of_two


def test_rows_are_contiguous_and_axes_stay_expanded() -> None:
    x = torch.ones(1, 4, 6).expand(3, 4, 6)
    assert contiguous_rows(x) is x
    assert contiguous_rows(x.mT).stride(-1) == 1


def test_powers_of_two() -> None:
    assert [power_of_two(number) for number in (1, 2, 3, 64, 65)] == [1, 2, 4, 64, 128]


def test_a_launch_on_a_cpu_changes_no_device() -> None:
    with on(torch.ones(1)) as nothing:
        assert nothing is None
