"""Hard alignment: one key per query, and the ways to train through the choice.

| estimator                   | weights in training           | gradient of the scores                            |
|-----------------------------|-------------------------------|---------------------------------------------------|
| `"argmax"`                  | the best key                  | none                                              |
| `"straight_through"`        | a sampled key                 | as if the weights were the softmax (biased)       |
| `"gumbel"`                  | relaxed sample at temperature | of the relaxed sample (biased)                    |
| `"gumbel_straight_through"` | the key of a relaxed sample   | of the relaxed sample (biased)                    |
| `"sample"`                  | a sampled key                 | through `log_prob`, by REINFORCE (unbiased)       |

In evaluation mode all of them take the best key; call `.train()` on the alignment to sample there too.
"""

from typing import Literal, get_args

import torch
from torch import Tensor

from regard.align.align import Align, Alignment, finite, masked_scores, zero_masked
from regard.align.segment import ROWS, Rows, Segments
from regard.align.softmax import softmax
from regard.base import ConfigError

Estimator = Literal["argmax", "straight_through", "gumbel", "gumbel_straight_through", "sample"]
ESTIMATORS: tuple[str, ...] = get_args(Estimator)


def _gumbel(scores: Tensor) -> Tensor:
    """Noise g with argmax(scores + g) ~ softmax(scores)."""
    return -torch.empty_like(scores).exponential_().clamp(min=torch.finfo(scores.dtype).tiny).log()


class Hard(Align):
    """One key per query. With `"sample"` the result carries `log_prob` of the choice and `entropy`, [*b q] each.

    `drawn` [*b q], for `"sample"`, makes it soft attention where it is False (Xu et al. 2015, section 4.1): these
    queries get the softmax of their scores, and 0 as `log_prob`. After a call, `expected` has the softmax of all
    queries. Such an object belongs to one batch.

    >>> align = Hard("sample").eval()
    >>> weights, log_prob, entropy = align(torch.tensor([[0.0, 0.0, 1.0]]))
    >>> weights, log_prob.exp()
    (tensor([[0., 0., 1.]]), tensor([0.5761]))
    """

    expected: Tensor | None = None  # [*b q k], of the last call, where `drawn` says who draws

    def __init__(
        self, estimator: Estimator = "argmax", *, temperature: float = 1.0, drawn: Tensor | None = None
    ) -> None:
        super().__init__()
        if estimator not in ESTIMATORS:
            raise ConfigError("Hard estimator", got=repr(estimator), expected=f"one of {', '.join(ESTIMATORS)}")
        if not temperature > 0:
            raise ConfigError(
                "Hard temperature", got=temperature, expected="more than 0", cure="use a temperature from 0.5 to 1"
            )
        if drawn is not None and (estimator != "sample" or drawn.dtype != torch.bool):
            got = f"{drawn.dtype}, estimator {estimator!r}"
            raise ConfigError("Hard drawn", got=got, expected="torch.bool, for the estimator 'sample'")
        self.estimator, self.temperature, self.drawn = estimator, temperature, drawn

    @classmethod
    def for_queries(cls, query_dim: int, *, window: int) -> Align:
        """One key, drawn with Gumbel noise, with the gradient of the softmax: a model can learn through it."""
        return cls("gumbel_straight_through")

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Alignment:
        """One-hot weights (relaxed for `"gumbel"` in training); zeros in an empty row."""
        alignment = self._choose(*masked_scores(scores, mask), scores.dtype, ROWS)
        return alignment if self.drawn is None else self._where_drawn(alignment, softmax(scores, mask))

    def align_edges(self, scores: Tensor, segments: Segments, mask: Tensor | None = None) -> Alignment:
        """The same over the edges of each query; of equal scores the first edge of the list is taken."""
        return self._choose(*finite(scores, mask), scores.dtype, segments)

    def _choose(self, filled: Tensor, allowed: Tensor, dtype: torch.dtype, over: Rows | Segments) -> Alignment:
        filled = filled - over.largest(filled)  # noise must not drown in large scores
        if self.estimator == "sample":
            choice = over.first_largest((filled + _gumbel(filled) if self.training else filled).detach())
            return self._with_log_prob(choice, filled, allowed, dtype, over)
        if not self.training or self.estimator == "argmax":
            return Alignment(zero_masked(over.first_largest(filled.detach()), allowed, dtype))
        noisy = filled + _gumbel(filled)
        soft = over.softmax(filled) if self.estimator == "straight_through" else over.softmax(noisy / self.temperature)
        if self.estimator == "gumbel":
            return Alignment(zero_masked(soft, allowed, dtype))
        return Alignment(zero_masked(over.first_largest(noisy.detach()) + (soft - soft.detach()), allowed, dtype))

    @staticmethod
    def _with_log_prob(
        choice: Tensor, filled: Tensor, allowed: Tensor, dtype: torch.dtype, over: Rows | Segments
    ) -> Alignment:
        log_weights = over.log_softmax(filled).masked_fill(~allowed, 0.0)  # no −∞ · 0, forward or backward
        weights = zero_masked(log_weights.exp(), allowed, filled.dtype)
        log_prob = over.sums(choice * log_weights)
        entropy = -over.sums(weights * log_weights)
        return Alignment(zero_masked(choice, allowed, dtype), log_prob, entropy)

    def extra_repr(self) -> str:
        """Estimator, and temperature where it matters."""
        return repr(self.estimator) + (f", temperature={self.temperature}" if "gumbel" in self.estimator else "")

    def _where_drawn(self, sampled: Alignment, expected: Tensor) -> Alignment:
        assert self.drawn is not None
        assert sampled.log_prob is not None
        self.expected = expected
        weights = torch.where(self.drawn.unsqueeze(-1), sampled.weights, expected)
        return Alignment(weights, sampled.log_prob.masked_fill(~self.drawn, 0.0), sampled.entropy)
