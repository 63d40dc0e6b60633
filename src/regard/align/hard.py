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

from regard.align.align import Align, Alignment, blank, finite, rows
from regard.align.segment import ROWS, Rows, Segments
from regard.base import ConfigError

Estimator = Literal["argmax", "straight_through", "gumbel", "gumbel_straight_through", "sample"]
ESTIMATORS: tuple[str, ...] = get_args(Estimator)


def _gumbel(scores: Tensor) -> Tensor:
    """Noise g with argmax(scores + g) ~ softmax(scores)."""
    return -torch.empty_like(scores).exponential_().clamp(min=torch.finfo(scores.dtype).tiny).log()


class Hard(Align):
    """One key per query. With `"sample"` the result carries `log_prob` of the choice and `entropy`, [*b q] each.

    >>> align = Hard("sample").eval()
    >>> weights, log_prob, entropy = align(torch.tensor([[0.0, 0.0, 1.0]]))
    >>> weights, log_prob.exp()
    (tensor([[0., 0., 1.]]), tensor([0.5761]))
    """

    def __init__(self, estimator: Estimator = "argmax", *, temperature: float = 1.0) -> None:
        super().__init__()
        if estimator not in ESTIMATORS:
            raise ConfigError("Hard estimator", got=repr(estimator), expected=f"one of {', '.join(ESTIMATORS)}")
        if not temperature > 0:
            raise ConfigError("Hard temperature", got=temperature, expected="more than 0", cure="0.5 to 1 works well")
        self.estimator, self.temperature = estimator, temperature

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Alignment:
        """One-hot weights (relaxed for `"gumbel"` in training); zeros in an empty row."""
        return self._choose(*rows(scores, mask), scores.dtype, ROWS)

    def align_edges(self, scores: Tensor, segments: Segments, mask: Tensor | None = None) -> Alignment:
        """The same over the edges of each query; of equal scores the first edge of the list is taken."""
        return self._choose(*finite(scores, mask), scores.dtype, segments)

    def _choose(self, filled: Tensor, allowed: Tensor, dtype: torch.dtype, over: Rows | Segments) -> Alignment:
        filled = filled - over.largest(filled)  # noise must not drown in large scores
        if self.estimator == "sample":
            choice = over.first_largest((filled + _gumbel(filled) if self.training else filled).detach())
            return self._with_log_prob(choice, filled, allowed, dtype, over)
        if not self.training or self.estimator == "argmax":
            return Alignment(blank(over.first_largest(filled.detach()), allowed, dtype))
        noisy = filled + _gumbel(filled)
        soft = over.softmax(filled) if self.estimator == "straight_through" else over.softmax(noisy / self.temperature)
        if self.estimator == "gumbel":
            return Alignment(blank(soft, allowed, dtype))
        return Alignment(blank(over.first_largest(noisy.detach()) + (soft - soft.detach()), allowed, dtype))

    @staticmethod
    def _with_log_prob(
        choice: Tensor, filled: Tensor, allowed: Tensor, dtype: torch.dtype, over: Rows | Segments
    ) -> Alignment:
        log_weights = over.log_softmax(filled).masked_fill(~allowed, 0.0)  # no −∞ · 0, forward or backward
        weights = blank(log_weights.exp(), allowed, filled.dtype)
        log_prob = over.sums(choice * log_weights)
        entropy = -over.sums(weights * log_weights)
        return Alignment(blank(choice, allowed, dtype), log_prob, entropy)

    def extra_repr(self) -> str:
        """Estimator, and temperature where it matters."""
        return repr(self.estimator) + (f", temperature={self.temperature}" if "gumbel" in self.estimator else "")
