"""Sampling: the next token by chance."""

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.base import check_settings
from regard.base.ranges import Range
from regard.decode.greedy import follow
from regard.decode.hypothesis import Hypothesis
from regard.decode.protocol import Decodable

Temperature = Annotated[float, Range(above=0, cure="use greedy, which is the limit at 0")]
TopK = Annotated[int, Range(least=0, cure="use 0 for all tokens")]
TopP = Annotated[float, Range(above=0, most=1)]


@dataclass(frozen=True)
class Chance:
    """The settings, after every range was checked."""

    temperature: Temperature
    top_k: TopK
    top_p: TopP

    def __post_init__(self) -> None:
        check_settings(self)


def sample(
    model: Decodable,
    state: Any,
    *,
    batch: int,
    bos: int,
    eos: int,
    max_steps: int | Int[Tensor, " b"],
    min_steps: int = 0,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
    forbidden: Collection[int] = (),
) -> list[Hypothesis]:
    """y_t ~ P(y | y_<t), sharpened by `temperature` and cut by `truncate`: one hypothesis for each sentence.

    `log_prob` and `score` are of the model's own distribution, before temperature, truncation and `forbidden`, so they
    compare with those of other searches. Steps and finished sentences are as in `greedy`. The same `generator` state
    gives the same hypotheses for the same batch.
    """
    Chance(temperature, top_k, top_p)
    divisor = max(temperature, 1e-30)  # float32 rounds less to 0; what is not the best is at −∞ long before

    def choose(log_probs: Tensor) -> Tensor:
        best = log_probs.amax(-1, keepdim=True).clamp(min=torch.finfo(log_probs.dtype).min)
        truncated = truncate((log_probs - best) / divisor, top_k=top_k, top_p=top_p)
        noise = torch.empty_like(truncated, device=truncated.device if generator is None else generator.device)
        noise = noise.exponential_(generator=generator).clamp(min=torch.finfo(truncated.dtype).tiny)
        return (truncated - noise.log().to(truncated.device)).argmax(-1)  # argmax(log p + Gumbel) ~ p

    return follow(
        model,
        state,
        choose,
        batch=batch,
        bos=bos,
        eos=eos,
        max_steps=max_steps,
        min_steps=min_steps,
        forbidden=forbidden,
    )


def truncate(scores: Float[Tensor, "*b v"], *, top_k: int = 0, top_p: float = 1.0) -> Float[Tensor, "*b v"]:
    """−∞ for all but the `top_k` best tokens, and of these for all but the fewest with a share of `top_p` or more.

    0 and 1.0 keep everything; the best token always stays.

    >>> truncate(torch.tensor([0.5, 0.3, 0.15, 0.05]).log(), top_p=0.7).exp()
    tensor([0.5000, 0.3000, 0.0000, 0.0000])
    """
    if 0 < top_k < scores.shape[-1]:
        best, where = scores.topk(top_k, dim=-1)
        scores = torch.full_like(scores, -math.inf).scatter(-1, where, best)
    if top_p < 1:
        best, where = scores.sort(dim=-1, descending=True, stable=True)
        before = F.pad(best.softmax(-1).cumsum(-1)[..., :-1], (1, 0))  # what better tokens have already
        later = torch.arange(best.shape[-1], device=best.device) > 0  # a top_p that rounds to 0 keeps the best one too
        best = best.masked_fill((before >= top_p) & later, -math.inf)
        scores = torch.full_like(scores, -math.inf).scatter(-1, where, best)
    return scores
