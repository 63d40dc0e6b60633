"""The sigmoid gate: each key is judged alone, so weights need not sum to one."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.align.align import Align, Alignment, finite, masked_scores, zero_masked
from regard.align.segment import Segments


def sigmoid(
    scores: Float[Tensor, "*b q k"], mask: Bool[Tensor, "..."] | None = None, *, offset: float = 0.0
) -> Float[Tensor, "*b q k"]:
    """w_ij = 1 / (1 + exp(−e_ij − offset)).

    >>> sigmoid(torch.tensor([[0.0, 0.0]]), torch.tensor([[True, False]]))
    tensor([[0.5000, 0.0000]])
    """
    if mask is None and not offset and scores.shape[-1] > 0:  # each key is judged alone, so −∞ and +∞ need no care
        return torch.sigmoid(scores)
    return _sigmoid(*masked_scores(scores, mask), scores.dtype, offset)


def _sigmoid(filled: Tensor, allowed: Tensor, dtype: torch.dtype, offset: float) -> Tensor:
    return zero_masked(torch.sigmoid(filled + offset), allowed, dtype)


class Sigmoid(Align):
    """A gate for each key. `offset=-math.log(num_keys)` keeps the sum near one at the start of training."""

    def __init__(self, offset: float = 0.0) -> None:
        super().__init__()
        self.offset = offset

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Alignment:
        """Weights between 0 and 1."""
        return Alignment(sigmoid(scores, mask, offset=self.offset))

    def align_edges(self, scores: Tensor, segments: Segments, mask: Tensor | None = None) -> Alignment:
        """The same for each edge; whose row it belongs to does not matter."""
        return Alignment(_sigmoid(*finite(scores, mask), scores.dtype, self.offset))

    def extra_repr(self) -> str:
        """The offset."""
        return f"offset={self.offset}"
