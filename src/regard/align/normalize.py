"""Plain normalisation: for scores that are non-negative already, such as distance kernels and exact matches."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.align.align import Align, Alignment, masked_scores, zero_masked


def normalize(scores: Float[Tensor, "*b q k"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*b q k"]:
    """w_ij = max(e_ij, 0) / Σ_j max(e_ij, 0). Infinite scores share the row; a row without a positive score is empty.

    >>> normalize(torch.tensor([[1.0, 3.0], [2.0, math.inf], [0.0, -1.0]]))
    tensor([[0.2500, 0.7500],
            [0.0000, 1.0000],
            [0.0000, 0.0000]])
    """
    _, allowed = masked_scores(scores, mask)
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    hit = (wide == math.inf) & allowed
    positive = wide.masked_fill(hit | ~allowed | (wide <= 0), 0.0)
    peak = positive.detach().amax(-1, keepdim=True)
    scale = torch.ldexp(torch.ones_like(peak), -peak.frexp().exponent.clamp(-100, 100))
    positive = positive * scale  # a power of two: the sum is in range, and nothing is rounded
    total = positive.sum(-1, keepdim=True)
    share = positive / total.masked_fill(total == 0, 1.0)
    hits = hit.sum(-1, keepdim=True)
    return zero_masked(torch.where(hits > 0, hit / hits.clamp(min=1), share), allowed, scores.dtype)


class Normalize(Align):
    """Divide by the sum; negative scores count as zero."""

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Alignment:
        """Weights that sum to one in every row with a positive score."""
        return Alignment(normalize(scores, mask))
