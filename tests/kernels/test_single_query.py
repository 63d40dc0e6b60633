"""One query: `cases.py` by Triton's interpreter; on a GPU, `test_additive.py` runs all cases."""

import child
import pytest

from regard.kernels.single_query import _sizes


def test_single_query() -> None:
    child.run("cases.py", "-k", "single", interpret=True, slow=False)


@pytest.mark.parametrize("most_warps", [8, 16])
def test_tiles_do_not_grow_with_the_widths(most_warps: int) -> None:
    for features, depth in ((1, 1), (100, 3), (256, 256), (1000, 2000), (2048, 7)):
        sizes = _sizes(features, depth, None, most_warps=most_warps)
        assert sizes["padded_features"] >= features
        assert sizes["padded_depth"] >= depth
        assert sizes["block"] >= 4
        tile = sizes["block"] * max(sizes["padded_features"], sizes["padded_depth"])
        assert tile <= 32 * 32 * sizes["num_warps"] <= 1024 * most_warps
