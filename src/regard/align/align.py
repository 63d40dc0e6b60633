"""What every alignment has in common: one result type, and one rule for masked scores and empty rows."""

import math
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.align.segment import Segments
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

    `align.on_edges(scores, segments)` does the same for scores [*b e] of an edge list. An alignment that can do it, as
    the place of a key does not matter to it, writes `align_edges`.

    Models choose an alignment by its name: `for_queries` builds it.
    """

    needs: tuple[str, ...] = ()
    has_edge_form: ClassVar[bool] = False  # whether `align_edges` holds for this class; found out when a class is made

    def __init_subclass__(cls) -> None:
        """A class has an edge form if its `align_edges` is as new as its `forward`."""
        super().__init_subclass__()
        newest = next((kind for kind in cls.__mro__ if {"align_edges", "forward"} & set(vars(kind))), Align)
        cls.has_edge_form = newest is not Align and "align_edges" in vars(newest)

    @classmethod
    def for_queries(cls, query_dim: int, *, window: int) -> "Align":
        """The alignment for queries of this width, as the settings of a model choose it by name.

        An alignment whose constructor needs a width or a window, or has another default there, overrides this method.
        """
        return cls()

    def align_edges(self, scores: Tensor, segments: Segments, mask: Tensor | None = None) -> Alignment:
        """The alignment of scores [*b e] over the edges of each query."""
        raise NotImplementedError(f"{type(self).__name__} must define align_edges(scores, segments, mask)")

    def on_edges(
        self, scores: Float[Tensor, "*b e"], segments: Segments, mask: Bool[Tensor, "..."] | None = None
    ) -> Alignment:
        """The alignment of scores [*b e]; `segments` says which query each edge belongs to, `mask` [*b e] which count.

        Weights are [*b e], log-probability and entropy of a sample [*b q].
        """
        if not self.has_edge_form:
            raise ConfigError(
                f"{type(self).__name__} has no edge form",
                expected="an alignment to which the place of a key does not matter",
                cure="define align_edges(scores, segments, mask), or use attend(…, mask=edges.mask())",
            )
        if mask is not None:
            check_boolean(mask)
        if scores.shape[-1] != segments.rows.shape[0]:
            got = f"{scores.shape[-1]} scores and {segments.rows.shape[0]} edges"
            raise ShapeError("scores and edges do not fit", got=got, expected="one score for each edge")
        return self.align_edges(scores, segments, mask)

    if TYPE_CHECKING:  # a new alignment writes forward(scores, mask=None, *, …what it needs) -> Alignment

        def __call__(self, *args: Any, **kwargs: Any) -> Alignment:
            """The alignment of scores [*b q k] under a mask."""


def check_boolean(mask: Any, meaning: str = "True = may attend") -> None:
    """A mask is boolean; numbers are a bias, or must say what they mean."""
    if isinstance(mask, Tensor) and mask.dtype == torch.bool:
        return
    if isinstance(mask, Tensor) and mask.ndim == 1 and not mask.is_floating_point():
        cure = "use Mask.padding(lengths) if these are lengths"
    elif isinstance(mask, Tensor) and not mask.is_floating_point():
        cure = "write mask == 1 if 1 stands for: may attend"
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


def align_edges_with(base: Any, scores: Tensor, segments: Segments, mask: Tensor) -> Alignment:
    """The alignment inside another one, over an edge list."""
    if not isinstance(base, Align):
        name = getattr(base, "__name__", type(base).__name__)
        raise ConfigError("a plain function aligns rows, not edges", got=name, expected="an Align, such as Softmax()")
    return base.on_edges(scores, segments, mask)


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
        raise ShapeError(
            "there are no keys to align",
            got=list(scores.shape),
            cure="use attend, which gives zeros where there are no keys",
        )
    return finite(scores, mask)


def finite(scores: Float[Tensor, "*b n"], mask: Tensor | None) -> tuple[Float[Tensor, "*b n"], Bool[Tensor, "*b n"]]:
    """What `masked_scores` does, for the scores [*b e] of an edge list too."""
    allowed = scores != -math.inf
    if mask is not None:
        allowed = allowed & mask
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    limit = torch.finfo(scores.dtype).max / 8  # differences of such numbers are finite, and masked keys are lowest
    return scores.clamp(-limit, limit).masked_fill(~allowed, -2 * limit), allowed


def zero_masked(weights: Tensor, allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """Exactly zero, with zero gradient, wherever attending is not allowed; in the caller's dtype."""
    return weights.masked_fill(~allowed, 0.0).to(dtype)
