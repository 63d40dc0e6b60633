"""What every score has in common: keys are prepared once, then compared with any number of queries."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.base import ConfigError, ShapeError
from regard.kernels.derivatives import without_autocast
from regard.score.edge import Edges


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


class HalvesForm(NamedTuple):
    """A score written as LeakyReLU(query + keys) of one number each, which is what the kernel over edges computes."""

    query: Tensor  # [*b q]
    keys: Tensor  # [*b k]
    slope: float  # below zero


class Score(nn.Module):
    """`score(query, keys)` gives one number for each pair: [*b q d], [*b k f] → [*b q k].

    A new score writes `compare`, and `prepare` if part of the work depends on the keys alone. Nothing is
    remembered in the module: what `prepare` returns belongs to the caller, so one module serves many memories.

    `needs` names what a score takes from history: `"previous"` is the weights of the query before, [*b k].

    `score.on_edges(query, keys, edges)` gives the numbers of the pairs of an edge list alone, [*b e]. Scores that are
    dot products or additive have this form by themselves; another one writes `compare_edges`, if it judges each pair
    by itself.

    Models choose a score by its name: `for_widths` builds it. A score whose constructor takes widths writes its own.
    """

    needs: ClassVar[tuple[str, ...]] = ()
    is_dot: ClassVar[bool] = False  # whether `as_dot` holds for this class; found out when a class is made
    is_additive: ClassVar[bool] = False  # the same of `as_additive`
    is_halves: ClassVar[bool] = False  # the same of `as_halves`
    has_edge_form: ClassVar[bool] = False  # the same of `compare_edges`
    depends_on_place: ClassVar[bool] = False  # whether a key that moves to another place gets another score

    def __init_subclass__(cls) -> None:
        """A class has a form if its `as_dot`, `as_additive` or `as_halves` is as new as its `compare` and `forward`."""
        super().__init_subclass__()
        forms = {"as_dot", "as_additive", "as_halves"}
        newest = next(kind for kind in cls.__mro__ if (forms | {"compare", "forward"}) & set(vars(kind)))
        if newest is not Score:
            cls.is_dot, cls.is_additive, cls.is_halves = (
                form in vars(newest) for form in ("as_dot", "as_additive", "as_halves")
            )
        pairwise = next(kind for kind in cls.__mro__ if {"compare_edges", "compare", "forward"} & set(vars(kind)))
        own = pairwise is not Score and "compare_edges" in vars(pairwise)
        cls.has_edge_form = own or cls.is_dot or cls.is_additive

    @classmethod
    def for_widths(cls, query_dim: int, key_dim: int, *, hidden_dim: int, max_keys: int) -> "Score":
        """The score for queries and keys of these widths, as the settings of a model choose it by name.

        A score that is built without arguments compares equal widths; where they differ, both sides are projected to
        `hidden_dim`. A score that takes widths, or the largest number of keys, overrides this method.
        """
        try:
            plain = cls()
        except TypeError:
            raise ConfigError(
                f"{cls.__name__} cannot be built from its name",
                got="a constructor that needs arguments",
                cure=f"choose another score, build {cls.__name__} yourself, or let it define for_widths",
            ) from None
        return cls._projected_where_widths_differ(query_dim, key_dim, hidden_dim, lambda width: plain)

    @classmethod
    def _projected_where_widths_differ(
        cls, query_dim: int, key_dim: int, hidden_dim: int, build: Callable[[int], "Score"]
    ) -> "Score":
        """A score of one width: that of both sides or, after a projection of both sides, `hidden_dim`."""
        from regard.score.projected import Projected  # a score itself, so it imports this file

        if query_dim == key_dim:
            return build(query_dim)
        return Projected(build(hidden_dim), query_dim, key_dim, hidden_dim)

    def prepare(self, keys: Float[Tensor, "*#b k f"]) -> Prepared:
        """The part of the work that depends on the keys alone."""
        return Prepared(keys)

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores of queries [*b q d] against prepared keys [*b k a]."""
        raise NotImplementedError(f"{type(self).__name__} must define compare(query, prepared_keys)")

    def compare_edges(self, query: Tensor, keys: Tensor, edges: Edges) -> Tensor:
        """Scores [*b e] of the pairs of an edge list, from queries [*b q d] and prepared keys [*b k a]."""
        if self.is_dot:
            form = self.as_dot(query, keys)
            scores = edge_product(form.query, form.keys, edges)
            return scores if form.scale == 1.0 else scores * form.scale
        additive_form = self.as_additive(query, keys)
        mixed = torch.tanh(
            edges.at_targets(to_float32(additive_form.query)) + edges.at_sources(to_float32(additive_form.keys))
        )
        return product(mixed, additive_form.v.unsqueeze(0)).squeeze(-1)

    def as_dot(self, query: Tensor, keys: Tensor) -> DotForm:
        """This score as a scaled dot product with prepared keys, for scores that are one (`is_dot`)."""
        raise NotImplementedError(f"{type(self).__name__} is not a dot product")

    def as_additive(self, query: Tensor, keys: Tensor) -> AdditiveForm:
        """This score as vᵀ tanh(query + prepared keys), for scores that are one (`is_additive`)."""
        raise NotImplementedError(f"{type(self).__name__} is not additive")

    def as_halves(self, query: Tensor, keys: Tensor) -> HalvesForm:
        """This score as LeakyReLU(s_i + t_j) with prepared keys, for scores that are one (`is_halves`)."""
        raise NotImplementedError(f"{type(self).__name__} is not a sum of two halves")

    @property
    def features(self) -> int:
        """The width of both sides in `as_additive`."""
        raise NotImplementedError(f"{type(self).__name__} is not additive")

    def forward(self, query: Tensor, keys: Tensor | Prepared, **history: Any) -> Tensor:
        """Scores [*b q k]; `keys` may be raw or prepared."""
        prepared = keys if isinstance(keys, Prepared) else self.prepare(keys)
        return self.compare(query, prepared.keys, **history)

    def on_edges(self, query: Tensor, keys: Tensor | Prepared, edges: Edges) -> Tensor:
        """Scores [*b e] of the pairs of an edge list; `keys` may be raw or prepared. No tensor of all pairs is made."""
        if not self.has_edge_form:
            raise ConfigError(
                f"{type(self).__name__} has no edge form",
                expected="a score that judges each pair by itself",
                cure="define compare_edges(query, keys, edges), or use attend(…, mask=edges.mask())",
            )
        prepared = keys if isinstance(keys, Prepared) else self.prepare(keys)
        for name, tensor, size in (("query", query, edges.num_queries), ("keys", prepared.keys, edges.num_keys)):
            if tensor.shape[-2] != size:
                raise ShapeError(f"{name} and edges do not fit", got=tensor.shape[-2], expected=f"{size} items")
        return self.compare_edges(query, prepared.keys, edges)


