"""Top-k: only the k best keys of each query take part."""

from collections.abc import Callable
from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor

from regard.align.align import Align, Alignment, align_edges_with, align_with, base_of, finite, joined, masked_scores
from regard.align.segment import ROWS, Segments
from regard.align.softmax import Softmax
from regard.base import ConfigError


def top_k(
    scores: Float[Tensor, "*b q k"], mask: Bool[Tensor, "..."] | None = None, *, k: int
) -> Bool[Tensor, "*b q k"]:
    """True for the k best allowed keys of each row (for all of them where there are fewer); ties keep k.

    >>> import torch
    >>> top_k(torch.tensor([[0.1, 0.3, 0.2]]), k=2).int()
    tensor([[0, 1, 1]], dtype=torch.int32)
    """
    filled, allowed = masked_scores(scores, mask)
    return ROWS.best(filled, k) & allowed


class TopK(Align):
    """Keep the k best keys, then align them with `base` (softmax unless told)."""

    def __init__(self, k: int, *, base: Align | Callable[..., Any] | None = None) -> None:
        super().__init__()
        if not isinstance(k, int) or k < 1:
            raise ConfigError(
                "TopK k", got=k, expected="a whole number, at least 1", cure="set k to how many keys may keep weight"
            )
        self.k = k
        self.base = base_of(Softmax() if base is None else base)
        self.needs = joined((), self.base)

    @classmethod
    def for_queries(cls, query_dim: int, *, window: int) -> Align:
        """The four best keys."""
        return cls(4)

    def forward(self, scores: Tensor, mask: Tensor | None = None, **history: Any) -> Alignment:
        """The alignment of the k best keys."""
        return align_with(self.base, scores, top_k(scores, mask, k=self.k), history)

    def align_edges(self, scores: Tensor, segments: Segments, mask: Tensor | None = None) -> Alignment:
        """The same over the edges of each query; of equal scores the first edges of the list are kept."""
        filled, allowed = finite(scores, mask)
        return align_edges_with(self.base, scores, segments, segments.best(filled, self.k) & allowed)

    def extra_repr(self) -> str:
        """How many keys."""
        return f"k={self.k}"
