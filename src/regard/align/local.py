"""Local attention (Luong 2015): 2D+1 keys around the query's own time (local-m) or a predicted centre (local-p)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from regard.align.align import Align, Alignment, align_with, base_of, joined, masked_scores
from regard.align.softmax import Softmax
from regard.base import ConfigError, ShapeError

FARTHEST = 1 << 40  # a window that wide is without end; positions are numbers of 64 bits


def batch_first(value: int | Tensor, num_axes: int) -> int | Tensor:
    """One number for all, or one for each sentence [*b], shaped to meet a tensor of `num_axes` axes from the left."""
    if not isinstance(value, Tensor) or value.ndim == 0:
        return value
    if value.ndim >= num_axes:
        raise ShapeError("step has too many axes", got=list(value.shape), expected="a number, or one for each sentence")
    return value.reshape(*value.shape, *[1] * (num_axes - value.ndim))


def _check_window(window: int) -> None:
    if not isinstance(window, int) or window < 0:
        raise ConfigError(
            "local window",
            got=window,
            expected="0 or more",
            cure="set it to the keys seen on either side: 2·window+1 in all",
        )


class LocalMonotonic(Align):
    """local-m: query t looks at keys t−D … t+D only, aligned by `base` (softmax unless told).

    `step` is the time of the first query: 0 in a whole pass, t (or a tensor [*b]) in step-by-step decoding. A query
    later than the last key + D has an empty window, and so zero weights.

    >>> LocalMonotonic(window=1)(torch.zeros(1, 3, 3)).weights
    tensor([[[0.5000, 0.5000, 0.0000],
             [0.3333, 0.3333, 0.3333],
             [0.0000, 0.5000, 0.5000]]])
    """

    def __init__(self, window: int = 10, *, base: Align | Callable[..., Any] | None = None) -> None:
        super().__init__()
        _check_window(window)
        self.window = window
        self.base = base_of(Softmax() if base is None else base)
        self.needs = joined(("step",), self.base)

    @classmethod
    def for_queries(cls, query_dim: int, *, window: int) -> Align:
        """The window of the settings."""
        return cls(window)

    def forward(
        self, scores: Tensor, mask: Tensor | None = None, *, step: int | Tensor = 0, **history: Any
    ) -> Alignment:
        """The alignment inside the window."""
        _, allowed = masked_scores(scores, mask)
        time = torch.arange(scores.shape[-2], device=scores.device)
        time = time + batch_first(step, scores.ndim - 1)  # [q] or [*b q]
        key = torch.arange(scores.shape[-1], device=scores.device)
        inside = (key - time.unsqueeze(-1)).abs() <= min(self.window, FARTHEST)
        return align_with(self.base, scores, allowed & inside, {"step": step, **history})

    def extra_repr(self) -> str:
        """D."""
        return f"window={self.window}"


class LocalPredictive(Align):
    """local-p: the centre p = S·sigmoid(v·tanh(W q)) is predicted from the query, S being the number of keys.

    w_j = align(e)_j · exp(−(j − p)² / 2σ²) inside |j − p| ≤ D, with σ = D/2. The Gaussian comes after the
    alignment and is not renormalised, as published: it is the way by which the gradient reaches W and v.
    """

    def __init__(
        self,
        query_dim: int,
        *,
        window: int = 10,
        hidden_dim: int | None = None,
        base: Align | Callable[..., Any] | None = None,
    ) -> None:
        super().__init__()
        _check_window(window)
        if window == 0 or query_dim < 1:
            raise ConfigError(
                "LocalPredictive",
                got=f"query_dim={query_dim}, window={window}",
                expected="both at least 1",
                cure="use a window of 1 or more, as σ = window/2",
            )
        self.window = window
        self.base = base_of(Softmax() if base is None else base)
        self.needs = joined(("query",), self.base)
        self.to_hidden = nn.Linear(query_dim, hidden_dim or query_dim, bias=False)  # W
        self.to_centre = nn.Linear(hidden_dim or query_dim, 1, bias=False)  # v

    @classmethod
    def for_queries(cls, query_dim: int, *, window: int) -> Align:
        """The width of the queries, and the window of the settings."""
        return cls(query_dim, window=window)

    def centre(self, query: Tensor, allowed: Tensor) -> Tensor:
        """p [*b q 1], between the first allowed key and the end of the last one."""
        if query.shape[-1] != self.to_hidden.in_features:
            raise ShapeError(
                "query has the wrong width",
                got=query.shape[-1],
                expected=self.to_hidden.in_features,
                cure="write LocalPredictive(query_dim) with the width of the query",
            )
        key = torch.arange(allowed.shape[-1], device=query.device)
        first = torch.where(allowed, key, allowed.shape[-1]).amin(-1, keepdim=True)
        last = torch.where(allowed, key + 1, 0).amax(-1, keepdim=True)
        energy = self.to_centre(torch.tanh(self.to_hidden(query)))
        share = torch.sigmoid(energy.to(torch.promote_types(energy.dtype, torch.float32)))
        return first + (last - first).clamp(min=0) * share

    def forward(
        self, scores: Tensor, mask: Tensor | None = None, *, query: Tensor | None = None, **history: Any
    ) -> Alignment:
        """The alignment inside the window, times the Gaussian."""
        if query is None:
            raise ConfigError("LocalPredictive predicts its centre from the query", got="no query", cure="pass query=")
        _, allowed = masked_scores(scores, mask)
        away = torch.arange(scores.shape[-1], device=scores.device) - self.centre(query, allowed)  # [*b q k]
        window = min(self.window, FARTHEST)
        inside = allowed & (away.abs() <= window)
        result = align_with(self.base, scores, inside, {"query": query, **history})
        gaussian = torch.exp(-away.square() / (2 * (window / 2) ** 2))
        return result._replace(weights=result.weights * gaussian.to(result.weights.dtype))

    def extra_repr(self) -> str:
        """D."""
        return f"window={self.window}"
