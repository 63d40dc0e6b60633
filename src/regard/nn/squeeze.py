"""Squeeze-and-Excitation (Hu et al. 2018, arXiv 1709.01507): attention over channels. Equations are the paper's.

The query is the mean of all positions, the keys are the channels, and the alignment is a gate: each channel is judged
alone, and several may be open. It stands behind any convolution: `nn.Sequential(conv, norm, SqueezeExcitation(64))`.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.align import Sigmoid
from regard.attention.tracing import record, watched
from regard.base import ConfigError, ShapeError


def squeeze(x: Float[Tensor, "b c *s"]) -> Float[Tensor, "b c"]:
    """z_c = the mean of channel c over all positions (eq. 2).

    >>> squeeze(torch.tensor([[[[1.0, 3.0]], [[0.0, 1.0]]]]))
    tensor([[2.0000, 0.5000]])
    """
    return x.mean(tuple(range(2, x.ndim)))


class SqueezeExcitation(nn.Module):
    """x̃_c = s_c x_c with s = σ(W₂ ReLU(W₁ z)), z the means of the channels; W₁ narrows by `reduction` (eqs. 2–4).

    In a residual network it stands on the branch, after the last normalisation and before the addition. At least one
    unit is left however few the channels. `bias` is that of the gates at the start: 0 as published, which halves x; one
    of 4 opens them to 0.98, so that a trained network is hardly disturbed. With `normalised`, W₁ z is normalised over
    the batch: means of normalised channels differ little from picture to picture, and gates that see only these stay
    where they began. A trace sees the gates as weights [b 1 c].
    """

    def __init__(
        self, channels: int, reduction: int = 16, *, bias: int | float = 0.0, normalised: bool = False
    ) -> None:
        super().__init__()
        for name, number in (("channels", channels), ("reduction", reduction)):
            if number < 1:
                raise ConfigError(f"SqueezeExcitation {name}", got=number, expected="1 or more")
        self.narrow = nn.Linear(channels, max(channels // reduction, 1))  # W₁
        self.widen = nn.Linear(self.narrow.out_features, channels)  # W₂
        self.norm = nn.BatchNorm1d(self.narrow.out_features) if normalised else nn.Identity()
        self.align = Sigmoid()
        for layer in (self.narrow, self.widen):
            nn.init.kaiming_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
        nn.init.constant_(self.widen.bias, bias)

    def gates(self, x: Float[Tensor, "b c *s"]) -> Float[Tensor, "b c"]:
        """s, one number between 0 and 1 for each channel of each item; a trace sees it as weights [b 1 c]."""
        if x.ndim < 3 or x.shape[1] != self.narrow.in_features:
            raise ShapeError(
                "SqueezeExcitation takes channels with positions",
                got=list(x.shape),
                expected=f"[batch, {self.narrow.in_features}, height, width]",
            )
        scores = self.widen(torch.relu(self.norm(self.narrow(squeeze(x)))))  # of each channel, by the mean of all
        weights = self.align(scores.unsqueeze(1)).weights  # [b 1 c]: one query, whose keys are the channels
        if watched(self):
            record(self, weights)
        return weights.squeeze(1)

    def forward(self, x: Float[Tensor, "b c *s"]) -> Float[Tensor, "b c *s"]:
        """x, each channel times its gate."""
        gates = self.gates(x)
        return x * gates.to(x.dtype).reshape(*gates.shape, *(1 for _ in x.shape[2:]))
