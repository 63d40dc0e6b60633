"""Multi-head attention (Vaswani 2017): projections and heads around any `Attention`."""

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attention import Attention
from regard.attention.fixed_cache import FixedCache, attend_in_place
from regard.attention.mask import Mask, as_mask
from regard.attention.output import AttentionOutput, Cache, CallOptions, Memory
from regard.attention.position import Learned, Position, Relative, Sinusoidal, type_of_products
from regard.base import ConfigError, ShapeError
from regard.kernels.small import linears
from regard.score import Prepared, ScaledDot
from regard.score.score import check_type


class MultiHead(nn.Module):
    """head_i = attention(Q W_i^Q, K W_i^K, V W_i^V), joined and projected: [*b q dim], [*b k key_dim] → [*b q dim].

    - `dim`: the width of queries and of the result.
    - `num_heads`: how many heads there are; each has the width `head_dim`, or dim / num_heads where that is None.
    - `num_key_heads`: how many heads keys and values have. Where they are fewer than `num_heads`, several query heads
      share each of them (grouped-query attention). None: as many as `num_heads`.
    - `key_dim`, `value_dim`: the widths of keys and of values before their projection. None: `dim` for keys, and for
      values the width of keys.
    - `bias`: whether the four projections add a learnt vector.
    - `attention`: the score and the alignment, which act on each head and are shared by all; it also holds the dropout
      of weights. None: scaled dot product and softmax.
    - `position`: what turns queries and keys by their place or adds to their scores: `Rotary`, `ALiBi`, `Relative`.
    - `impl`: the implementation by name, where no `attention` is given that says it; see docs/attention.md.

    >>> layer = MultiHead(8, num_heads=2)
    >>> out = layer(torch.zeros(1, 3, 8), mask=Mask.causal(), need_weights=True)
    >>> out.context.shape, out.weights[0, 0].detach()
    (torch.Size([1, 3, 8]), tensor([[1.0000, 0.0000, 0.0000],
            [0.5000, 0.5000, 0.0000],
            [0.3333, 0.3333, 0.3333]]))
    """

    def __init__(
        self,
        dim: int,
        *,
        num_heads: int,
        head_dim: int | None = None,
        num_key_heads: int | None = None,
        key_dim: int | None = None,
        value_dim: int | None = None,
        bias: bool = True,
        attention: Attention | None = None,
        position: Position | None = None,
        impl: str | None = None,
    ) -> None:
        super().__init__()
        num_key_heads = num_heads if num_key_heads is None else num_key_heads
        _check_sizes(dim, num_heads, num_key_heads, head_dim)
        head_dim = dim // num_heads if head_dim is None else head_dim
        if attention is not None and not isinstance(attention, Attention):
            raise ConfigError("attention", got=type(attention).__name__, expected="Attention(score=…, align=…)")
        if attention is not None and impl is not None:
            raise ConfigError("impl is said twice", got="attention and impl", cure="write Attention(…, impl=…)")
        _check_position(position, attention)
        self.dim, self.num_heads, self.num_key_heads = dim, num_heads, num_key_heads
        key_width = num_key_heads * head_dim
        self.to_query = nn.Linear(dim, num_heads * head_dim, bias=bias)
        key_dim = dim if key_dim is None else key_dim
        self.to_keys = nn.Linear(key_dim, key_width, bias=bias)
        self.to_values = nn.Linear(key_dim if value_dim is None else value_dim, key_width, bias=bias)
        self.to_output = nn.Linear(num_heads * head_dim, dim, bias=bias)
        for layer in (self.to_query, self.to_keys, self.to_values, self.to_output):
            nn.init.xavier_uniform_(layer.weight)
            if bias:
                nn.init.zeros_(layer.bias)
        self.attention = attention if attention is not None else Attention(impl=impl or "auto")
        self.position = position

    def forward(
        self,
        query: Float[Tensor, "*#b q d"],
        keys: Float[Tensor, "*#b k e"] | Memory | None = None,
        values: Float[Tensor, "*#b k v"] | None = None,
        *,
        mask: Mask | Tensor | None = None,
        bias: Tensor | None = None,
        previous: Float[Tensor, "..."] | None = None,
        step: int | Tensor = 0,
        cache: Cache | FixedCache | None = None,
        earlier: Float[Tensor, "*#b m d"] | None = None,
        distances: Float[Tensor, "w r"] | None = None,
        need_weights: bool = False,
    ) -> AttentionOutput:
        """Self-attention with `query` alone, cross-attention with `keys` (and `values`, the same unless told).

        - `keys` may be `layer.prepare(memory)`, which many calls then share.
        - `mask`: True = may attend; its leading axes are batch axes, and all heads share it unless it has their axis.
        - `bias` broadcasts to [*b h q k] and is added to the scores.
        - `previous` [*b h k] and `step` are for scores and alignments with history: the weights of the query before,
          and the time of the first query.
        - `cache` makes self-attention incremental: pass `Cache()` first, then `out.cache` of the step before. With a
          `FixedCache` the query is one item of each sequence, and sees itself and all before it.
        - `earlier` [*b m dim] are states of the same sequence before `query`, such as the segment before: they are
          seen, but do not ask.
        - `distances` is the table of `Relative.distances` for these queries and keys, where several layers share it;
          None: a position that needs one makes it.
        - `need_weights` gives `out.weights` [*b h q k].
        """
        self._check("query", query, self.to_query)
        self._check_source(keys, cache, earlier)
        if distances is not None and (type(self.position) is not Relative or isinstance(cache, FixedCache)):
            got = "a fixed cache" if isinstance(cache, FixedCache) else type(self.position).__name__
            raise ConfigError("a table of distances is for position=Relative", got=got, cure="leave distances= out")
        if isinstance(cache, FixedCache):
            return attend_in_place(self, query, cache, need_weights=need_weights)
        if earlier is not None:
            earlier, query = _as_projected(earlier), _as_projected(query)
            keys = torch.cat([earlier, query], -2)
        alone = keys is None and values is None  # self-attention: one input for three projections
        if alone:
            self._check("keys", query, self.to_keys)
            self._check("values", query, self.to_values)
        raw_query, *both = linears(query, *(self._projections() if alone else (self.to_query,)))
        query_heads = _split(raw_query, self.num_heads)  # [*b h q d]
        key_heads: Tensor | Prepared
        by_distance = None
        if isinstance(keys, Memory):
            if values is not None:
                raise ConfigError(
                    "a prepared memory has its values",
                    got="values as well",
                    cure="leave values out of the call: layer.prepare(keys, values) takes them",
                )
            key_heads, value_heads = Prepared(self._repeat(keys.keys.keys)), keys.values
        else:
            if alone:
                raw_heads, value_heads = (_split(each, self.num_key_heads) for each in both)
            else:
                raw_heads, value_heads = self._project(query if keys is None else keys, values)
            if cache is not None:
                cache = cache.append(raw_heads, value_heads)
                assert cache.keys is not None
                assert cache.values is not None
                raw_heads, value_heads = cache.keys, cache.values
            key_heads = raw_heads = self._repeat(raw_heads)
            if type(self.position) is Relative:
                query_heads, key_heads, by_distance = self.position(
                    query_heads, raw_heads, shifted=False, distances=distances
                )
            elif self.position is not None:
                query_heads, key_heads, added = self.position(query_heads, raw_heads)
                bias = added if bias is None else bias if added is None else bias + added
        dropout = self.attention.dropout if self.attention.training else 0.0
        options = CallOptions(as_mask(mask), bias, previous, step, dropout, by_distance)
        values = self._repeat(value_heads)
        out = self.attention.run(
            query_heads, key_heads, values, options, need_weights=need_weights, trace_as=self, heads=True
        )
        (context,) = linears(out.context.transpose(-2, -3).flatten(-2), self.to_output)  # [*b h q d] → [*b q (h d)]
        return AttentionOutput(context, out.weights, out.log_prob, out.entropy, cache)

    if TYPE_CHECKING:
        __call__ = forward

    def prepare(self, keys: Tensor, values: Tensor | None = None) -> Memory:
        """Keys and values after all projections, those of the score too: pass it as `keys` to any number of calls."""
        if self.position is not None:
            raise ConfigError("positions depend on the query", got=type(self.position).__name__, cure="pass raw keys")
        key_heads, value_heads = self._project(keys, values)
        return Memory(self.attention.prepare(key_heads), value_heads)

    @classmethod
    def from_torch(cls, other: nn.MultiheadAttention, *, attention: Attention | None = None) -> "MultiHead":
        """A copy of `torch.nn.MultiheadAttention`, weights and all. Its masks mean the opposite of ours."""
        if not isinstance(other, nn.MultiheadAttention):
            raise ConfigError("from_torch", got=type(other).__name__, expected="torch.nn.MultiheadAttention")
        if not other.batch_first:
            raise ConfigError(
                "this layer takes time first, MultiHead takes batch first",
                got="batch_first=False",
                cure="set other.batch_first = True, and transpose its inputs from now on",
            )
        if other.bias_k is not None or other.add_zero_attn:
            raise ConfigError("add_bias_kv and add_zero_attn have no counterpart", cure="build the layer without them")
        layer = cls(
            other.embed_dim,
            num_heads=other.num_heads,
            key_dim=other.kdim,
            value_dim=other.vdim,
            bias=other.in_proj_bias is not None,
            attention=attention or Attention(dropout=other.dropout),
        )
        layer = layer.to(other.out_proj.weight.device, other.out_proj.weight.dtype).train(other.training)
        packed = other.in_proj_weight is not None
        weights = (
            other.in_proj_weight.chunk(3) if packed else (other.q_proj_weight, other.k_proj_weight, other.v_proj_weight)
        )
        projections = (layer.to_query, layer.to_keys, layer.to_values)
        with torch.no_grad():
            for projection, weight in zip(projections, weights, strict=True):
                projection.weight.copy_(weight)
            layer.to_output.weight.copy_(other.out_proj.weight)
            if other.in_proj_bias is not None:
                for projection, added in zip(projections, other.in_proj_bias.chunk(3), strict=True):
                    projection.bias.copy_(added)
                layer.to_output.bias.copy_(other.out_proj.bias)
        layer.requires_grad_(other.out_proj.weight.requires_grad)
        return layer

    def _project(self, keys: Tensor, values: Tensor | None) -> tuple[Tensor, Tensor]:
        self._check("keys", keys, self.to_keys)
        if values is None and self.to_values.in_features == self.to_keys.in_features:
            both = linears(keys, self.to_keys, self.to_values)
        else:
            values = keys if values is None else values
            self._check("values", values, self.to_values)
            both = self.to_keys(keys), self.to_values(values)
        raw_keys, raw_values = both
        return _split(raw_keys, self.num_key_heads), _split(raw_values, self.num_key_heads)

    def _projections(self) -> tuple[nn.Linear, ...]:
        return self.to_query, self.to_keys, self.to_values

    def _repeat(self, heads: Tensor) -> Tensor:
        """Each key head once for every query head that it serves."""
        groups = self.num_heads // self.num_key_heads
        return heads if groups == 1 else heads.repeat_interleave(groups, -3)

    def _check_source(self, keys: object, cache: object, earlier: object) -> None:
        if cache is not None and not isinstance(cache, Cache | FixedCache):
            raise ConfigError("cache", got=type(cache).__name__, expected="Cache() at first, then out.cache")
        if sum(source is not None for source in (keys, cache, earlier)) > 1:
            raise ConfigError(
                "keys=, cache= and earlier= exclude each other",
                got=", ".join(n for n, p in (("keys", keys), ("cache", cache), ("earlier", earlier)) if p is not None),
                cure="pass keys for cross-attention, such as layer.prepare(memory); leave the others out",
            )
        if keys is not None and self.position is not None:
            raise ConfigError(
                "positions are for self-attention",
                got=f"keys, and {type(self.position).__name__}",
                cure="pass earlier states of the same sequence as earlier=; leave position out for cross-attention",
            )

    def _check(self, name: str, tensor: Tensor, layer: nn.Linear) -> None:
        if not isinstance(tensor, Tensor):
            raise ShapeError(
                f"{name} of MultiHead", got=type(tensor).__name__, expected="a tensor, or layer.prepare(…)"
            )
        if tensor.ndim < 2 or tensor.shape[-1] != layer.in_features:
            raise ShapeError(
                f"{name} of MultiHead",
                got=list(tensor.shape),
                expected=f"[..., {name}, {layer.in_features}]",
                cure="set the widths: MultiHead(dim, key_dim=…, value_dim=…)",
            )
        check_type(name, tensor, layer.weight)

    def extra_repr(self) -> str:
        """Width and heads."""
        groups = f", num_key_heads={self.num_key_heads}" if self.num_key_heads != self.num_heads else ""
        return f"{self.dim}, num_heads={self.num_heads}{groups}"


