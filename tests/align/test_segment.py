"""Alignments over an edge list: equal to a loop over rows, with the same rules for masks and empty rows."""

import math

import pytest
import torch
from examples_of import ALIGN_EXAMPLES, edge_aligns
from table import cases
from torch import Tensor

from regard.align import (
    Align,
    Alignment,
    Entmax,
    Hard,
    LocalMonotonic,
    Monotonic,
    Segments,
    Softmax,
    Sparsemax,
    TopK,
)
from regard.align.segment import ROWS
from regard.base import ConfigError, MaskError, ShapeError

MAKE = edge_aligns(
    4,
    cold=lambda: Softmax(0.1),
    hot=lambda: Softmax(50.0),
    entmax_near_softmax=lambda: Entmax(1.3),
    entmax_2=lambda: Entmax(2.0),
    entmax_learned=lambda: Entmax(1.7, learned=True),
    top_k_sparsemax=lambda: TopK(2, base=Sparsemax()),
)
every_align = cases("name", MAKE)
SUM_TO_ONE = [name for name, example in ALIGN_EXAMPLES.items() if example.sums_to_one and example.over_edges]
SUM_TO_ONE += ["cold", "entmax_near_softmax", "entmax_2", "entmax_learned"]


def random_segments(num_edges: int, num_rows: int, seed: int = 0) -> Segments:
    return Segments(torch.randint(num_rows, (num_edges,), generator=torch.Generator().manual_seed(seed)), num_rows)


def by_rows(align: Align, scores: Tensor, segments: Segments, mask: Tensor | None = None) -> Tensor:
    """The dense form, one row after the other."""
    weights = torch.zeros_like(scores)
    for row in segments.rows.unique().tolist():
        members = segments.rows == row
        inside = None if mask is None else mask[..., members].unsqueeze(-2)
        weights[..., members] = align(scores[..., members].unsqueeze(-2), inside).weights.squeeze(-2)
    return weights


@cases("name", ALIGN_EXAMPLES)
def test_an_alignment_has_an_edge_form_where_its_page_says_so(name: str) -> None:
    example = ALIGN_EXAMPLES[name]
    assert example(4).has_edge_form == example.over_edges


@every_align
@cases("lead", [(), (2,), (2, 3)], ids=str)
@cases("scale", [1e-3, 1.0, 100.0])
def test_weights_and_gradients_equal_a_loop_over_rows(name: str, lead: tuple[int, ...], scale: float) -> None:
    align, segments = MAKE[name]().double(), random_segments(30, 8)
    scores = (scale * torch.randn(*lead, 30, dtype=torch.float64)).requires_grad_()
    mask = torch.rand(*lead, 30) < 0.8
    for allowed in (None, mask):
        ours, theirs = align.on_edges(scores, segments, allowed).weights, by_rows(align, scores, segments, allowed)
        torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=1e-12)
        if ours.requires_grad:
            weight, variables = torch.randn_like(scores), [scores, *align.parameters()]
            mine = torch.autograd.grad((ours * weight).sum(), variables)
            for one, other in zip(mine, torch.autograd.grad((theirs * weight).sum(), variables), strict=True):
                torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)