def to_float32(x: Tensor) -> Tensor:
    """x in float32 or better, in which scores are formed: in half precision large ones overflow and near ones tie."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def common_type(*tensors: Tensor | None) -> torch.dtype:
    """The type that holds the numbers of all tensors without rounding: of bfloat16 and float16, float32.

    >>> common_type(torch.ones(1, dtype=torch.bfloat16), torch.ones(1), None)
    torch.float32
    """
    there = [tensor.dtype for tensor in tensors if tensor is not None]
    dtype = there[0]
    for other in there[1:]:
        dtype = torch.promote_types(dtype, other)
    return dtype


def wide_alike(query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Both in one type, float32 or better: float64, if one of them is."""
    dtype = torch.promote_types(common_type(query, keys), torch.float32)
    return query.to(dtype), keys.to(dtype)


def product(query: Tensor, keys: Tensor) -> Tensor:
    """q_i · k_j in float32 or better, under autocast too, as fused kernels do."""
    query, keys = wide_alike(query, keys)
    with without_autocast(query.device):
        return query @ keys.mT


def edge_product(query: Tensor, keys: Tensor, edges: Edges) -> Tensor:
    """q_i · k_j for the pairs of an edge list, [*b e], in float32 or better."""
    query, keys = wide_alike(query, keys)
    return (edges.at_targets(query) * edges.at_sources(keys)).sum(-1)


def check_width(name: str, tensor: Tensor, width: int, *, cure: str) -> None:
    """The last axis of `tensor` has the width that the layer was built for."""
    if tensor.shape[-1] != width:
        raise ShapeError(f"{name} has the wrong width", got=tensor.shape[-1], expected=width, cure=cure)


def check_type(name: str, tensor: Tensor, weight: Any) -> None:
    """`tensor` has the type of the weight that it is multiplied with, or autocast sees to it."""
    if not isinstance(weight, Tensor) or not weight.is_floating_point() or tensor.dtype == weight.dtype:
        return  # a layer with other weights, such as a quantised one, knows what to do
    is_cast = tensor.device.type != "meta" and torch.is_autocast_enabled(tensor.device.type)
    if is_cast and torch.float64 not in (tensor.dtype, weight.dtype):  # which it leaves alone
        return
    raise ConfigError(
        f"{name} has the wrong type",
        got=tensor.dtype,
        expected=f"{weight.dtype}, that of the layer's weights",
        cure=f"write {name}.to({weight.dtype}) or layer.to({tensor.dtype})",
    )


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