def _as_projected(x: Tensor) -> Tensor:
    """`x` in the type that autocast would give it in each of several projections: one copy serves them all."""
    return x.to(type_of_products(x))


def _split(x: Tensor, heads: int) -> Tensor:
    return x.view(*x.shape[:-1], heads, x.shape[-1] // heads).transpose(-2, -3)  # [*b t (h d)] → [*b h t d]


def _check_position(position: object, attention: Attention | None) -> None:
    if position is None:
        return
    if isinstance(position, Sinusoidal | Learned):
        name = type(position).__name__
        raise ConfigError(
            "this position is added to the input", got=name, cure="write x = position(x) before the layer"
        )
    if isinstance(position, type) or not callable(position):
        raise ConfigError("position must be an object", got=repr(position), expected="one such as Rotary()")
    if isinstance(position, Relative) and attention is not None and type(attention.score) is not ScaledDot:
        raise ConfigError(
            "Relative goes with ScaledDot", got=type(attention.score).__name__, cure="use score=ScaledDot()"
        )


def _check_sizes(dim: int, num_heads: int, num_key_heads: int, head_dim: int | None) -> None:
    if num_heads < 1 or num_key_heads < 1:
        raise ConfigError(
            "the number of heads",
            got=f"num_heads={num_heads}, num_key_heads={num_key_heads}",
            expected="1 or more",
            cure="use num_heads=1 for plain attention with projections",
        )
    if head_dim is not None and (head_dim < 1 or dim < 1):
        got = f"dim={dim}, head_dim={head_dim}"
        raise ConfigError("the widths of MultiHead", got=got, expected="1 or more", cure="leave head_dim out")
    if head_dim is None and (dim < 1 or dim % num_heads):
        near = max(1, round(dim / num_heads)) * num_heads
        raise ConfigError(
            "num_heads does not divide dim",
            got=f"dim={dim}, num_heads={num_heads}",
            expected="a multiple of num_heads",
            cure=f"use dim={near}, or a number of heads that divides {dim}",
        )
    if num_heads % num_key_heads:
        raise ConfigError(
            "num_key_heads does not divide num_heads",
            got=f"num_heads={num_heads}, num_key_heads={num_key_heads}",
            expected="the same number of query heads for each key head",
            cure=f"use a number that divides {num_heads}",
        )
