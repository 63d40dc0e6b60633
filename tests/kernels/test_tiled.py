"""Tiles of many queries: `compiled.py` builds all kernels for GPUs; `test_additive.py` runs them."""

import child
import pytest

from regard.kernels.tiled import blocks


def test_every_kernel_compiles() -> None:
    child.run("compiled.py", interpret=False, slow=False)


@pytest.mark.parametrize("sizes", [(2, 1, 1, 1), (40, 700, 100, 80), (512, 512, 256, 256)])
def test_tiles_are_powers_of_two_that_fit(sizes: tuple[int, int, int, int]) -> None:
    tiles = blocks(*sizes)
    found = {tiles.queries: sizes[0], tiles.keys: sizes[1], tiles.mix_keys: sizes[1], tiles.features: sizes[2]}
    for size, length in found.items():
        assert size & (size - 1) == 0
        assert 16 <= size <= 128
        assert size < 2 * max(length, 16)
