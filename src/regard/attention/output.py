"""What goes with a call of attention, what it returns, and what it carries from step to step."""

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from regard.attention.mask import Mask
from regard.attention.position import relative_shift
from regard.score import Prepared

if TYPE_CHECKING:
    from regard.attention.fixed_cache import FixedCache

MOST_SHOWN = 64  # queries and keys in a notebook


class Memory(NamedTuple):
    """Keys and values after all projections: made once by `MultiHead.prepare`, then passed as keys to many calls."""

    keys: Prepared  # [*b g k a]
    values: Tensor  # [*b g k v]

    def reorder(self, index: Tensor) -> "Memory":
        """The memory with its first axis picked by `index`, as beam search needs it."""
        return Memory(Prepared(self.keys.keys.index_select(0, index)), self.values.index_select(0, index))


class Cache(NamedTuple):
    """Keys and values so far: the state of step-by-step self-attention, kept by the caller. `Cache()` is the start."""

    keys: Tensor | None = None  # [*b g k d]
    values: Tensor | None = None  # [*b g k v]

    def append(self, keys: Tensor, values: Tensor) -> "Cache":
        """The cache with more keys and values at its end."""
        if self.keys is None or self.values is None:
            return Cache(keys, values)
        return Cache(torch.cat([self.keys, keys], -2), torch.cat([self.values, values], -2))

    def reorder(self, index: Tensor) -> "Cache":
        """The cache with its first axis picked by `index`, as beam search needs it."""
        if self.keys is None or self.values is None:
            return self
        return Cache(self.keys.index_select(0, index), self.values.index_select(0, index))

    @property
    def length(self) -> int:
        """How many keys it holds."""
        return 0 if self.keys is None else self.keys.shape[-2]


class CallOptions(NamedTuple):
    """What a query comes with, beside its keys and values."""

    mask: Mask | None
    bias: Tensor | None  # added to the scores
    previous: Tensor | None  # [*b k]: the weights of the query before
    step: int | Tensor  # the time of the first query
    dropout: float  # of the weights
    by_distance: Tensor | None = None  # [*b q w], a bias with a column for each distance: see `relative_shift`

    def by_key(self, num_keys: int) -> "CallOptions":
        """The same, with all that is added to the scores in `bias`, and a column there for each key."""
        if self.by_distance is None:
            return self
        shifted = relative_shift(self.by_distance, num_keys)
        return self._replace(bias=shifted if self.bias is None else self.bias + shifted, by_distance=None)


class AttentionOutput(NamedTuple):
    """One type, whatever the flags. Weights are those before dropout; None only when they were not asked for."""

    context: Tensor  # [*b q v]
    weights: Tensor | None = None  # [*b q k]; [*b h q k] from MultiHead
    log_prob: Tensor | None = None  # [*b q], from sampled alignments
    entropy: Tensor | None = None  # [*b q], from sampled alignments
    cache: "Cache | FixedCache | None" = None  # from MultiHead, when one was passed in

    def _repr_html_(self) -> str:
        """What a notebook shows: the weights of the first item of the batch, and the shape of the context."""
        from regard.explanation import Matrix
        from regard.explanation.widget import widget

        facts = f"context {list(self.context.shape)}"
        if self.weights is None:
            return f'<p class="answer">{facts}; weights were not asked for</p>'
        weights = self.weights.detach()
        kept = 2 + (weights.ndim > self.context.ndim)  # MultiHead has an axis of heads, which stays
        while weights.ndim > kept:
            weights = weights[0]
        cut = weights[..., :MOST_SHOWN, :MOST_SHOWN].float().cpu()
        queries = [f"query {number}" for number in range(cut.shape[-2])]
        keys = [f"key {number}" for number in range(cut.shape[-1])]
        head = f'<p class="answer"><small>{facts}, weights {list(self.weights.shape)}</small></p>'
        return widget(Matrix(cut, queries, keys, axes=("query", "key")), head=head)
