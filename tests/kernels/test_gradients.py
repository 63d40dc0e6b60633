"""The backward pass in chunks; that gradients are right is in `cases.py`, which `test_additive.py` runs."""

import pytest

from regard.kernels.gradients import _chunk
from regard.kernels.tiled import Blocks

TILES = Blocks(queries=64, keys=64, chunk=2**20)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((4, 100, 100), (4, 100)),  # all at once
        ((4096, 100, 100), (64, 100)),  # padded to 128 × 128
        ((2, 2000, 2000), (1, 512)),  # 512 × 2048
        ((2, 2000, 2**22), (1, 64)),  # a row of tiles at least
    ],
)
def test_chunks_are_bounded(sizes: tuple[int, int, int], expected: tuple[int, int]) -> None:
    assert _chunk(*sizes, TILES) == expected
