"""What kernels share: the rules as they are handed over. The parts inside kernels are run by `cases.py`."""

import torch

from regard.kernels.parts import contiguous_rows, flags, mask_strides, pointers, power_of_two, rules


def test_a_mask_that_spreads_is_not_copied() -> None:
    query, keys = torch.ones(3, 4, 2), torch.ones(3, 5, 2)
    allowed = torch.ones(3, 1, 5, dtype=torch.bool)
    made = rules(query, keys, None, allowed, None, 1, 2, 0.0)
    assert made.allowed is not None
    assert made.allowed.shape == (3, 4, 5)
    assert mask_strides(made) == (5, 0)
    assert made.allowed.data_ptr() == allowed.data_ptr()
    assert flags(made) == {"has_lengths": False, "has_allowed": True, "has_dropout": False}
    assert pointers(made, query) == (query, made.allowed, query)


def test_a_mask_spread_along_keys_is_made_whole() -> None:
    query, keys = torch.ones(3, 4, 2), torch.ones(3, 5, 2)
    made = rules(query, keys, None, torch.ones(1, 4, 1, dtype=torch.bool).expand(1, 4, 5), None, 1, 2, 0.0)
    assert made.allowed is not None
    assert made.allowed.stride() == (0, 5, 1)


def test_rows_are_contiguous_and_axes_stay_expanded() -> None:
    x = torch.ones(1, 4, 6).expand(3, 4, 6)
    assert contiguous_rows(x) is x
    assert contiguous_rows(x.mT).stride(-1) == 1


def test_powers_of_two() -> None:
    assert [power_of_two(number) for number in (1, 2, 3, 64, 65)] == [1, 2, 4, 64, 128]
