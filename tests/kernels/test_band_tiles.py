"""The edges of a band and the sizes of tiles; kernels that use them are run by `banded_cases.py`."""

import pytest
import torch

from regard.kernels import band_tiles
from regard.kernels.band_tiles import TILES, band_of, shifted_strides, tile_of
from regard.kernels.derivatives import by_key, visible_band


@pytest.mark.parametrize("seed", range(20))
def test_a_band_that_is_cut_is_the_same_band(seed: int) -> None:
    chance = torch.Generator().manual_seed(seed)
    q, k, before, after, block = (int(torch.randint(1, most, (), generator=chance)) for most in (9, 9, 40, 40, 40))
    band = band_of(q, k, before - 1, after - 1, block)
    assert torch.equal(
        visible_band(q, k, before - 1, after - 1, block), visible_band(q, k, band.before, band.after, band.block)
    )
    assert band.lift % band.block == 0
    assert band.lift >= q - k  # the first place is q − k before the first key
    assert max(band) <= 2 * (q + k)  # however far the band was said to go


def test_a_bias_of_distances_is_read_where_row_and_key_meet() -> None:
    bias = torch.arange(2 * 3 * 4 * 8.0).view(3, 2, 4, 8).transpose(0, 1)
    shifted = bias.as_strided((2, 3, 4, 5), (*shifted_strides(bias), 1), 3)
    assert torch.equal(shifted, by_key(bias, 5))
    assert shifted_strides(None) == (0, 0, 0)


def test_tiles_are_powers_of_two_and_not_longer_than_what_is_there() -> None:
    assert all(size & (size - 1) == 0 and size >= 16 for pair in TILES.values() for tile in pair for size in tile[:2])
    for kernel, dtype, width in (("forward", torch.bfloat16, 64), ("keys", torch.float32, 100)):
        few, many = torch.empty(1, 1, 20, width, dtype=dtype), torch.empty(1, 1, 500, width, dtype=dtype)
        small, large = tile_of(kernel, few, few, few, None), tile_of(kernel, many, many, many, many)
        assert max(small[:2]) <= 32
        assert small[0] <= large[0] <= 128


def test_chips_with_little_shared_memory_have_smaller_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    here = torch.device("cuda")
    for capability, expected in (((8, 0), True), ((8, 9), False), ((9, 0), True), ((12, 0), False)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _, capability=capability: capability)
        assert band_tiles._is_roomy.__wrapped__(here) is expected