@every_align
@cases("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_any_type(name: str, dtype: torch.dtype) -> None:
    align, segments = MAKE[name](), random_segments(30, 8)
    scores = torch.randn(2, 30).to(dtype)
    weights = align.on_edges(scores, segments).weights
    assert weights.dtype == dtype
    torch.testing.assert_close(weights, by_rows(align, scores, segments), atol=1e-6, rtol=1e-2)


@every_align
@cases("junk", [5.0, math.nan, math.inf, -math.inf])
def test_masked_edges_equal_removed_edges(name: str, junk: float) -> None:
    align, segments, scores = MAKE[name](), random_segments(30, 8), torch.randn(30)
    mask = torch.rand(30) < 0.6
    scores[~mask] = junk
    weights = align.on_edges(scores, segments, mask).weights
    fewer = align.on_edges(scores[mask], Segments(segments.rows[mask], 8)).weights
    torch.testing.assert_close(weights[mask], fewer)
    assert (weights[~mask] == 0).all()
    if junk == -math.inf:
        torch.testing.assert_close(align.on_edges(scores, segments).weights, weights, atol=0, rtol=0)


@every_align
@cases("dtype", [torch.float64, torch.float32, torch.float16], ids=str)
def test_empty_rows_are_zero_with_zero_gradient(name: str, dtype: torch.dtype) -> None:
    align, segments = MAKE[name](), Segments(torch.tensor([2, 0, 2, 0, 2]), 4)
    scores = torch.tensor([1.0, -math.inf, 3.0, -math.inf, 0.5], dtype=dtype, requires_grad=True)
    weights = align.on_edges(scores, segments).weights
    assert weights[[1, 3]].tolist() == [0.0, 0.0]
    if weights.requires_grad:
        (weights * torch.arange(5)).sum().backward()
        assert scores.grad[[1, 3]].tolist() == [0.0, 0.0]
        assert scores.grad.isfinite().all()


@every_align
def test_no_edges_and_no_rows(name: str) -> None:
    for num_rows in (0, 3):
        scores = torch.zeros(2, 0, requires_grad=True)
        result = MAKE[name]().on_edges(scores, Segments(torch.zeros(0, dtype=torch.long), num_rows))
        assert result.weights.shape == (2, 0)


@cases("name", [*SUM_TO_ONE, "normalize", "share", "identity"])
def test_infinite_scores_take_the_row(name: str) -> None:
    scores = torch.tensor([1.0, math.inf, 2.0, 7.0, math.inf, math.inf], requires_grad=True)
    weights = MAKE[name]().on_edges(scores, Segments(torch.tensor([0, 0, 0, 1, 2, 2]), 3)).weights
    alone = 7.0 if name in ("share", "identity") else 1.0
    torch.testing.assert_close(weights, torch.tensor([0, 1, 0, alone, *((1, 0) if name == "hard" else (0.5, 0.5))]))
    if weights.requires_grad:
        (weights * torch.arange(6)).sum().backward()
        assert scores.grad.isfinite().all()


@cases("name", SUM_TO_ONE)
def test_rows_sum_to_one(name: str) -> None:
    segments = random_segments(1000, 90)
    sums = segments.sums(MAKE[name]().on_edges(5 * torch.randn(3, 1000), segments).weights)
    torch.testing.assert_close(sums, torch.ones(3, 90))


@cases("name", sorted(set(MAKE) - {"hard", "top_k_sparsemax"}))
def test_gradients_agree_with_finite_differences(name: str) -> None:
    align, segments = MAKE[name]().double(), random_segments(9, 4)
    scores = (torch.rand(2, 9, dtype=torch.float64) + 0.1).requires_grad_()
    assert torch.autograd.gradcheck(lambda scores: align.on_edges(scores, segments).weights, scores)


@cases("name", ["softmax", "entmax", "sparsemax", "normalize", "share", "identity", "sigmoid"])
def test_second_derivatives(name: str) -> None:
    align, segments = MAKE[name]().double(), random_segments(6, 3)
    scores = (torch.rand(6, dtype=torch.float64) + 0.1).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda scores: align.on_edges(scores, segments).weights, scores)


@every_align
def test_the_order_of_edges_does_not_matter(name: str) -> None:
    align, segments, scores, order = MAKE[name](), random_segments(40, 9), torch.randn(2, 40), torch.randperm(40)
    mixed = align.on_edges(scores[:, order], Segments(segments.rows[order], 9)).weights
    torch.testing.assert_close(mixed, align.on_edges(scores, segments).weights[:, order])


def test_equal_scores_take_the_first_edges() -> None:
    segments = Segments(torch.tensor([1, 0, 1, 1, 0]), 2)
    assert Hard().on_edges(torch.zeros(5), segments).weights.tolist() == [1.0, 1.0, 0.0, 0.0, 0.0]
    assert TopK(2).on_edges(torch.zeros(5), segments).weights.tolist() == [0.5, 0.5, 0.5, 0.0, 0.5]


def test_sparsemax_of_a_long_row_is_as_exact_as_the_dense_one() -> None:
    """A running sum over all edges would lose the later rows: here it would pass 10⁵, while a threshold is below 1."""
    segments = random_segments(200_000, 50)
    scores = torch.rand(200_000)
    exact = Sparsemax().on_edges(scores.double(), segments).weights
    torch.testing.assert_close(Sparsemax().on_edges(scores, segments).weights.double(), exact, atol=1e-6, rtol=0)
    torch.testing.assert_close(segments.sums(exact), torch.ones(50, dtype=torch.float64))


@cases("estimator", ["straight_through", "gumbel", "gumbel_straight_through", "sample"])
def test_hard_estimators_draw_as_the_softmax_says(estimator: str) -> None:
    align, segments = Hard(estimator, temperature=0.5), Segments(torch.tensor([0, 1, 0, 1, 0]), 3)
    scores = torch.tensor([0.0, 1.0, 1.0, 0.0, -1.0]).expand(20_000, 5).clone().requires_grad_()
    result = align.on_edges(scores, segments)
    torch.testing.assert_close(segments.sums(result.weights), torch.tensor([1.0, 1.0, 0.0]).expand(20_000, 3))
    soft = Softmax().on_edges(scores[0], segments).weights
    drawn = segments.largest(result.weights) == result.weights  # the largest weight of a relaxed sample is its draw
    torch.testing.assert_close(drawn.float().mean(0), soft.detach(), atol=0.02, rtol=0)
    if estimator == "sample":
        log_prob = segments.sums(result.weights * soft.log())
        torch.testing.assert_close(result.log_prob, log_prob)
        torch.testing.assert_close(result.entropy[0], -segments.sums(soft * soft.log()))
        assert (result.log_prob[:, 2] == 0).all()
        assert (result.entropy[:, 2] == 0).all()
    else:
        (result.weights * torch.arange(5)).sum().backward()
        assert scores.grad.abs().max() > 0


