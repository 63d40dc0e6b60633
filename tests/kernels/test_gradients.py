"""The backward pass: that gradients are right is in `cases.py`, which `test_additive.py` runs."""

import pytest

from regard.kernels.tiled import Blocks, chunks

TILES = Blocks(queries=64, keys=64)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((4, 100, 100), (4, 100, 1)),  # all at once
        ((4096, 100, 100), (64, 100, 64)),  # padded to 128 × 128
        ((2, 2000, 2000), (1, 512, 8)),  # 512 × 2048
        ((2, 100, 2**22), (1, 64, 4)),  # a row of tiles at least
    ],
)
def test_chunks_are_bounded_and_cover_all(sizes: tuple[int, int, int], expected: tuple[int, int, int]) -> None:
    parts = list(chunks(*sizes, TILES, 2**20))
    first = parts[0]
    assert (first.items.stop, first.rows.stop, len(parts)) == expected
    covered = {(item, row) for part in parts for item in (part.items.start, part.items.stop - 1)
               for row in range(part.rows.start, part.rows.stop)}  # fmt: skip
    assert covered >= {(item, row) for item in (0, sizes[0] - 1) for row in range(sizes[1])}
    assert parts[-1].at(sizes[1], sizes[2])[0] == sizes[2] - sizes[1] + parts[-1].rows.start
