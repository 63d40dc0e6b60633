"""The rules as they are handed to kernels; what is inside kernels is run by `cases.py`."""

import torch

from regard.kernels.limits import EVERYWHERE
from regard.kernels.masks import Chunk, flags, mask_strides, pointers, rules


def test_a_mask_that_spreads_is_not_copied() -> None:
    query, keys = torch.ones(3, 4, 2), torch.ones(3, 5, 2)
    allowed = torch.ones(3, 1, 5, dtype=torch.bool)
    made = rules(query, keys, None, allowed, None, 1, 2, 0.0)
    assert made.allowed is not None
    assert made.allowed.shape == (3, 4, 5)
    assert mask_strides(made) == (5, 0)
    assert made.allowed.data_ptr() == allowed.data_ptr()
    assert flags(made) == {"has_lengths": False, "has_window": True, "has_allowed": True, "has_dropout": False}
    assert not flags(rules(query, keys, None, allowed, None, EVERYWHERE, EVERYWHERE, 0.0))["has_window"]
    assert pointers(made, query) == (query, made.allowed, query)


def test_a_mask_spread_along_keys_is_made_whole() -> None:
    query, keys = torch.ones(3, 4, 2), torch.ones(3, 5, 2)
    made = rules(query, keys, None, torch.ones(1, 4, 1, dtype=torch.bool).expand(1, 4, 5), None, 1, 2, 0.0)
    assert made.allowed is not None
    assert made.allowed.stride() == (0, 5, 1)


def test_a_chunk_knows_where_it_lies() -> None:
    all_rules = rules(
        torch.ones(4, 6, 2), torch.ones(4, 9, 2), torch.arange(4), torch.ones(4, 6, 9).bool(), None, 5, 0, 0.0
    )
    chunk = Chunk(slice(1, 3), slice(2, 6))
    assert chunk.at(6, 9) == (5, 1, 2)  # its first row is the third: with nine keys it is at the place of the sixth
    some = all_rules.of(chunk)
    assert some.lengths is not None
    assert some.allowed is not None
    assert some.lengths.tolist() == [1, 2]
    assert some.allowed.shape == (2, 4, 9)
