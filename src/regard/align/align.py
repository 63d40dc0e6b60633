"""What every alignment has in common: one result type, and one rule for masked scores and empty rows."""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.base import ConfigError, MaskError, ShapeError


class Alignment(NamedTuple):
    """Weights, and for sampled alignments what REINFORCE needs."""

    weights: Tensor  # [*b q k]
    log_prob: Tensor | None = None  # [*b q] of the sampled key
    entropy: Tensor | None = None  # [*b q] of the distribution that was sampled from


class Align(nn.Module):
    """`align(scores, mask)` gives an `Alignment` with weights of the same shape.

    `needs` names what an alignment takes beside the scores: `"query"` [*b q d], `"previous"` [*b k] (the weights of
    the query before), `"step"` (the time of the first query). `attend` hands over just these.
    """

    needs: tuple[str, ...] = ()

    if TYPE_CHECKING:  # a new alignment writes forward(scores, mask=None, *, …what it needs) -> Alignment

        def __call__(self, *args: Any, **kwargs: Any) -> Alignment:
            """The alignment of scores [*b q k] under a mask."""


def check_boolean(mask: Any, meaning: str = "True = may attend") -> None:
    """A mask is boolean; numbers are a bias, or must say what they mean."""
    if isinstance(mask, Tensor) and mask.dtype == torch.bool:
        return
    if isinstance(mask, Tensor) and mask.ndim == 1 and not mask.is_floating_point():
        cure = "if these are lengths: Mask.padding(lengths)"
    elif isinstance(mask, Tensor) and not mask.is_floating_point():
        cure = "compare, and mind what 1 stands for: mask == 1"
    else:
        cure = "pass additive values, such as 0 and −∞, as bias="
    got = getattr(mask, "dtype", type(mask).__name__)
    raise MaskError(f"a mask must be boolean, {meaning}", got=got, expected="torch.bool", cure=cure)


def base_of(align: Any) -> Any:
    """The alignment inside another one: an object, or any callable (scores, mask) → weights."""
    if isinstance(align, type) or not callable(align):
        got = align.__name__ if isinstance(align, type) else repr(align)
        raise ConfigError("base must be an alignment", got=got, expected="an object such as Softmax()")
    return align


def align_with(base: Any, scores: Tensor, mask: Tensor, history: dict[str, Any]) -> Alignment:
    """The alignment inside another one, with what it needs of the history."""
    result = base(scores, mask, **{name: history[name] for name in getattr(base, "needs", ()) if name in history})
    return Alignment(result) if isinstance(result, Tensor) else result


def joined(needs: tuple[str, ...], base: Any) -> tuple[str, ...]:
    """What an alignment needs, and the one inside it."""
    return tuple(dict.fromkeys([*needs, *getattr(base, "needs", ())]))


def masked_scores(
    scores: Float[Tensor, "*b q k"], mask: Bool[Tensor, "..."] | None
) -> tuple[Float[Tensor, "*b q k"], Bool[Tensor, "*b q k"]]:
    """Scores in float32 or better, all of them finite, and where attending is allowed.

    A score of −∞ counts as masked; one of +∞ becomes so large that it takes the whole row, alone or with its equals.
    An empty row becomes constant, so that every alignment stays finite on it; `zero_masked` then makes it zero.

    >>> filled, allowed = masked_scores(torch.tensor([[1.0, 2.0, -math.inf]]), torch.tensor([[True, False, True]]))
    >>> allowed.int(), filled[0, 0]
    (tensor([[1, 0, 0]], dtype=torch.int32), tensor(1.))
    """
    if mask is not None:
        check_boolean(mask)
    if scores.shape[-1] == 0:
        raise ShapeError("there are no keys to align", got=list(scores.shape), cure="attend gives zeros for no keys")
    allowed = scores != -math.inf
    if mask is not None:
        allowed = allowed & mask
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    limit = torch.finfo(scores.dtype).max / 8  # differences of such numbers are finite, and masked keys are lowest
    return scores.clamp(-limit, limit).masked_fill(~allowed, -2 * limit), allowed


def zero_masked(weights: Tensor, allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """Exactly zero, with zero gradient, wherever attending is not allowed; in the caller's dtype."""
    return weights.masked_fill(~allowed, 0.0).to(dtype)
