"""Without exp: by the sum, for scores that are non-negative; by the number of keys, for any; and as they are."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.align.align import Align, Alignment, finite, masked_scores, zero_masked
from regard.align.segment import ROWS, Rows, Segments


def normalize(scores: Float[Tensor, "*b q k"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*b q k"]:
    """w_ij = max(e_ij, 0) / Σ_j max(e_ij, 0). Infinite scores share the row; a row without a positive score is empty.

    >>> normalize(torch.tensor([[1.0, 3.0], [2.0, math.inf], [0.0, -1.0]]))
    tensor([[0.2500, 0.7500],
            [0.0000, 1.0000],
            [0.0000, 0.0000]])
    """
    _, allowed = masked_scores(scores, mask)
    return _normalize(scores, allowed, ROWS)


def _normalize(scores: Tensor, allowed: Tensor, over: Rows | Segments) -> Tensor:
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    hit = (wide == math.inf) & allowed
    positive = wide.masked_fill(hit | ~allowed | (wide <= 0), 0.0)
    peak = over.largest(positive)
    scale = torch.ldexp(torch.ones_like(peak), -peak.frexp().exponent.clamp(-100, 100))
    positive = positive * scale  # a power of two: the sum is in range, and nothing is rounded
    total = over.total(positive)
    share = positive / total.masked_fill(total == 0, 1.0)
    hits = over.total(hit)
    return zero_masked(torch.where(hits > 0, hit / hits.clamp(min=1), share), allowed, scores.dtype)


def share(scores: Float[Tensor, "*b q k"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*b q k"]:
    """w_ij = e_ij / N, N the number of keys that may be attended to. Infinite scores share the row, as 1/their number.

    >>> share(torch.tensor([[1.0, -3.0]]))
    tensor([[ 0.5000, -1.5000]])
    """
    _, allowed = masked_scores(scores, mask)
    return _share(scores, allowed, ROWS)


def _share(scores: Tensor, allowed: Tensor, over: Rows | Segments) -> Tensor:
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    hit = (wide == math.inf) & allowed
    hits = over.total(hit)
    shares = wide.masked_fill(hit | ~allowed, 0.0) / over.total(allowed).clamp(min=1)
    return zero_masked(torch.where(hits > 0, hit / hits.clamp(min=1), shares), allowed, scores.dtype)


def identity(scores: Float[Tensor, "*b q k"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*b q k"]:
    """w_ij = e_ij: nothing is normalised. Infinite scores share the row, as 1/their number.

    >>> identity(torch.tensor([[1.0, -3.0, 5.0]]), torch.tensor([[True, True, False]]))
    tensor([[ 1., -3.,  0.]])
    """
    _, allowed = masked_scores(scores, mask)
    return _identity(scores, allowed, ROWS)


def _identity(scores: Tensor, allowed: Tensor, over: Rows | Segments) -> Tensor:
    hit = (scores == math.inf) & allowed
    hits = over.total(hit)
    plain = scores.masked_fill(hit | ~allowed, 0.0)
    return zero_masked(torch.where(hits > 0, hit / hits.clamp(min=1), plain), allowed, scores.dtype)


class Share(Align):
    """Divide by the number of keys: no softmax, and weights of any sign (Wang 2018, non-local networks)."""

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Alignment:
        """Weights that have the sign of their score; their sum is the mean of the scores."""
        return Alignment(share(scores, mask))

    def align_edges(self, scores: Tensor, segments: Segments, mask: Tensor | None = None) -> Alignment:
        """The same over the edges of each query."""
        return Alignment(_share(scores, finite(scores, mask)[1], segments))


class Normalize(Align):
    """Divide by the sum; negative scores count as zero."""

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Alignment:
        """Weights that sum to one in every row with a positive score."""
        return Alignment(normalize(scores, mask))

    def align_edges(self, scores: Tensor, segments: Segments, mask: Tensor | None = None) -> Alignment:
        """The same over the edges of each query."""
        return Alignment(_normalize(scores, finite(scores, mask)[1], segments))


class Identity(Align):
    """Weights are the scores: the linear start of memory networks, which leaves the softmax out (Sukhbaatar 2015)."""

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Alignment:
        """Weights of any sign and any sum."""
        return Alignment(identity(scores, mask))

    def align_edges(self, scores: Tensor, segments: Segments, mask: Tensor | None = None) -> Alignment:
        """The same for each edge."""
        return Alignment(_identity(scores, finite(scores, mask)[1], segments))