def test_an_alpha_for_each_head() -> None:
    align, segments = Entmax(1.5, learned=True, num_heads=2), random_segments(20, 5)
    with torch.no_grad():
        align.theta[1] += 2.0
    scores = torch.randn(3, 2, 20)
    weights = align.on_edges(scores, segments).weights
    torch.testing.assert_close(weights, by_rows(align, scores, segments))
    with pytest.raises(ShapeError, match=r"an alpha for each head: got \[3, 20\]; expected \[..., 2, e\]"):
        align.on_edges(scores[:, 0], segments)


def test_both_forms_have_the_same_methods() -> None:
    """On one row per group of five the two reductions give the same numbers."""
    x, segments = torch.randn(4, 3, 5), Segments(torch.arange(3).repeat_interleave(5), 3)
    flat = x.flatten(1)
    assert {name for name in dir(ROWS) if name[0] != "_"} <= set(dir(segments))
    torch.testing.assert_close(segments.sums(flat), ROWS.sums(x))
    for method in ("softmax", "log_softmax", "first_largest"):
        torch.testing.assert_close(getattr(segments, method)(flat).reshape(x.shape), getattr(ROWS, method)(x))
    for method in ("total", "largest", "zeros"):
        torch.testing.assert_close(
            getattr(segments, method)(flat).reshape(x.shape), getattr(ROWS, method)(x).expand(x.shape)
        )
    assert (segments.size(flat) == ROWS.size(x)).all()
    assert torch.equal(segments.best(flat, 2).reshape(x.shape), ROWS.best(x, 2))
    z = x - ROWS.largest(x)
    assert torch.equal(segments.simplex_support(z.flatten(1)).reshape(x.shape), ROWS.simplex_support(z))


def test_refused() -> None:
    segments, scores = random_segments(6, 3), torch.randn(6)
    for align in (Monotonic(), LocalMonotonic(2)):
        text = f"{type(align).__name__} has no edge form: expected an alignment to which the place of a key does not"
        with pytest.raises(ConfigError, match=text):
            align.on_edges(scores, segments)
    with pytest.raises(ConfigError, match="Monotonic has no edge form"):
        TopK(2, base=Monotonic()).on_edges(scores, segments)
    with pytest.raises(ConfigError, match="a plain function aligns rows, not edges: got mean; expected an Align"):
        TopK(2, base=mean).on_edges(scores, segments)
    with pytest.raises(ShapeError, match="scores and edges do not fit: got 5 scores and 6 edges"):
        Softmax().on_edges(scores[:5], segments)
    with pytest.raises((MaskError, TypeError)):  # the import hook may be faster
        Softmax().on_edges(scores, segments, torch.ones(6))


def mean(scores: Tensor, mask: Tensor | None) -> Tensor:
    return torch.ones_like(scores) / scores.shape[-1]


def test_a_new_forward_takes_the_edge_form_away() -> None:
    class Halved(Softmax):
        def forward(self, scores: Tensor, mask: Tensor | None = None) -> Alignment:
            return Alignment(super().forward(scores, mask).weights / 2)

    class Both(Halved):
        def align_edges(self, scores: Tensor, segments: Segments, mask: Tensor | None = None) -> Alignment:
            return Alignment(super().align_edges(scores, segments, mask).weights / 2)

    class Named(Softmax):
        """Neither is new, so both are those of the softmax."""

    kinds = (Halved, Both, Softmax, Named)
    assert [kind.has_edge_form for kind in kinds] == [False, True, True, True]
    torch.testing.assert_close(Both().on_edges(torch.zeros(2), random_segments(2, 1)).weights, torch.full((2,), 0.25))


def test_equal_scores_of_many_edges_take_the_first() -> None:
    segments = random_segments(2000, 5)
    kept = TopK(3).on_edges(torch.zeros(2, 2000), segments).weights > 0
    for row in range(5):
        members = segments.rows == row
        assert kept[:, members].int().tolist() == [[1] * 3 + [0] * (int(members.sum()) - 3)] * 2


@every_align
def test_the_default_device_plays_no_part(name: str) -> None:
    align, segments, scores = MAKE[name](), random_segments(30, 8), torch.randn(2, 30)
    expected = align.on_edges(scores, segments).weights
    with torch.device("meta"):  # a tensor that is made without a device of its own is there, and has no numbers
        assert torch.equal(align.on_edges(scores, segments).weights, expected)
