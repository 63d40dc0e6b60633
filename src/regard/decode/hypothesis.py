"""One translation and what it is worth."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated

from jaxtyping import Bool, Float
from torch import Tensor

from regard.base.ranges import Range

Beams = Annotated[int, Range(least=1, most=10_000)]
LengthPenalty = Annotated[float, Range(least=0, most=10, cure="use 0.6 to 1")]
CoveragePenalty = Annotated[float, Range(least=0, cure="use 0.2")]
COVERAGE_FLOOR = 1e-6  # a source position that nobody looked at costs β · log 10⁻⁶, not −∞


@dataclass(frozen=True)
class Hypothesis:
    """What a search gives: tokens without BOS and EOS, and how good the model finds them.

    `log_prob` is the sum over all steps, that of EOS included if `finished`; `score` is `log_prob` after penalties.
    `weights` has a row for each token and, if `finished`, a last one for EOS: `weights[: len(tokens)]` leaves it out.

    >>> Hypothesis([7, 4], log_prob=-1.5, score=-1.5, finished=True).length
    3
    """

    tokens: list[int]
    log_prob: float
    score: float
    weights: Tensor | None = field(default=None, repr=False, compare=False)  # [length k]
    finished: bool = True

    @property
    def length(self) -> int:
        """|Y|: how many steps it took, so how many terms `log_prob` has."""
        return len(self.tokens) + self.finished


def many(
    tokens: Iterable[list[int]],
    log_probs: Iterable[float],
    scores: Iterable[float],
    weights: Iterable[Tensor | None],
    finished: Iterable[bool],
) -> list[Hypothesis]:
    """One hypothesis for each row of these columns.

    As `Hypothesis(…)` for each would make them, in half of its time: a search on a GPU waits for a thousand of them.

    >>> many([[7]], [-1.0], [-1.0], [None], [True])
    [Hypothesis(tokens=[7], log_prob=-1.0, score=-1.0, finished=True)]
    """
    made = []
    for line, log_prob, score, look, done in zip(tokens, log_probs, scores, weights, finished, strict=True):
        one = object.__new__(Hypothesis)
        fields = one.__dict__
        fields["tokens"], fields["log_prob"], fields["score"] = line, log_prob, score
        fields["weights"], fields["finished"] = look, done
        made.append(one)
    return made


def length_penalty(length: int, alpha: float) -> float:
    """lp(Y) = ((5 + |Y|) / 6)^α, by which GNMT divides log P(Y). With α = 0 it does nothing.

    >>> round(length_penalty(10, 0.6), 6), length_penalty(1, 0.6)
    (1.732862, 1.0)
    """
    return float(((5 + length) / 6) ** alpha)


def coverage_penalty(
    coverage: Float[Tensor, "*b k"], beta: float, mask: Bool[Tensor, "*#b k"] | None = None
) -> Float[Tensor, "*b"]:
    """cp(X; Y) = β Σ_i log min(Σ_j p_ij, 1) over the source positions i of `mask` (True = real), as in GNMT.

    `coverage` holds Σ_j p_ij, the weight that each position has received. It counts as 10⁻⁶ at least.

    >>> import torch
    >>> weights = torch.tensor([[0.7, 0.3, 0.0], [0.1, 0.8, 0.1]])
    >>> coverage_penalty(weights.sum(0), 0.2)
    tensor(-0.5051)
    """
    missing = coverage.clamp(COVERAGE_FLOOR, 1.0).log()
    return beta * (missing if mask is None else missing.masked_fill(~mask, 0.0)).sum(-1)
