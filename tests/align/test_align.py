"""What every alignment has in common: dtype, leading axes, masks, empty rows."""

import math
from collections.abc import Callable

import pytest
import torch
from examples_of import ALIGN_EXAMPLES, aligns, without_row
from table import cases
from torch import Tensor

from regard import Attention
from regard.align import (
    ALIGNS,
    ESTIMATORS,
    Align,
    Entmax,
    Hard,
    LocalMonotonic,
    LocalPredictive,
    Monotonic,
    Softmax,
    Sparsemax,
    TopK,
)
from regard.align.align import masked_scores
from regard.align.softmax import softmax
from regard.base import ConfigError, MaskError
from regard.score import Dot

MAKE = aligns(
    4,
    cold=lambda: Softmax(0.1),
    entmax_near_softmax=lambda: Entmax(1.3),
    entmax_learned=lambda: Entmax(1.7, learned=True),
    top_k_sparsemax=lambda: TopK(2, base=Sparsemax()),
    sample=lambda: Hard("sample"),
    monotonic_hard=lambda: Monotonic().eval(),
)
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
every_align = cases("name", MAKE)
by_content = cases("name", [name for name in MAKE if not name.startswith("local")])
SUM_TO_ONE = [name for name, example in ALIGN_EXAMPLES.items() if example.sums_to_one]
SUM_TO_ONE += ["normalize", "cold", "entmax_near_softmax", "entmax_learned"]
sum_to_one = cases("name", SUM_TO_ONE)
takes_the_row = cases(  # those that mix with the weights before, or move them, do not
    "name", [name for name in SUM_TO_ONE if "previous" not in MAKE[name]().needs]
)


