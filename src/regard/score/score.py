"""What every score has in common: keys are prepared once, then compared with any number of queries."""

from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.base import ConfigError, ShapeError


class Prepared(NamedTuple):
    """Keys after the projection of a score: made once by `score.prepare(keys)`, then passed in place of the keys."""

    keys: Tensor  # [*b k a]


class DotForm(NamedTuple):
    """A score written as `scale · query @ keysᵀ`, which is what fused kernels compute."""

    query: Tensor  # [*b q a]
    keys: Tensor  # [*b k a]
    scale: float


class AdditiveForm(NamedTuple):
    """A score written as `vᵀ tanh(query + keys)`, which is what the additive kernels compute."""

    query: Tensor  # [*b q a]
    keys: Tensor  # [*b k a]
    v: Tensor  # [a]


class Score(nn.Module):
    """`score(query, keys)` gives one number for each pair: [*b q d], [*b k e] → [*b q k].

    A new score writes `compare`, and `prepare` if part of the work depends on the keys alone. Nothing is
    remembered in the module: what `prepare` returns belongs to the caller, so one module serves many memories.

    `needs` names what a score takes from history: `"previous"` is the weights of the query before, [*b k].
    """

    needs: ClassVar[tuple[str, ...]] = ()
    is_dot: ClassVar[bool] = False  # whether `as_dot` holds for this class; found out when a class is made
    is_additive: ClassVar[bool] = False  # the same of `as_additive`

    def __init_subclass__(cls) -> None:
        """A class has a form if its `as_dot` or `as_additive` is as new as its `compare` and `forward`."""
        super().__init_subclass__()
        forms = {"as_dot", "as_additive"}
        newest = next(kind for kind in cls.__mro__ if (forms | {"compare", "forward"}) & set(vars(kind)))
        if newest is not Score:
            cls.is_dot, cls.is_additive = ("as_dot" in vars(newest)), ("as_additive" in vars(newest))

    def prepare(self, keys: Float[Tensor, "*#b k e"]) -> Prepared:
        """The part of the work that depends on the keys alone."""
        return Prepared(keys)

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores of queries [*b q d] against prepared keys [*b k a]."""
        raise NotImplementedError(f"{type(self).__name__} must define compare(query, prepared_keys)")

    def as_dot(self, query: Tensor, keys: Tensor) -> DotForm:
        """This score as a scaled dot product with prepared keys, for scores that are one (`is_dot`)."""
        raise NotImplementedError(f"{type(self).__name__} is not a dot product")

    def as_additive(self, query: Tensor, keys: Tensor) -> AdditiveForm:
        """This score as vᵀ tanh(query + prepared keys), for scores that are one (`is_additive`)."""
        raise NotImplementedError(f"{type(self).__name__} is not additive")

    @property
    def features(self) -> int:
        """The width of both sides in `as_additive`."""
        raise NotImplementedError(f"{type(self).__name__} is not additive")

    def forward(self, query: Tensor, keys: Tensor | Prepared, **history: Any) -> Tensor:
        """Scores [*b q k]; `keys` may be raw or prepared."""
        prepared = keys if isinstance(keys, Prepared) else self.prepare(keys)
        return self.compare(query, prepared.keys, **history)


def wide(x: Tensor) -> Tensor:
    """x in float32 or better, in which scores are formed: in half precision large ones overflow and near ones tie."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def product(query: Tensor, keys: Tensor) -> Tensor:
    """q_i · k_j in float32 or better, under autocast too, as fused kernels do."""
    if torch.is_autocast_enabled(query.device.type):
        with torch.autocast(query.device.type, enabled=False):
            return wide(query) @ wide(keys).mT
    return wide(query) @ wide(keys).mT


def check_width(name: str, tensor: Tensor, width: int, *, cure: str) -> None:
    """The last axis of `tensor` has the width that the layer was built for."""
    if tensor.shape[-1] != width:
        raise ShapeError(f"{name} has the wrong width", got=tensor.shape[-1], expected=width, cure=cure)


def check_same_width(score: str, query: Tensor, keys: Tensor) -> None:
    """Query and keys can be multiplied."""
    if query.shape[-1] != keys.shape[-1]:
        raise ShapeError(
            f"{score} compares query and keys of one width",
            got=f"query {query.shape[-1]} and keys {keys.shape[-1]}",
            expected="the same last axis",
            cure=f"use General({query.shape[-1]}, {keys.shape[-1]}), or project one of them",
        )


def check_positive(what: str, **sizes: int | float) -> None:
    """Sizes and strengths of a layer are above zero."""
    for name, size in sizes.items():
        if not size > 0:
            raise ConfigError(f"{what} {name}", got=size, expected="more than 0", cure=f"pass a positive {name}")
