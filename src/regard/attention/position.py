"""Positions: added to the input (sinusoidal, learned), or to queries, keys and scores (rotary, ALiBi, relative).

Queries are the last ones when there are more keys than queries, as with a cache or a memory of earlier segments.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.base import ConfigError, ShapeError
from regard.score.score import product


class Positioned(NamedTuple):
    """Queries and keys that know where they stand, and what is added to the scores."""

    query: Tensor  # [*b h q d]
    keys: Tensor  # [*b h k d]
    bias: Tensor | None = None  # broadcasts to [*b h q k]; [*b h q w] if columns for distances are asked for


@runtime_checkable
class Position(Protocol):
    """What `MultiHead(position=…)` takes."""

    def __call__(self, query: Tensor, keys: Tensor) -> Positioned:
        """Queries [*b h q d] and keys [*b h k d], after their projection and before the score."""
        ...


def _angles(positions: Tensor, dim: int, base: float) -> Tensor:
    """pos / base^(2i/dim) for i = 0 … dim/2 − 1: [*p dim/2]."""
    exponents = torch.arange(0, dim, 2, device=positions.device, dtype=positions.dtype)
    frequency = torch.exp(exponents * (-math.log(base) / dim))
    return positions.unsqueeze(-1) * frequency


def _check_even(what: str, dim: int) -> None:
    if dim < 2 or dim % 2:
        raise ConfigError(
            f"{what} dim",
            got=dim,
            expected="an even number",
            cure="use an even width, as sine and cosine come in pairs",
        )


def type_of_products(x: Tensor) -> torch.dtype:
    """The type of a product of `x` and weights of its type: autocast gives float32 another one.

    >>> type_of_products(torch.zeros(2, dtype=torch.float64))
    torch.float64
    """
    kind = x.device.type
    if x.dtype != torch.float32 or kind == "meta" or not torch.is_autocast_enabled(kind):  # torch knows none of meta
        return x.dtype
    return torch.get_autocast_dtype(kind)


def sinusoid(positions: Float[Tensor, "*p"], dim: int, *, base: float = 10000.0) -> Float[Tensor, "*p {dim}"]:
    """PE(pos, 2i) = sin(pos / 10000^(2i/dim)), PE(pos, 2i+1) = cos(pos / 10000^(2i/dim)).

    A shift by n turns each pair by n / 10000^(2i/dim), whatever the position: PE(pos + n) = R_n PE(pos).

    >>> sinusoid(torch.tensor([0.0, 1.0]), 4)
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8415, 0.5403, 0.0100, 0.9999]])
    """
    _check_even("sinusoid", dim)
    angles = _angles(positions, dim, base)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)


class Sinusoidal(nn.Module):
    """Adds the sinusoid of each position to [*b t dim]; `offset`, a number or [*b], is the place of the first item."""

    def __init__(self, dim: int, *, base: float = 10000.0) -> None:
        super().__init__()
        _check_even("Sinusoidal", dim)
        self.dim, self.base = dim, base

    def forward(self, x: Tensor, *, offset: int | Tensor = 0) -> Tensor:
        """x plus its positions."""
        if x.shape[-1] != self.dim:
            raise ShapeError("input has the wrong width", got=x.shape[-1], expected=self.dim)
        dtype = torch.promote_types(x.dtype, torch.float32)
        if isinstance(offset, Tensor) and offset.ndim > 0:  # one for each sentence: batch axes come first
            if offset.ndim > x.ndim - 2:
                raise ShapeError("offset has too many axes", got=list(offset.shape), expected="one for each sentence")
            offset = offset.reshape(*offset.shape, *[1] * (x.ndim - 1 - offset.ndim))
        positions = torch.arange(x.shape[-2], device=x.device, dtype=dtype) + offset
        return x + sinusoid(positions, self.dim, base=self.base).to(x.dtype)

    def table(self, length: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """The sinusoids of the first places [length dim], kept for the next call."""
        size = 1 << max(0, length - 1).bit_length()
        capturing = device.type == "cuda" and torch.cuda.is_current_stream_capturing()
        made = _kept_table if not capturing or (size, self.dim, self.base, dtype, device) in _KEPT else _new_table
        return made(size, self.dim, self.base, dtype, device)[:length]

    def extra_repr(self) -> str:
        """The width."""
        return f"{self.dim}"


_KEPT: dict[tuple[int, int, float, torch.dtype, torch.device], Tensor] = {}  # never let go: captured graphs read them


def _kept_table(*what: Any) -> Tensor:
    if what not in _KEPT:
        _KEPT[what] = _new_table(*what)
    return _KEPT[what]


def _new_table(size: int, dim: int, base: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False), torch.no_grad():
        positions = torch.arange(size, device=device, dtype=torch.promote_types(dtype, torch.float32))
        return sinusoid(positions, dim, base=base).to(dtype)


class Learned(nn.Module):
    """Adds a learnt vector for each of `max_positions` positions to [*b t dim].

    `offset` is the place of the first item: a number, or a tensor without axes, which an exported graph can take.
    """

    def __init__(self, max_positions: int, dim: int) -> None:
        super().__init__()
        if max_positions < 1 or dim < 1:
            raise ConfigError(
                "Learned positions", got=f"max_positions={max_positions}, dim={dim}", expected="1 or more"
            )
        self.weight = nn.Parameter(torch.empty(max_positions, dim))
        nn.init.normal_(self.weight, std=dim**-0.5)

    def forward(self, x: Tensor, *, offset: int | Tensor = 0) -> Tensor:
        """x plus its positions."""
        if x.shape[-1] != self.weight.shape[1]:
            raise ShapeError("input has the wrong width", got=x.shape[-1], expected=self.weight.shape[1])
        if isinstance(offset, Tensor):  # its value is not looked at: a place that does not exist is an IndexError
            places = offset + torch.arange(x.shape[-2], device=x.device)
            return x + F.embedding(places, self.weight).to(x.dtype)
        end = offset + x.shape[-2]
        if offset < 0 or end > self.weight.shape[0]:
            raise ShapeError(
                "there is no vector for some position",
                got=f"positions {offset} to {end - 1}",
                expected=f"0 to {self.weight.shape[0] - 1}",
                cure="build Learned with a larger max_positions, or use Sinusoidal",
            )
        return x + self.weight[offset:end].to(x.dtype)

    def extra_repr(self) -> str:
        """Table size."""
        return f"max_positions={self.weight.shape[0]}, dim={self.weight.shape[1]}"


def rotate(
    x: Float[Tensor, "*b t d"], positions: Float[Tensor, " t"], *, base: float = 10000.0
) -> Float[Tensor, "*b t d"]:
    """Each pair (x_2i, x_2i+1) turned by the angle pos / base^(2i/d) (Su 2021): products then depend on distance alone.

    >>> rotate(torch.tensor([[1.0, 0.0]]), torch.tensor([math.pi / 2])).round(decimals=4).abs()
    tensor([[0., 1.]])
    """
    angles = _angles(positions, x.shape[-1], base)
    sine, cosine = angles.sin().to(x.dtype), angles.cos().to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], -1).flatten(-2)


def _places(query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Positions of queries [q] and keys [k]; the last query stands at the last key."""
    num_queries, num_keys = query.shape[-2], keys.shape[-2]
    dtype = torch.promote_types(query.dtype, torch.float32)
    positions = torch.arange(min(0, num_keys - num_queries), num_keys, device=query.device, dtype=dtype)
    return positions[-num_queries:] if num_queries else positions[:0], positions[positions.shape[0] - num_keys :]


