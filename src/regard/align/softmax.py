"""Softmax: the soft alignment."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.align.align import Align, Alignment, finite, masked_scores, zero_masked
from regard.align.segment import ROWS, Rows, Segments
from regard.base import ConfigError


def softmax(
    scores: Float[Tensor, "*b q k"], mask: Bool[Tensor, "..."] | None = None, *, temperature: float = 1.0
) -> Float[Tensor, "*b q k"]:
    """w_ij = exp(e_ij / T) / Σ_j exp(e_ij / T) over the allowed keys; zeros in an empty row.

    >>> mask = torch.tensor([[True, True, True], [True, True, False], [False, False, False]])
    >>> softmax(torch.zeros(3, 3), mask)
    tensor([[0.3333, 0.3333, 0.3333],
            [0.5000, 0.5000, 0.0000],
            [0.0000, 0.0000, 0.0000]])
    """
    return _softmax(*masked_scores(scores, mask), scores.dtype, temperature, ROWS)


def _softmax(filled: Tensor, allowed: Tensor, dtype: torch.dtype, temperature: float, over: Rows | Segments) -> Tensor:
    if temperature != 1.0:
        filled = (filled - over.largest(filled)) / temperature  # a large score stays finite
        filled = filled.masked_fill(~allowed, torch.finfo(filled.dtype).min)  # and a masked one low, if T is large
    return zero_masked(over.softmax(filled), allowed, dtype)


class Softmax(Align):
    """Soft alignment; a temperature below 1 sharpens, above 1 flattens."""

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        if not 0 < temperature < math.inf:
            raise ConfigError(
                "Softmax temperature", got=temperature, expected="more than 0", cure="use Hard() for the limit at 0"
            )
        self.temperature = temperature

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Alignment:
        """Weights that sum to one in every row that is not empty."""
        return Alignment(softmax(scores, mask, temperature=self.temperature))

    def align_edges(self, scores: Tensor, segments: Segments, mask: Tensor | None = None) -> Alignment:
        """The same over the edges of each query."""
        return Alignment(_softmax(*finite(scores, mask), scores.dtype, self.temperature, segments))

    def extra_repr(self) -> str:
        """The temperature, where it matters."""
        return f"temperature={self.temperature}" if self.temperature != 1.0 else ""
