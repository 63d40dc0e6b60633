"""The non-local block (Wang et al. 2018, arXiv 1711.07971): every position of a picture or a clip attends to all.

y_i = 1/C(x) Σ_j f(x_i, x_j) g(x_j) (eq. 1) is score → align → context, and z_i = W_z y_i + x_i (eq. 6) the block:

gaussian             f = exp(x_iᵀ x_j)           C = Σ_j f            dot score, softmax
embedded_gaussian    f = exp(θ(x_i)ᵀ φ(x_j))     C = Σ_j f            dot score, softmax
dot                  f = θ(x_i)ᵀ φ(x_j)          C = number of keys   dot score, a share for each key
concatenation        f = ReLU(wᵀ [θ_i, φ_j])     C = number of keys   the score below, a share for each key
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.align import Softmax
from regard.attention import Attention
from regard.base import ConfigError, ShapeError, did_you_mean
from regard.score import Dot, Prepared, ScaledDot, Score
from regard.score.score import product, to_float32

KINDS = ("gaussian", "embedded_gaussian", "dot", "concatenation")


def share(scores: Float[Tensor, "*b q k"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*b q k"]:
    """w_ij = e_ij / N, N the number of keys that may be attended to: no softmax, and weights of any sign.

    >>> share(torch.tensor([[1.0, -3.0]]))
    tensor([[ 0.5000, -1.5000]])
    """
    if mask is None:
        return scores / scores.shape[-1]
    allowed = mask.expand(scores.shape)
    return (scores / allowed.sum(-1, keepdim=True).clamp(min=1)).masked_fill(~allowed, 0.0)


class Concatenation(Score):
    """e_ij = ReLU(wᵀ [q_i, k_j]) (eq. 5). wᵀ [q, k] = uᵀ q + vᵀ k, so no pair is ever laid side by side."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2, dim))  # u and v
        nn.init.normal_(self.weight, std=0.01)

    def prepare(self, keys: Tensor) -> Prepared:
        """vᵀ k_j: [*b k 1]."""
        return Prepared(product(keys, self.weight[1:]))

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores of queries against prepared keys."""
        return torch.relu(product(query, self.weight[:1]) + to_float32(keys).mT)


class NonLocal(nn.Module):
    """z = W_z y + x at every position of x [b c h w] or [b c t h w]; it begins as the identity, exactly.

    θ, φ and g narrow to `inner` channels (half of them). `pool` is the side of the windows whose maxima stand for all
    positions as keys and values: 2 leaves a quarter of the pairs; queries stay as many. A normalisation follows W_z,
    and its scale starts at 0, so that the block can be put into a trained network. Before a softmax the paper does not
    scale the scores, and the authors' code does, by 1/√inner: `scaled`. A trace sees the weights [b q k].
    """

    def __init__(
        self,
        channels: int,
        *,
        kind: str = "embedded_gaussian",
        inner: int | None = None,
        pool: int = 1,
        scaled: bool = False,
    ) -> None:
        super().__init__()
        inner = max(channels // 2, 1) if inner is None else inner
        _check(kind, scaled, channels=channels, inner=inner, pool=pool)
        self.kind, self.pool = kind, pool
        self.to_query = nn.Identity() if kind == "gaussian" else nn.Linear(channels, inner)  # θ
        self.to_keys = nn.Identity() if kind == "gaussian" else nn.Linear(channels, inner)  # φ
        self.to_values = nn.Linear(channels, inner)  # g
        self.attention = _attention(kind, inner, scaled)
        self.to_output = nn.Linear(inner, channels)  # W_z
        self.norm = nn.BatchNorm1d(channels)
        for layer in (self.to_query, self.to_keys, self.to_values, self.to_output):
            if isinstance(layer, nn.Linear):  # convolutions of one position
                nn.init.normal_(layer.weight, std=0.01)
                nn.init.zeros_(layer.bias)
        nn.init.zeros_(self.norm.weight)

    def forward(self, x: Float[Tensor, "b c *s"]) -> Float[Tensor, "b c *s"]:
        """z: what x has, and at each position what the others add."""
        if x.ndim not in (4, 5) or x.shape[1] != self.norm.num_features:
            raise ShapeError(
                "NonLocal takes pictures or clips",
                got=list(x.shape),
                expected=f"[batch, {self.norm.num_features}, height, width] or [batch, …, time, height, width]",
            )
        queries, pooled = _positions(x), _positions(self._pooled(x))
        y = self.attention(
            self.to_query(queries), self.to_keys(pooled), self.to_values(pooled), need_weights=False
        ).context  # [b q inner]
        change: Tensor = self.norm(self.to_output(y).flatten(0, 1))
        return x + change.reshape(queries.shape).mT.reshape(x.shape)

    def key_shape(self, *shape: int) -> tuple[int, ...]:
        """The grid of the keys for x of this height and width (or time, height and width).

        >>> NonLocal(4, pool=2).key_shape(16, 15)
        (8, 8)
        """
        *time, height, width = shape
        return (*time, math.ceil(height / self.pool), math.ceil(width / self.pool))

    def _pooled(self, x: Tensor) -> Tensor:
        if self.pool == 1:
            return x
        if x.ndim == 4:
            return F.max_pool2d(x, self.pool, ceil_mode=True)
        window = (1, self.pool, self.pool)  # time is not pooled
        return F.max_pool3d(x, window, ceil_mode=True)

    def extra_repr(self) -> str:
        """What is not a submodule."""
        return f"kind={self.kind!r}, pool={self.pool}"


def _positions(x: Tensor) -> Tensor:
    """[b c *s] → [b n c]: a view where x lies channels last."""
    return x.flatten(2).mT


def _attention(kind: str, inner: int, scaled: bool) -> Attention:
    if kind == "concatenation":
        return Attention(Concatenation(inner), share)
    if kind == "dot":
        return Attention(Dot(), share)
    return Attention(ScaledDot() if scaled else Dot(), Softmax())


def _check(kind: str, scaled: bool, **sizes: int) -> None:
    if kind not in KINDS:
        raise ConfigError(
            "NonLocal kind", got=repr(kind), expected=f"one of {', '.join(KINDS)}", cure=did_you_mean(kind, KINDS)
        )
    if scaled and kind in ("dot", "concatenation"):
        raise ConfigError("NonLocal scaled", got=kind, expected="a kind with a softmax", cure="set scaled=False")
    for name, size in sizes.items():
        if size < 1:
            raise ConfigError(f"NonLocal {name}", got=size, expected="1 or more")
