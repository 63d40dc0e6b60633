"""One query: `cases.py` by Triton's interpreter; on a GPU, `test_additive.py` runs all cases."""

import child

from regard.kernels.single_query import _sizes


def test_single_query() -> None:
    child.run("cases.py", "-k", "single", interpret=True)


def test_tiles_do_not_grow_with_the_widths() -> None:
    for features, depth in ((1, 1), (100, 3), (256, 256)):
        sizes = _sizes(features, depth, None)
        assert sizes["padded_features"] >= features
        assert sizes["padded_depth"] >= depth
        assert sizes["block"] * max(sizes["padded_features"], sizes["padded_depth"]) <= 4096