def _weights(align: Align, scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Local-p takes a query: the first four scores of each row stand in for it."""
    return align(scores, mask, **({"query": scores[..., :4].float()} if "query" in align.needs else {})).weights


def test_every_alignment_of_the_menu_has_a_row_on_its_page() -> None:
    missing = without_row(ALIGNS, ALIGN_EXAMPLES.values())
    assert not missing, f"docs/alignments.md has no row for {', '.join(missing)}, so the tests of all leave it out"


@every_align
@cases("dtype", DTYPES)
def test_weights_have_the_dtype_of_the_scores(name: str, dtype: torch.dtype) -> None:
    scores = torch.randn(2, 3, 5, dtype=dtype)
    weights = _weights(MAKE[name](), scores)
    assert weights.dtype == dtype
    assert weights.shape == scores.shape
    assert (weights >= 0).all() or name in ("share", "identity")


@every_align
@cases("lead", [(), (2,), (2, 3), (2, 1, 3)])
def test_leading_axes_equal_a_loop(name: str, lead: tuple[int, ...]) -> None:
    align = MAKE[name]()
    if name == "sample":
        align.eval()
    scores, mask = torch.randn(*lead, 4, 5), torch.rand(*lead, 4, 5) < 0.7
    parts = [_weights(align, s, m) for s, m in zip(scores.reshape(-1, 4, 5), mask.reshape(-1, 4, 5), strict=True)]
    expected = torch.stack(parts).reshape(*lead, 4, 5)
    torch.testing.assert_close(_weights(align, scores, mask), expected)


@every_align
def test_a_mask_broadcasts(name: str) -> None:
    align, scores, mask = MAKE[name]().eval(), torch.randn(2, 3, 4, 5), torch.rand(5) < 0.7
    expected = _weights(align, scores, mask.expand(2, 3, 4, 5).clone())
    torch.testing.assert_close(_weights(align, scores, mask), expected)
    assert (expected[..., ~mask] == 0).all()


@by_content
@cases("score_of_junk", [5.0, math.nan, math.inf, -math.inf])
def test_masked_keys_equal_removed_keys(name: str, score_of_junk: float) -> None:
    align, scores = MAKE[name]().eval(), torch.randn(3, 6)
    mask = torch.tensor([True, False, True, True, False, True])
    scores[:, ~mask] = score_of_junk
    weights = _weights(align, scores, mask)
    torch.testing.assert_close(weights[:, mask], _weights(align, scores[:, mask]))
    assert (weights[:, ~mask] == 0).all()


@by_content
def test_score_of_minus_infinity_is_a_mask(name: str) -> None:
    align, scores, mask = MAKE[name]().eval(), torch.randn(3, 6), torch.rand(3, 6) < 0.6
    expected = _weights(align, scores, mask)
    torch.testing.assert_close(_weights(align, scores.masked_fill(~mask, -math.inf)), expected, rtol=0, atol=0)


@cases("name", ["softmax", "cold", "sparsemax", "entmax", "entmax_near_softmax", "entmax_learned", "top_k", "hard"])
@cases("dtype", [torch.float32, torch.bfloat16])
def test_lowest_finite_score_beats_a_mask(name: str, dtype: torch.dtype) -> None:
    lowest = torch.finfo(dtype).min
    scores, mask = torch.tensor([[lowest, lowest, 0.0]], dtype=dtype), torch.tensor([[True, False, False]])
    assert MAKE[name]()(scores, mask).weights.tolist() == [[1.0, 0.0, 0.0]]


@takes_the_row
@cases("dtype", DTYPES)
def test_infinite_score_takes_the_row(name: str, dtype: torch.dtype) -> None:
    scores = torch.tensor([[1.0, math.inf, 2.0], [math.inf, -math.inf, 60000.0]], dtype=dtype, requires_grad=True)
    weights = MAKE[name]()(scores).weights
    assert weights.tolist() == [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    if weights.requires_grad:
        (weights * torch.arange(3)).sum().backward()
        assert scores.grad.isfinite().all()


@takes_the_row
def test_infinite_scores_share_the_row(name: str) -> None:
    scores = torch.tensor([[math.inf, 1.0, math.inf]])
    expected = [[1.0, 0.0, 0.0]] if name == "hard" else [[0.5, 0.0, 0.5]]
    torch.testing.assert_close(MAKE[name]()(scores).weights, torch.tensor(expected))


@sum_to_one
def test_rows_sum_to_one(name: str) -> None:
    scores, mask = torch.randn(50, 4, 7).abs(), torch.rand(50, 4, 7) < 0.5
    sums = MAKE[name]()(scores, mask).weights.sum(-1)
    torch.testing.assert_close(sums, mask.any(-1).float())


@every_align
@cases("dtype", DTYPES)
@cases("by", ["mask", "scores"])
def test_empty_row_is_zero_with_zero_gradient(name: str, dtype: torch.dtype, by: str) -> None:
    scores, mask = torch.randn(2, 3, 5, dtype=dtype), torch.ones(2, 3, 5, dtype=torch.bool)
    if by == "mask":
        mask[:, 1] = False
    else:
        scores[:, 1] = -math.inf
    scores.requires_grad_()
    align = MAKE[name]()
    query = {"query": torch.ones(2, 3, 4)} if "query" in align.needs else {}
    weights = align(scores, mask, **query).weights
    assert (weights[:, 1] == 0).all()
    if weights.requires_grad:
        (weights * torch.arange(5)).sum().backward()
        assert (scores.grad[:, 1] == 0).all()
        assert scores.grad.isfinite().all()
        assert all(p.grad.isfinite().all() for p in align.parameters())


@cases("name", ["softmax", "sparsemax", "entmax", "entmax_near_softmax", "entmax_learned", "sigmoid", "top_k"])
def test_gradients_agree_with_finite_differences(name: str) -> None:
    align = MAKE[name]().double()
    scores = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    mask = torch.rand(2, 3, 5) < 0.8
    assert torch.autograd.gradcheck(lambda scores: align(scores, mask).weights, scores)


@cases("name", [name for name in MAKE if not name.startswith(("local", "monotonic", "shift"))])
def test_permuting_keys_permutes_weights(name: str) -> None:
    align, scores, order = MAKE[name]().eval(), torch.randn(2, 3, 6), torch.randperm(6)
    torch.testing.assert_close(_weights(align, scores[..., order]), _weights(align, scores)[..., order])


@every_align
def test_no_query_gives_no_row(name: str) -> None:
    assert _weights(MAKE[name](), torch.zeros(2, 0, 5)).shape == (2, 0, 5)


def test_rows_are_finite_and_float32_or_better() -> None:
    scores = torch.tensor([[math.inf, -math.inf, 1.0]], dtype=torch.float16)
    filled, allowed = masked_scores(scores, None)
    assert filled.dtype == torch.float32
    assert filled.isfinite().all()
    assert allowed.tolist() == [[True, False, True]]
    assert masked_scores(scores.double(), None)[0].dtype == torch.float64


@cases("name", ["softmax", "hard"])
def test_a_mask_must_be_boolean(name: str) -> None:
    with pytest.raises((MaskError, TypeError)):  # the import hook may be faster
        MAKE[name]()(torch.zeros(1, 3), torch.ones(1, 3))


@cases(
    "make",
    [
        lambda: Softmax(0.0),
        lambda: Softmax(-1.0),
        lambda: Entmax(1.0),
        lambda: Entmax(2.5),
        lambda: Entmax(2.0, learned=True),
        lambda: Entmax(num_heads=2),
        lambda: Entmax(learned=True, num_heads=0),
        lambda: TopK(0),
        lambda: Hard(temperature=0.0),
        lambda: LocalMonotonic(-1),
        lambda: LocalPredictive(4, window=0),
        lambda: LocalPredictive(0),
        lambda: Monotonic(noise=-0.1),
    ],
)
def test_settings_out_of_range_are_refused(make: type) -> None:
    with pytest.raises(ConfigError):
        make()


@every_align
def test_repr_names_the_class(name: str) -> None:
    align = MAKE[name]()
    assert repr(align).startswith(type(align).__name__ + "(")


def test_estimators_are_listed() -> None:
    assert ESTIMATORS == ("argmax", "straight_through", "gumbel", "gumbel_straight_through", "sample")


NESTED = {
    "top_k of local-m": lambda: TopK(2, base=LocalMonotonic(1)),
    "top_k of monotonic": lambda: TopK(2, base=Monotonic()),
    "local-m of monotonic": lambda: LocalMonotonic(1, base=Monotonic()),
    "local-p of local-m": lambda: LocalPredictive(4, window=2, base=LocalMonotonic(1)),
    "local-p of a function": lambda: LocalPredictive(4, window=2, base=softmax),
    "top_k of local-p": lambda: TopK(2, base=LocalPredictive(4, window=2)),
}


@cases("make", NESTED.values(), ids=NESTED)
def test_history_reaches_the_alignment_inside(make: Callable[[], Align]) -> None:
    layer = Attention(Dot(), make()).eval()
    query, keys = torch.randn(2, 4, 4), torch.randn(2, 5, 4)
    whole = layer(query, keys, keys).weights
    previous = None
    for t in range(4):
        row = layer(query[:, t : t + 1], keys, keys, previous=previous, step=t).weights
        previous = row[:, 0]
        torch.testing.assert_close(row[:, 0], whole[:, t])


@every_align
def test_the_default_device_plays_no_part(name: str) -> None:
    align, scores, mask = MAKE[name]().eval(), torch.randn(2, 3, 6), torch.rand(2, 3, 6) < 0.7
    expected = _weights(align, scores, mask)
    with torch.device("meta"):  # a tensor that is made without a device of its own is there, and has no numbers
        assert torch.equal(_weights(align, scores, mask), expected)


@every_align
@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
def test_an_empty_row_makes_no_nan_on_the_way(name: str) -> None:
    scores = torch.tensor([[1.0, 2.0, 3.0, 4.0]] * 2, requires_grad=True)
    mask = torch.tensor([[True, True, False, True], [False] * 4])
    with torch.autograd.detect_anomaly():
        weights = _weights(MAKE[name](), scores, mask)
        if weights.requires_grad:
            weights.square().sum().backward()


def test_scores_up_to_an_eighth_of_the_largest_number_stay_as_they_are() -> None:
    scores = torch.tensor([[4.2e37, 4.1e37, -4.2e37]])
    assert torch.equal(masked_scores(scores, None)[0], scores)
    assert softmax(scores).tolist() == [[1.0, 0.0, 0.0]]
