"""Sparse alignments: sparsemax (Martins & Astudillo 2016) and α-entmax (Peters, Niculae & Martins 2019).

Both project the scores onto the simplex, so weak keys get a weight of exactly zero. The threshold is found without
gradient; Newton steps from the solution then carry the exact (implicit) gradient, to the scores and to α.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.align.align import Align, Alignment, finite, masked_scores, zero_masked
from regard.align.segment import ROWS, Rows, Segments
from regard.base import ConfigError, ShapeError

BISECTIONS, NEWTON_STEPS = 16, 8
LOWEST = 1.001  # of a learnt α: softmax for all purposes


def sparsemax(scores: Float[Tensor, "*b q k"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*b q k"]:
    """w = argmin over the simplex of |w − e|² = max(e − τ, 0), with τ such that each row sums to one.

    >>> sparsemax(torch.tensor([[-2.0, 0.0, 0.5]]))
    tensor([[0.0000, 0.2500, 0.7500]])
    """
    return _sparsemax(*masked_scores(scores, mask), scores.dtype, ROWS)


def _sparsemax(filled: Tensor, allowed: Tensor, dtype: torch.dtype, over: Rows | Segments) -> Tensor:
    z = (filled - over.largest(filled)).clamp(min=-2.0)  # nothing below max − 1 has weight
    with torch.no_grad():
        support = over.simplex_support(z)
    threshold = (over.total(z.masked_fill(~support, 0.0)) - 1) / over.total(support)
    return zero_masked((z - threshold).masked_fill(~support, 0.0).clamp(min=0.0), allowed, dtype)


def entmax(
    scores: Float[Tensor, "*b q k"], mask: Bool[Tensor, "..."] | None = None, *, alpha: float | Tensor = 1.5
) -> Float[Tensor, "*b q k"]:
    """w = argmax over the simplex of w·e + H_α(w), 1 < α ≤ 2: between softmax (α → 1) and sparsemax (α = 2).

    The solution is w_j = [1 + (α−1)(e_j − μ)]₊^(1/(α−1)), with μ such that each row sums to one. `alpha` is a number,
    or a tensor that broadcasts to [*b q 1] and receives its gradient.

    >>> entmax(torch.tensor([[-2.0, 0.0, 0.5]]), alpha=1.5)
    tensor([[0.0000, 0.3260, 0.6740]])
    """
    if not isinstance(alpha, Tensor):
        if not 1 < alpha <= 2:
            raise ConfigError(
                "entmax alpha", got=alpha, expected="1 < alpha ≤ 2", cure="use Softmax() for 1 and Sparsemax() for 2"
            )
        if alpha == 2:
            return sparsemax(scores, mask)
        alpha = float(alpha)
    elif not torch.compiler.is_compiling() and not bool(((alpha > 1) & (alpha <= 2)).all()):
        raise ConfigError("entmax alpha", got=alpha.tolist(), expected="1 < alpha ≤ 2 everywhere")
    return _entmax(*masked_scores(scores, mask), scores.dtype, alpha, ROWS)


def _entmax(
    filled: Tensor, allowed: Tensor, dtype: torch.dtype, alpha: float | Tensor, over: Rows | Segments
) -> Tensor:
    z = filled - over.largest(filled)  # the largest weight now has 1 + (α−1)(0 − μ) ≤ 1, so μ ≥ 0
    power = alpha.to(z.dtype) - 1 if isinstance(alpha, Tensor) else alpha - 1
    with torch.no_grad():
        shift = _solve(z, power, over)
    for _ in range(2):  # at the solution already: one step makes the first derivative exact, two the second
        weights = _exponential(z - shift, power)
        shift = shift + (over.total(weights) - 1) / _slope(weights, power, over)
    return zero_masked(_exponential(z - shift, power), allowed, dtype)


def _exponential(x: Tensor, power: float | Tensor) -> Tensor:
    """[1 + p x]₊^(1/p): the exponential function for p → 0, a hinge for p = 1."""
    if isinstance(power, float) and power == 0.5:
        return (1 + x / 2).clamp(min=0.0).square()
    inside = power * x > -1
    return torch.where(inside, (torch.log1p(torch.where(inside, power * x, 0.0)) / power).exp(), 0.0)


def _slope(weights: Tensor, power: float | Tensor, over: Rows | Segments) -> Tensor:
    """−d/dμ of the row sum: Σ w^(1−p) over the support."""
    support = weights > 0
    return over.total(torch.where(support, torch.where(support, weights, 1.0) ** (1 - power), 0.0))


def _solve(z: Tensor, power: float | Tensor, over: Rows | Segments) -> Tensor:
    """The μ ≥ 0 at which the row sums to one. The sum is convex and falling in μ, so Newton's steps from the left
    never pass the root; bisection first brings them close, whatever the scores.
    """
    low = over.zeros(z)
    high = low + (1 - over.size(z) ** (-power)) / power  # all keys equal
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        too_low = over.total(_exponential(z - middle, power)) >= 1
        low, high = torch.where(too_low, middle, low), torch.where(too_low, high, middle)
    for _ in range(NEWTON_STEPS):
        weights = _exponential(z - low, power)
        low = low + ((over.total(weights) - 1) / _slope(weights, power, over)).clamp(min=0.0)
    return low


class Sparsemax(Align):
    """Euclidean projection onto the simplex: few keys have weight, the others exactly none."""

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Alignment:
        """Weights that sum to one in every row that is not empty."""
        return Alignment(sparsemax(scores, mask))

    def align_edges(self, scores: Tensor, segments: Segments, mask: Tensor | None = None) -> Alignment:
        """The same over the edges of each query."""
        return Alignment(_sparsemax(*finite(scores, mask), scores.dtype, segments))


class Entmax(Align):
    """α-entmax with α fixed, or learnt (`learned=True`) between 1.001 and 2; one α per head with `num_heads`."""

    theta: Tensor | None

    def __init__(self, alpha: float = 1.5, *, learned: bool = False, num_heads: int | None = None) -> None:
        super().__init__()
        if not 1 < alpha <= 2:
            raise ConfigError(
                "entmax alpha", got=alpha, expected="1 < alpha ≤ 2", cure="use Softmax() for 1 and Sparsemax() for 2"
            )
        if learned and not LOWEST < alpha < 2:
            raise ConfigError("entmax alpha to start learning from", got=alpha, expected=f"{LOWEST} < alpha < 2")
        if num_heads is not None and (num_heads < 1 or not learned):
            raise ConfigError("entmax num_heads", got=num_heads, expected="a positive number, with learned=True")
        self._alpha = alpha
        shape = () if num_heads is None else (num_heads, 1, 1)  # broadcasts to [*b h q k]
        start = math.log((alpha - LOWEST) / (2 - alpha)) if learned else 0.0
        self.theta = nn.Parameter(torch.full(shape, start)) if learned else None

    @property
    def alpha(self) -> float | Tensor:
        """The α in use."""
        if self.theta is None:
            return self._alpha
        theta = self.theta.to(torch.promote_types(self.theta.dtype, torch.float32))  # bfloat16 would round α to 1
        return LOWEST + (2 - LOWEST) * theta.sigmoid()

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Alignment:
        """Weights that sum to one in every row that is not empty."""
        self._check_heads(scores, -3, "q, k")
        alpha = self.alpha
        if isinstance(alpha, Tensor):
            return Alignment(_entmax(*masked_scores(scores, mask), scores.dtype, alpha, ROWS))
        return Alignment(entmax(scores, mask, alpha=alpha))

    def align_edges(self, scores: Tensor, segments: Segments, mask: Tensor | None = None) -> Alignment:
        """The same over the edges of each query."""
        self._check_heads(scores, -2, "e")
        filled, allowed = finite(scores, mask)
        alpha = self.alpha
        if isinstance(alpha, Tensor):
            alpha = alpha.flatten(-2) if alpha.ndim else alpha  # [h 1 1] for a matrix, [h 1] for edges
        elif alpha == 2:
            return Alignment(_sparsemax(filled, allowed, scores.dtype, segments))
        return Alignment(_entmax(filled, allowed, scores.dtype, alpha, segments))

    def _check_heads(self, scores: Tensor, axis: int, tail: str) -> None:
        """A learnt α for each head meets scores with as many heads."""
        if self.theta is None or not self.theta.ndim:
            return
        if scores.ndim < -axis or scores.shape[axis] != len(self.theta):
            expected = f"[..., {len(self.theta)}, {tail}]"
            raise ShapeError("entmax has an alpha for each head", got=list(scores.shape), expected=expected)

    def extra_repr(self) -> str:
        """α, fixed or where it started."""
        return f"alpha={self._alpha}" + (", learned" if self.theta is not None else "")