class Rotary(nn.Module):
    """Rotary positions: queries and keys are turned, scores depend on their distance."""

    def __init__(self, *, base: float = 10000.0) -> None:
        super().__init__()
        self.base = base

    def forward(self, query: Tensor, keys: Tensor) -> Positioned:
        """Turned queries and keys."""
        _check_even("Rotary head", query.shape[-1])
        places = _places(query, keys)
        return Positioned(rotate(query, places[0], base=self.base), rotate(keys, places[1], base=self.base))


class ALiBi(nn.Module):
    """Attention with linear biases (Press 2022): −slope_h · |distance| is added to the scores of head h.

    >>> ALiBi(4).slopes
    tensor([0.2500, 0.0625, 0.0156, 0.0039])
    """

    slopes: Tensor

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        if num_heads < 1:
            raise ConfigError("ALiBi num_heads", got=num_heads, expected="1 or more")
        power = 2 ** math.floor(math.log2(num_heads))  # heads beyond a power of two take every other slope of the next
        first = [2 ** (-8 * (i + 1) / power) for i in range(power)]
        rest = [2 ** (-4 * (2 * i + 1) / power) for i in range(num_heads - power)]
        self.register_buffer("slopes", torch.tensor(first + rest), persistent=False)

    def forward(self, query: Tensor, keys: Tensor) -> Positioned:
        """Queries and keys as they are, and the bias [h q k]."""
        if query.shape[-3] != self.slopes.shape[0]:
            raise ShapeError(
                "ALiBi has a slope for each head", got=f"{query.shape[-3]} heads", expected=len(self.slopes)
            )
        query_places, key_places = _places(query, keys)
        distance = (query_places.unsqueeze(-1) - key_places).abs()
        return Positioned(query, keys, -self.slopes[:, None, None] * distance)  # wide, as scores are


def relative_shift(scores: Float[Tensor, "*b q w"], num_keys: int) -> Float[Tensor, "*b q {num_keys}"]:
    """From distance to key. Column c of the input is for distance k − 1 − c, from k−1 down to −(q−1), w = k + q − 1;
    column j of the result is for key j, whose distance from query i (the queries are the last ones) is i + k − q − j.

    One pad and two views, as in Transformer-XL, but with columns for later keys too, so that no entry is garbage. With
    w = k there are no such columns, as in Transformer-XL itself: then the entries of later keys are those of other
    rows, and a causal mask must hide them.

    >>> relative_shift(torch.tensor([[1, 0, -1], [1, 0, -1]]).float(), num_keys=2)
    tensor([[ 0., -1.],
            [ 1.,  0.]])
    """
    num_queries, width = scores.shape[-2:]
    if width not in (num_keys + num_queries - 1, num_keys):
        expected = f"{num_keys} + {num_queries} − 1, or {num_keys} below a causal mask"
        raise ShapeError("columns of relative scores", got=width, expected=expected)
    padded = F.pad(scores, (1, 0)).flatten(-2)[..., num_queries:]
    return padded.view(*scores.shape[:-2], num_queries, width)[..., :num_keys]


