"""The backward pass over a band: that gradients are right is in `banded_cases.py`, which `test_banded.py` runs."""

import torch

from regard.kernels.banded import _gradients


def test_gradients_lie_in_memory_as_their_tensors() -> None:
    """So the products of matrices behind them read them without a copy."""
    query, keys, values = (torch.empty(2, 5, 3, 4).transpose(1, 2) for _ in range(3))
    bias = torch.empty(3, 2, 5, 6).transpose(0, 1)
    room = _gradients(query, keys.expand(2, 3, 5, 4), values[:1].expand(2, -1, -1, -1), bias, True)
    assert [x.stride() for x in (room[0], room[3])] == [query.stride(), bias.stride()]
    assert all(x.stride(-1) == 1 for x in room)
    assert len({x.data_ptr() for x in room}) == 4
    assert room[2].stride(0) > 0  # every item has a gradient of its own, though they share the values
    assert _gradients(query, keys, values, bias, False)[3].numel() == 0
