"""A cache of fixed size: self-attention of one new item, whose keys and values are written where they stay.

All shapes are known before the first step, and the number of the step is on the device. So a captured graph can hold
the step, and nothing is copied but the new item.
"""

from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.align import Softmax
from regard.attention.mask import Mask
from regard.attention.output import AttentionOutput, CallOptions
from regard.attention.position import ALiBi, Relative, Rotary, rotate, sinusoid
from regard.attention.tracing import watched
from regard.base import ConfigError
from regard.kernels.derivatives import transformed
from regard.kernels.limits import are_few
from regard.kernels.small import linears
from regard.score import ScaledDot
from regard.score.score import product

if TYPE_CHECKING:
    from regard.attention.multihead import MultiHead


class FixedCache(NamedTuple):
    """Keys and values with room for all steps, of which the first `length` are filled: `MultiHead` writes into them.

    Where positions are rotary, the keys are already turned.
    """

    keys: Tensor  # [n g t d]
    values: Tensor  # [n g t d]
    length: Tensor  # one number, on the device

    @staticmethod
    def empty(layer: "MultiHead", rows: int, steps: int, length: Tensor, *, like: Tensor) -> "FixedCache":
        """Room for `steps` items of `rows` sequences, in the type and on the device of `like`."""
        heads, width = layer.num_key_heads, layer.to_keys.out_features // layer.num_key_heads
        keys = like.new_zeros(rows, heads, steps, width)
        return FixedCache(keys, torch.zeros_like(keys), length)

    def keep(self, origin: Tensor | None) -> None:
        """The rows of `origin`, in this order, in the same places."""
        if origin is not None:
            for tensor in (self.keys, self.values):
                tensor.copy_(tensor.index_select(0, origin))


def attend_in_place(
    layer: "MultiHead", x: Float[Tensor, "n t d"], cache: FixedCache, *, need_weights: bool
) -> AttentionOutput:
    """Self-attention of one new item to itself and to all before it; the output's cache is one item longer."""
    if x.ndim != 3 or x.shape[1] != 1:
        raise ConfigError("a fixed cache takes one item of each sequence at a time", got=list(x.shape))
    asked, raw_keys, raw_values = linears(x, layer.to_query, layer.to_keys, layer.to_values)
    query = _heads(asked, layer.num_heads)
    keys, values = (_heads(side, layer.num_key_heads) for side in (raw_keys, raw_values))
    room, here, bias = cache.keys.shape[2], cache.length, None
    position = layer.position
    if isinstance(position, Rotary):
        now = here.to(torch.promote_types(x.dtype, torch.float32)).reshape(1)
        query, keys = rotate(query, now, base=position.base), rotate(keys, now, base=position.base)
    plain = not need_weights and _is_plain(layer)
    if plain and (position is None or isinstance(position, Rotary)) and _fits_one_kernel(query, keys, values, cache):
        from regard.kernels.few_queries import NewItem, few_queries

        found, _ = few_queries(
            query, cache.keys, cache.values, scale=query.shape[-1] ** -0.5, new=NewItem(keys, values, here)
        )
        return _after(layer, found, cache)
    places = torch.arange(room, device=x.device)
    if isinstance(position, ALiBi):
        bias = -position.slopes[:, None, None] * (here - places).abs()
    elif isinstance(position, Relative):
        query, bias = _relative(position, query, here - places)
    elif position is not None and not isinstance(position, Rotary):
        raise ConfigError("a fixed cache does not know this position", got=type(position).__name__)
    cache.keys.index_copy_(2, here.reshape(1), keys.to(cache.keys.dtype))
    cache.values.index_copy_(2, here.reshape(1), values.to(cache.values.dtype))
    allowed = (places <= here).reshape(1, 1, room)
    options = CallOptions(Mask.of(allowed), bias, None, here, 0.0)
    groups = layer.num_heads // layer.num_key_heads
    key_heads, value_heads = (
        heads if groups == 1 else heads.repeat_interleave(groups, -3) for heads in (cache.keys, cache.values)
    )
    weights = None
    if bias is None and plain:  # no row is empty: the item sees itself
        found = F.scaled_dot_product_attention(query, key_heads, value_heads, attn_mask=allowed.unsqueeze(0))
    else:
        found, weights, *_ = layer.attention.run(
            query, key_heads, value_heads, options, need_weights=need_weights, trace_as=layer, heads=True
        )
    return _after(layer, found, cache)._replace(weights=weights)


def _after(layer: "MultiHead", found: Tensor, cache: FixedCache) -> AttentionOutput:
    """What the layer makes of the contexts [n h 1 d] of all heads, and a cache that is one item longer."""
    (context,) = linears(found.transpose(1, 2).flatten(2), layer.to_output)
    return AttentionOutput(context, cache=cache._replace(length=cache.length + 1))


def _fits_one_kernel(query: Tensor, keys: Tensor, values: Tensor, cache: FixedCache) -> bool:
    """Whether one kernel can attend, and write the new item to the cache."""
    if torch.compiler.is_compiling() or transformed() or not query.dtype == keys.dtype == values.dtype:
        return False
    rows_are_whole = cache.keys.stride(-1) == cache.values.stride(-1) == 1
    return rows_are_whole and are_few(query, cache.keys, cache.values)


def _is_plain(layer: "MultiHead") -> bool:
    """Whether torch's own function does all that is to be done, and nobody watches."""
    attention = layer.attention
    if type(attention.score) is not ScaledDot or type(attention.align) is not Softmax:
        return False
    return attention.align.temperature == 1.0 and attention.impl == "auto" and not watched(layer)


def _heads(x: Tensor, heads: int) -> Tensor:
    return x.view(len(x), 1, heads, -1).transpose(1, 2)  # [n 1 (h d)] → [n h 1 d]


def _relative(position: Relative, query: Tensor, distance: Tensor) -> tuple[Tensor, Tensor]:
    """Queries plus u, and the bias [n h 1 k] by the distance of each key."""
    heads, _, width = position.content.shape
    dtype = torch.promote_types(query.dtype, torch.float32)
    table = sinusoid(distance.to(dtype), position.dim).to(query.dtype)
    projected = F.linear(table, position.to_keys.weight).view(-1, heads, width).transpose(0, 1)
    return query + position.content, product(query + position.place, projected * width**-0.5)