class Relative(nn.Module):
    """The relative positions of Transformer-XL (Dai 2019), for heads that score with `ScaledDot`:

    e_ij = (q_i·k_j + q_i·W R_{i−j} + u·k_j + v·W R_{i−j}) / √d
            content   position        global content and position

    u is added to the queries; the terms with R (sinusoids of the distance) are the bias.

    - `causal`: the layer always has a causal mask. Then the bias of later keys is not computed, which saves a third of
      the work where the memory is as long as the text, and its entries there mean nothing.
    - `wide`: the bias is float32 or better, as scores are. False rounds it to the type of the query, so that fused
      kernels of half precision can take it.
    """

    def __init__(
        self, num_heads: int, head_dim: int, *, dim: int | None = None, causal: bool = False, wide: bool = True
    ) -> None:
        super().__init__()
        dim = dim or num_heads * head_dim
        if num_heads < 1 or head_dim < 1:
            raise ConfigError("Relative", got=f"num_heads={num_heads}, head_dim={head_dim}", expected="1 or more")
        _check_even("Relative", dim)
        self.dim, self.causal, self.wide = dim, causal, wide
        self.to_keys = nn.Linear(dim, num_heads * head_dim, bias=False)  # W
        self.content = nn.Parameter(torch.zeros(num_heads, 1, head_dim))  # u
        self.place = nn.Parameter(torch.zeros(num_heads, 1, head_dim))  # v

    def distances(self, num_queries: int, num_keys: int, *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """The sinusoids of all distances between so many queries and keys [w dim], the farthest key first.

        Layers that see equally many queries and keys can share one table: it has no parameters.
        """
        wide = torch.promote_types(dtype, torch.float32)
        places = torch.arange(num_keys - 1, self._nearest(num_queries, num_keys) - 1, -1, device=device, dtype=wide)
        return sinusoid(places, self.dim).to(dtype)

    def _nearest(self, num_queries: int, num_keys: int) -> int:
        """The smallest distance that has a column; it is negative where queries see later keys."""
        return 0 if self.causal and num_queries <= num_keys else 1 - num_queries

    def forward(
        self, query: Tensor, keys: Tensor, *, shifted: bool = True, distances: Tensor | None = None
    ) -> Positioned:
        """Queries plus u, keys as they are, and the bias [*b h q k].

        - Without `shifted` the bias is as `relative_shift` takes it, [*b h q w]: a kernel that reads it so needs no
          copy.
        - `distances` is the table that the method `distances` makes, where several layers share it. A table of another
          type or on another device than the query is made anew.
        """
        num_heads, _, head_dim = self.content.shape
        if (query.shape[-3], query.shape[-1]) != (num_heads, head_dim):
            raise ShapeError(
                "Relative was built for other heads",
                got=f"{query.shape[-3]} heads of width {query.shape[-1]}",
                expected=f"{num_heads} of width {head_dim}",
            )
        num_queries, num_keys = query.shape[-2], keys.shape[-2]
        if 0 in (num_queries, num_keys):
            return Positioned(query + self.content, keys)  # of no pairs there is no distance
        shape = (num_keys - self._nearest(num_queries, num_keys), self.dim)
        if distances is not None and distances.shape != shape:
            raise ShapeError("the table of distances is another one", got=list(distances.shape), expected=list(shape))
        if distances is None or (distances.dtype, distances.device) != (query.dtype, query.device):
            distances = self.distances(num_queries, num_keys, dtype=query.dtype, device=query.device)
        projected = self.to_keys(distances).unflatten(-1, (num_heads, head_dim)).transpose(-2, -3)  # [h w d]
        projected = projected * head_dim**-0.5
        if self.wide:
            asking, by_distance = query + self.content, _for_all_items(product, query + self.place, projected)
        else:  # below autocast u, v and the product by a number are float32
            content, place, projected = (x.to(query.dtype) for x in (self.content, self.place, projected))
            asking = query + content
            by_distance = _for_all_items(lambda left, right: left @ right.mT, query + place, projected)
        return Positioned(asking, keys, relative_shift(by_distance, num_keys) if shifted else by_distance)


def _for_all_items(multiply: Callable[[Tensor, Tensor], Tensor], query: Tensor, projected: Tensor) -> Tensor:
    """[*b h q d] and [h w d] → [*b h q w] by one product for each head: `projected` is not repeated for each item."""
    by_head = query.movedim(-3, 0)  # [h *b q d]
    made = multiply(by_head.reshape(len(by_head), -1, query.shape[-1]), projected)
    return made.reshape(*by_head.shape[:-1], made.shape[-1]).movedim(0, -3)
