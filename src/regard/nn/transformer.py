"""Blocks of the Transformer (Vaswani 2017): sub-layers with residual connections, normalised after or before."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Attention, AttentionOutput, Cache, FixedCache, Mask, Memory, MultiHead, Position
from regard.kernels import small
from regard.nn.dropout import Dropout


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W₁ + b₁) W₂ + b₂, at each position alone (eq. 2).

    `locked` dropout sets the same numbers to zero at all positions of a text.
    """

    def __init__(self, dim: int, hidden_dim: int, *, dropout: float = 0.0, locked: bool = False) -> None:
        super().__init__()
        self.widen, self.narrow = nn.Linear(dim, hidden_dim), nn.Linear(hidden_dim, dim)
        self.dropout = Dropout(dropout, locked=locked)
        for layer in (self.widen, self.narrow):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Float[Tensor, "*b t d"]) -> Float[Tensor, "*b t d"]:
        """[*b t dim] → [*b t dim]."""
        hidden = None
        if self.dropout.is_unwatched():
            hidden = small.hidden(x, self.widen, self.dropout.chance(), locked=self.dropout.locked)
        if hidden is None:
            hidden = self.dropout(torch.relu(self.widen(x)))
        (result,) = small.linears(hidden, self.narrow)
        return result


class Residual(nn.Module):
    """x → LayerNorm(x + Dropout(f(x))) as published, or x + Dropout(f(LayerNorm(x))) with `pre_norm`.

    `locked` dropout sets the same numbers to zero at all positions of a text.
    """

    def __init__(self, dim: int, *, dropout: float, pre_norm: bool, locked: bool = False) -> None:
        super().__init__()
        self.norm, self.dropout, self.pre_norm = nn.LayerNorm(dim), Dropout(dropout, locked=locked), pre_norm

    def enter(self, x: Tensor) -> Tensor:
        """What the sub-layer sees."""
        return small.normed(x, self.norm) if self.pre_norm else x

    def leave(self, x: Tensor, y: Tensor) -> Tensor:
        """x with what the sub-layer made of it, y."""
        fused = self._in_one(x, y, None if self.pre_norm else self.norm)
        if fused is not None:
            return fused[0] if fused[1] is None else fused[1]
        added: Tensor = x + self.dropout(y)
        return added if self.pre_norm else self.norm(added)

    def begin(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x, as it goes around the sub-layer, and what the sub-layer sees."""
        fused = self._in_one(x, None, self.norm) if self.pre_norm else None
        if fused is None or fused[1] is None:
            return x, self.enter(x)
        return fused[0], fused[1]

    def hand_over(self, x: Tensor, y: Tensor, following: "Residual") -> tuple[Tensor, Tensor]:
        """`leave` of this sub-layer and `begin` of the following one, as one kernel where that is possible."""
        if self.pre_norm and following.pre_norm:
            fused = self._in_one(x, y, following.norm)
            if fused is not None and fused[1] is not None:
                return fused[0], fused[1]
        return following.begin(self.leave(x, y))

    def _in_one(self, x: Tensor, y: Tensor | None, norm: nn.Module | None) -> tuple[Tensor, Tensor | None] | None:
        """The sum, and the norm of it; None where no kernel does it."""
        if y is not None and not self.dropout.is_unwatched():
            return None
        return small.residual(x, y, norm, 0.0 if y is None else self.dropout.chance(), locked=self.dropout.locked)


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(
        self,
        dim: int,
        *,
        num_heads: int,
        hidden_dim: int,
        attention: Attention,
        position: Position | None = None,
        dropout: float = 0.0,
        pre_norm: bool = False,
    ) -> None:
        super().__init__()
        self.inner = MultiHead(dim, num_heads=num_heads, attention=attention, position=position)
        self.feed = FeedForward(dim, hidden_dim, dropout=dropout)
        self.around_inner, self.around_feed = (Residual(dim, dropout=dropout, pre_norm=pre_norm) for _ in range(2))

    def forward(self, x: Float[Tensor, "b t d"], mask: Mask | Tensor | None = None) -> Float[Tensor, "b t d"]:
        """[b t dim] → [b t dim]."""
        x, seen = self.around_inner.begin(x)
        x, seen = self.around_inner.hand_over(x, self.inner(seen, mask=mask).context, self.around_feed)
        return self.around_feed.leave(x, self.feed(seen))


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the encoder, then feed-forward."""

    def __init__(
        self,
        dim: int,
        *,
        num_heads: int,
        hidden_dim: int,
        attention: Attention,
        cross_attention: Attention,
        position: Position | None = None,
        dropout: float = 0.0,
        pre_norm: bool = False,
    ) -> None:
        super().__init__()
        self.inner = MultiHead(dim, num_heads=num_heads, attention=attention, position=position)
        self.cross = MultiHead(dim, num_heads=num_heads, attention=cross_attention)
        self.feed = FeedForward(dim, hidden_dim, dropout=dropout)
        self.around_inner, self.around_cross, self.around_feed = (
            Residual(dim, dropout=dropout, pre_norm=pre_norm) for _ in range(3)
        )

    def forward(
        self,
        x: Float[Tensor, "b t d"],
        memory: Memory,
        *,
        mask: Mask | Tensor | None = None,
        cache: Cache | FixedCache | None = None,
        previous: Tensor | None = None,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "b t d"], Cache | FixedCache | None, AttentionOutput]:
        """New x, the cache of self-attention if one was passed, and the output of cross-attention.

        `memory` is `cross.prepare(encoder output)`, `mask` [a 1 k] is for its keys, `previous` [b h k] the weights
        of the word before. A memory may have fewer rows than x, one for each of a sentences: then the b / a prefixes
        of a sentence are queries of its one memory, and cross-attention gives [a (b/a·t) …].
        """
        step = 0 if cache is None else cache.length
        order = None if cache is not None and x.shape[1] == 1 else Mask.causal()  # the one query sees all keys
        x, seen = self.around_inner.begin(x)
        inner = self.inner(seen, mask=order, cache=cache, step=step)
        x, seen = self.around_inner.hand_over(x, inner.context, self.around_cross)
        queries = seen.reshape(memory.values.shape[0], -1, x.shape[-1])
        cross = self.cross(queries, memory, mask=mask, previous=previous, step=step, need_weights=need_weights)
        context = cross.context if cross.context.shape == x.shape else cross.context.reshape(x.shape)
        x, seen = self.around_cross.hand_over(x, context, self.around_feed)
        return self.around_feed.leave(x, self.feed(seen)), inner.cache, cross
