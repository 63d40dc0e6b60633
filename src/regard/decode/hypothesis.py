"""One translation and what it is worth."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

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
    It is None where there was no step, or the model does not say where it looks.

    >>> Hypothesis([7, 4], log_prob=-1.5, score=-1.5, finished=True).length
    3
    """

    tokens: list[int]
    log_prob: float
    score: float
    weights: Tensor | None = field(default_factory=lambda: None, repr=False, compare=False)  # [length k]
    finished: bool = True

    @property
    def length(self) -> int:
        """|Y|: how many steps it took, so how many terms `log_prob` has."""
        return len(self.tokens) + self.finished

    if not TYPE_CHECKING:  # a checker would believe that there is an attribute of every name

        def __getattr__(self, name: str) -> Any:
            """The weights of a hypothesis of `many`, which are cut from those of all when someone asks for them."""
            if name != "weights" or "_seen" not in self.__dict__:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            rows, start, end = self.__dict__["_seen"]
            self.__dict__["weights"] = found = rows[start:end] if end > start else None
            return found


class Seen(NamedTuple):
    """Where many hypotheses looked: the steps of all, one after the other."""

    rows: Float[Tensor, "n k"]
    starts: list[int]
    ends: list[int]


def many(
    tokens: Iterable[list[int]],
    log_probs: Iterable[float],
    scores: Iterable[float],
    finished: Iterable[bool],
    seen: Seen | None = None,
) -> list[Hypothesis]:
    """One hypothesis for each row of these columns, as `Hypothesis(…)` would make them, in a quarter of the time.

    A search on a GPU waits for a thousand of them. Each cuts its weights from `seen` when someone asks for them.

    >>> many([[7]], [-1.0], [-1.0], [True])
    [Hypothesis(tokens=[7], log_prob=-1.0, score=-1.0, finished=True)]
    """
    new, keep, made = object.__new__, object.__setattr__, list[Hypothesis]()
    last = "weights" if seen is None else "_seen"
    places = repeat(None) if seen is None else zip(repeat(seen.rows), seen.starts, seen.ends, strict=False)
    for line, log_prob, score, done, place in zip(tokens, log_probs, scores, finished, places, strict=False):
        one = new(Hypothesis)
        keep(one, "__dict__", {"tokens": line, "log_prob": log_prob, "score": score, "finished": done, last: place})
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
