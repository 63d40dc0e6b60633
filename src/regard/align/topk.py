"""Top-k: only the k best keys of each query take part."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.align.align import Align, Alignment, rows
from regard.align.softmax import Softmax
from regard.base import ConfigError


def top_k(
    scores: Float[Tensor, "*b q k"], mask: Bool[Tensor, "..."] | None = None, *, k: int
) -> Bool[Tensor, "*b q k"]:
    """True for the k best allowed keys of each row (for all of them where there are fewer); ties keep k.

    >>> top_k(torch.tensor([[0.1, 0.3, 0.2]]), k=2).int()
    tensor([[0, 1, 1]], dtype=torch.int32)
    """
    filled, allowed = rows(scores, mask)
    best = filled.topk(min(k, scores.shape[-1]), dim=-1).indices
    return torch.zeros_like(allowed).scatter(-1, best, True) & allowed


class TopK(Align):
    """Keep the k best keys, then align them with `base` (softmax unless told)."""

    def __init__(self, k: int, *, base: Align | None = None) -> None:
        super().__init__()
        if k < 1:
            raise ConfigError("TopK k", got=k, expected="at least 1", cure="k is the number of keys that keep weight")
        self.k = k
        self.base = base if base is not None else Softmax()

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Alignment:
        """The alignment of the k best keys."""
        return self.base(scores, top_k(scores, mask, k=self.k))

    def extra_repr(self) -> str:
        """How many keys."""
        return f"k={self.k}"
