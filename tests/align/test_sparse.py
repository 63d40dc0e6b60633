"""Sparsemax and α-entmax, against the published package."""

import entmax as published
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from table import cases
from torch import Tensor

from regard.align import Entmax, Segments, Sparsemax, entmax, softmax, sparsemax
from regard.align.segment import ROWS
from regard.base import ConfigError, ShapeError

PAIRS = {
    "sparsemax": (sparsemax, published.sparsemax),
    "1.5": (entmax, published.entmax15),
    "1.25": (lambda z: entmax(z, alpha=1.25), lambda z: published.entmax_bisect(z, alpha=1.25)),
    "1.75": (lambda z: entmax(z, alpha=1.75), lambda z: published.entmax_bisect(z, alpha=1.75)),
}


def _with_gradient(align: object, scores: Tensor, cotangent: Tensor) -> tuple[Tensor, Tensor]:
    scores = scores.clone().requires_grad_()
    weights = align(scores)
    return weights.detach(), *torch.autograd.grad(weights, scores, cotangent)


def test_golden_values() -> None:
    scores = torch.tensor([[-2.0, 0.0, 0.5]])
    torch.testing.assert_close(sparsemax(scores), torch.tensor([[0.0, 0.25, 0.75]]))
    torch.testing.assert_close(entmax(scores), torch.tensor([[0.0, 0.3260, 0.6740]]), rtol=0, atol=5e-5)


