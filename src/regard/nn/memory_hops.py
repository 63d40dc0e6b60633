"""Hops over a memory: a state attends to it, takes in what it gets, and attends again (Sukhbaatar et al. 2015)."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.align import Identity
from regard.attention import Attention, Mask
from regard.attention.output import CallOptions
from regard.nn.attentions import build_attention


class MemoryHops(nn.Module):
    """u^{k+1} = u^k + o^k, where o^k is the context of u^k in the k-th memory: `hops` times.

    With `recurrent` there is H u^k in place of u^k. The first `rectified` numbers of each new state pass through a
    ReLU: models of language have half of them so. A memory has keys [b m d] and values [b m d] for each hop. A trace
    sees the weights of hop k as the layer `attentions.k`.
    """

    def __init__(
        self,
        hops: int,
        width: int,
        *,
        score: str = "dot",
        align: str = "softmax",
        recurrent: bool = False,
        rectified: int = 0,
        max_keys: int = 200,
    ) -> None:
        super().__init__()
        self.attentions = nn.ModuleList(
            build_attention(score, align, query_dim=width, key_dim=width, hidden_dim=width, max_keys=max_keys)
            for _ in range(hops)
        )
        self.across = nn.Linear(width, width, bias=False) if recurrent else None  # H
        self.rectified = rectified

    def forward(
        self,
        state: Float[Tensor, "b d"],
        keys: Sequence[Float[Tensor, "b m d"]],
        values: Sequence[Float[Tensor, "b m d"]],
        *,
        mask: Mask | None = None,
        bias: Float[Tensor, "b 1 m"] | None = None,
        linear: bool = False,
    ) -> Float[Tensor, "b d"]:
        """The state after all hops; `linear` leaves the alignment out, so that weights are scores.

        `bias` is added to the scores of every hop.
        """
        previous: Tensor | None = None
        for hop, (attention, hop_keys, hop_values) in enumerate(zip(self.attentions, keys, values, strict=True)):
            assert isinstance(attention, Attention)
            needed = "previous" in (*getattr(attention.score, "needs", ()), *getattr(attention.align, "needs", ()))
            if needed and previous is None:  # before the first hop, all slots are alike
                previous = torch.full_like(hop_keys[..., 0], 1 / hop_keys.shape[1])
            used = Attention(attention.score, Identity()) if linear else attention
            options = CallOptions(mask, bias, previous, hop, 0.0)
            seen = used.run(
                state.unsqueeze(1), hop_keys, hop_values, options, need_weights=needed, trace_as=attention
            )  # p^k = align(score(u^k, m^k)), o^k = Σ_i p_i^k c_i^k
            previous = None if seen.weights is None else seen.weights.squeeze(1)
            state = self.take_in(state, seen.context.squeeze(1))
        return state

    def take_in(self, state: Float[Tensor, "*b d"], context: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """The next state: u^k + o^k, or H u^k + o^k, its first `rectified` numbers after a ReLU."""
        after: Tensor = (state if self.across is None else self.across(state)) + context
        if not self.rectified:
            return after
        return torch.cat([F.relu(after[..., : self.rectified]), after[..., self.rectified :]], -1)