@cases("name", PAIRS)
@cases("num_keys", [1, 2, 7, 64])
@cases("scale", [0.1, 1.0, 10.0])
@cases(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_agrees_with_the_published_package(
    name: str, num_keys: int, scale: float, dtype: torch.dtype, tolerance: float
) -> None:
    ours, theirs = PAIRS[name]
    scores = scale * torch.randn(3, 4, num_keys, dtype=dtype)
    cotangent = torch.randn(3, 4, num_keys, dtype=dtype)
    expected = _with_gradient(theirs, scores, cotangent)
    torch.testing.assert_close(_with_gradient(ours, scores, cotangent), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("alpha", [1.05, 1.3, 1.5, 1.9, 1.999])
def test_gradient_of_alpha(alpha: float) -> None:
    scores = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    alphas = torch.full((2, 1, 1), alpha, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z, a: entmax(z, alpha=a), (scores, alphas))


def test_gradient_of_alpha_agrees_with_the_published_package() -> None:
    scores, cotangent = torch.randn(5, 6, dtype=torch.float64), torch.randn(5, 6, dtype=torch.float64)
    grads = []
    for align in (lambda a: entmax(scores, alpha=a), lambda a: published.entmax_bisect(scores, alpha=a)):
        alpha = torch.linspace(1.1, 1.9, 5, dtype=torch.float64).unsqueeze(-1).requires_grad_()
        grads.append(torch.autograd.grad(align(alpha), alpha, cotangent)[0])
    torch.testing.assert_close(grads[0], grads[1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("align", [sparsemax, entmax, lambda z: entmax(z, alpha=1.3)])
def test_second_derivative(align: object) -> None:
    scores = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(align, scores)


def test_one_alpha_per_head() -> None:
    align = Entmax(1.5, learned=True, num_heads=3)
    assert align.theta.shape == (3, 1, 1)
    torch.testing.assert_close(align.alpha, torch.full((3, 1, 1), 1.5))
    with torch.no_grad():
        align.theta += torch.tensor([-1.0, 0.0, 1.0]).reshape(3, 1, 1)
    scores = torch.randn(2, 3, 4, 5)
    weights = align(scores).weights
    for head in range(3):
        torch.testing.assert_close(weights[:, head], entmax(scores[:, head], alpha=align.alpha[head].item()))
    weights.square().sum().backward()
    assert (align.theta.grad != 0).all()


@pytest.mark.parametrize("alpha", [1.1, 1.5, 1.9])
def test_learned_alpha_starts_where_told(alpha: float) -> None:
    align = Entmax(alpha, learned=True)
    assert align.alpha.item() == pytest.approx(alpha)
    scores = torch.randn(2, 4, 5)
    torch.testing.assert_close(align(scores).weights, entmax(scores, alpha=alpha))
    align(scores).weights.square().sum().backward()
    assert align.theta.grad != 0


def test_learned_alpha_stays_in_range() -> None:
    align, scores = Entmax(1.5, learned=True), torch.randn(2, 4, 5)
    for theta, limit in ((-100.0, softmax), (100.0, sparsemax)):
        torch.nn.init.constant_(align.theta, theta)
        torch.testing.assert_close(align(scores).weights, limit(scores), rtol=0, atol=1e-3)


@pytest.mark.parametrize("alpha", [1 + 1e-6, torch.tensor(1 + 1e-6, dtype=torch.float64)])
def test_alpha_to_one_is_softmax(alpha: float | Tensor) -> None:
    scores = 3 * torch.randn(3, 20, dtype=torch.float64)
    torch.testing.assert_close(entmax(scores, alpha=alpha), softmax(scores), rtol=0, atol=1e-5)


def test_alpha_two_is_sparsemax() -> None:
    scores = torch.randn(3, 20)
    torch.testing.assert_close(entmax(scores, alpha=2.0), sparsemax(scores), rtol=0, atol=0)
    torch.testing.assert_close(entmax(scores, alpha=torch.tensor(2.0)), sparsemax(scores))
    torch.testing.assert_close(Entmax(2.0)(scores).weights, Sparsemax()(scores).weights)


def test_alpha_out_of_range_is_refused() -> None:
    for alpha in (1.0, 2.1):
        with pytest.raises(ConfigError):
            entmax(torch.zeros(1, 3), alpha=alpha)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(-30, 30), min_size=1, max_size=9), st.floats(1.01, 2.0), st.floats(-100, 100))
def test_projection_onto_the_simplex(row: list[float], alpha: float, shift: float) -> None:
    scores = torch.tensor([row], dtype=torch.float64)
    weights = entmax(scores, alpha=alpha)
    assert (weights >= 0).all()
    assert weights.sum().item() == pytest.approx(1, abs=1e-10)
    assert (weights[0][scores[0].argsort()].diff() >= -1e-12).all()
    torch.testing.assert_close(entmax(scores + shift, alpha=alpha), weights, rtol=0, atol=1e-8)


def test_sparsemax_keeps_the_simplex_and_softmax_does_not() -> None:
    points = torch.randn(10, 8, dtype=torch.float64).softmax(-1)
    torch.testing.assert_close(sparsemax(points), points)
    assert (softmax(points) - points).abs().max() > 0.01


@pytest.mark.parametrize("align", [sparsemax, entmax, lambda z: entmax(z, alpha=1.3)])
def test_ties_share_alike(align: object) -> None:
    torch.testing.assert_close(align(torch.full((2, 7), 3.0)), torch.full((2, 7), 1 / 7))
    weights = align(torch.tensor([[1.0, 2.0, 2.0, -9.0]]))
    assert weights[0, 1] == weights[0, 2]
    assert weights[0, 3] == 0
    torch.testing.assert_close(align(torch.tensor([[0.0, 0.0, -1.0e4]])), torch.tensor([[0.5, 0.5, 0.0]]))


@pytest.mark.parametrize("alpha", [1.2, 1.5, 2.0])
def test_scale_limits(alpha: float) -> None:
    scores = torch.randn(5, 8)
    best = torch.nn.functional.one_hot(scores.argmax(-1), 8).float()
    torch.testing.assert_close(entmax(1e6 * scores, alpha=alpha), best)
    torch.testing.assert_close(entmax(0 * scores, alpha=alpha), torch.full((5, 8), 1 / 8))


def test_long_rows() -> None:
    scores = torch.randn(2, 20000)
    for name, (ours, theirs) in PAIRS.items():
        expected = theirs(scores.double()).float()
        torch.testing.assert_close(ours(scores), expected, rtol=0, atol=1e-5, msg=lambda text, name=name: name + text)


def test_repr_shows_alpha() -> None:
    assert repr(Entmax(1.3)) == "Entmax(alpha=1.3)"
    assert repr(Entmax(learned=True)) == "Entmax(alpha=1.5, learned)"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_a_learnt_alpha_near_one_in_half_precision(dtype: torch.dtype) -> None:
    align = Entmax(1.003, learned=True).to(dtype)
    weights = align(torch.randn(3, 5).to(dtype)).weights
    torch.testing.assert_close(weights.float().sum(-1), torch.ones(3), atol=0.02, rtol=0)
    weights.square().sum().backward()
    assert torch.isfinite(align.theta.grad)


def test_scores_without_heads_do_not_meet_an_alpha_for_each() -> None:
    align = Entmax(1.5, learned=True, num_heads=4)
    for shape in ((5, 5), (3, 5, 5)):
        with pytest.raises(ShapeError, match=r"an alpha for each head: got .*; expected \[\.\.\., 4, q, k\]"):
            align(torch.zeros(shape))


def test_the_support_is_what_has_weight() -> None:
    """Quarters are exact numbers, and many rows have a key just at the threshold, whose weight is exactly zero."""
    rows = torch.cartesian_prod(*[torch.arange(-6, 1) / 4] * 3)
    rows = rows - rows.amax(-1, keepdim=True)
    weights = sparsemax(rows)
    assert torch.equal(ROWS.simplex_support(rows), weights > 0)
    segments = Segments(torch.arange(len(rows)).repeat_interleave(3), len(rows))
    assert torch.equal(segments.simplex_support(rows.flatten()), weights.flatten() > 0)
    assert (rows[weights == 0] > -1).any()


def test_a_learnt_alpha_is_not_read() -> None:
    """Numbers on the meta device cannot be read, nor can those of a graph that is being captured."""
    align = Entmax(1.5, learned=True, num_heads=3).to("meta")
    assert align(torch.zeros(2, 3, 4, 5, device="meta")).weights.shape == (2, 3, 4, 5)
