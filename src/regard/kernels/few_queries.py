# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""softmax(scale · q·k) · v for few queries and few keys, as in a step of a search: no gradient.

One program has all queries and keys of one head of a batch item. Kernels that are made for many keys leave most of a
chip idle there. Of a new item of a sequence, whose keys and values stand in a cache, the program writes the key and the
value to their place as well, so that a step needs no copies beside it.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.kernels.arithmetic import dot, precise_exp
from regard.kernels.derivatives import refuse_transforms
from regard.kernels.launch import INTERPRETED, contiguous_rows, jit, on, power_of_two, tl


class NewItem(NamedTuple):
    """What comes after the items of a cache: its key and value for each head, and its place, a number of the device."""

    key: Float[Tensor, "n g 1 a"]
    value: Float[Tensor, "n g 1 v"]
    place: Int[Tensor, ""]


@jit
def _side(
    given, fresh, item, group, columns, wide, now, num_keys, width,
    stride_n, stride_h, stride_k, stride_fn, stride_fh, writes, has_new: tl.constexpr,
):  # fmt: skip
    """Keys or values [columns, wide] of one head; the new one is put among them, and written to its place."""
    base = given + item * stride_n + group * stride_h
    there = (columns[:, None] < num_keys) & (wide[None, :] < width)
    if has_new:
        there &= columns[:, None] < now
    tile = tl.load(base + columns[:, None] * stride_k + wide[None, :], mask=there, other=0.0)
    if has_new:
        row = tl.load(fresh + item * stride_fn + group * stride_fh + wide, mask=wide < width, other=0.0)
        tile = tl.where(columns[:, None] == now, row[None, :].to(tile.dtype), tile)
        tl.store(base + now * stride_k + wide, row.to(tile.dtype), mask=(wide < width) & writes)
    return tile


@jit
def _few(
    query, keys, values, new_key, new_value, place, context, weights, allowed,
    stride_qn, stride_qh, stride_q, stride_kn, stride_kh, stride_k, stride_vn, stride_vh, stride_v,
    stride_fn, stride_fh, stride_gn, stride_gh, stride_an, stride_a,
    num_queries, num_keys, features, depth, scale, heads, groups,
    has_new: tl.constexpr, has_allowed: tl.constexpr, with_weights: tl.constexpr,
    block_q: tl.constexpr, block_k: tl.constexpr, padded_features: tl.constexpr, padded_depth: tl.constexpr,
):  # fmt: skip
    """Context and weights of all queries of one head."""
    number = tl.program_id(0)
    item, head = (number // heads).to(tl.int64), number % heads
    group, writes = head // groups, head % groups == 0
    rows, columns = tl.arange(0, block_q), tl.arange(0, block_k)
    at, deep = tl.arange(0, padded_features), tl.arange(0, padded_depth)
    now = num_keys - 1
    if has_new:
        now = tl.load(place).to(tl.int32)
    key = _side(
        keys, new_key, item, group, columns, at, now, num_keys, features,
        stride_kn, stride_kh, stride_k, stride_fn, stride_fh, writes, has_new,
    )  # fmt: skip
    value = _side(
        values, new_value, item, group, columns, deep, now, num_keys, depth,
        stride_vn, stride_vh, stride_v, stride_gn, stride_gh, writes, has_new,
    )  # fmt: skip
    inside = (rows[:, None] < num_queries) & (at[None, :] < features)
    asked = tl.load(query + item * stride_qn + head * stride_qh + rows[:, None] * stride_q + at[None, :],
                    mask=inside, other=0.0)  # fmt: skip
    seen = (rows[:, None] < num_queries) & (columns[None, :] <= now)
    if has_allowed:
        look = allowed + item * stride_an + rows[:, None] * stride_a + columns[None, :]
        seen &= tl.load(look, mask=seen, other=0) != 0
    if block_q == 1:
        scores = tl.reshape(tl.sum(asked.to(tl.float32) * key.to(tl.float32), 1), [1, block_k])
    elif INTERPRETED:
        scores = dot(asked.to(tl.float32), tl.trans(key.to(tl.float32)))  # its products of bfloat16 are wrong
    else:
        scores = dot(asked, tl.trans(key))
    scores = tl.where(seen, scores * scale, -float("inf"))
    highest = tl.max(scores, 1)
    highest = tl.where(highest == -float("inf"), 0.0, highest)
    shares = tl.where(seen, precise_exp(tl.where(seen, scores - highest[:, None], 0.0)), 0.0)
    total = tl.sum(shares, 1)
    shares = shares / tl.where(total > 0.0, total, 1.0)[:, None]
    if block_q == 1:
        found = tl.sum(tl.reshape(shares, [block_k, 1]) * value.to(tl.float32), 0)[None, :]
    elif INTERPRETED:
        found = dot(shares, value.to(tl.float32))
    else:
        found = dot(shares.to(value.dtype), value)
    out = context + ((item * num_queries + rows[:, None]) * heads + head) * depth + deep[None, :]
    tl.store(out, found.to(context.dtype.element_ty), mask=(rows[:, None] < num_queries) & (deep[None, :] < depth))
    if with_weights:
        out = weights + ((item * heads + head) * num_queries + rows[:, None]) * num_keys + columns[None, :]
        inside = (rows[:, None] < num_queries) & (columns[None, :] < num_keys)
        tl.store(out, shares.to(weights.dtype.element_ty), mask=inside)


def few_queries(
    query: Float[Tensor, "n h q a"],
    keys: Float[Tensor, "n g k a"],
    values: Float[Tensor, "n g k v"],
    *,
    scale: float = 1.0,
    allowed: Bool[Tensor, "#n #q k"] | None = None,
    new: NewItem | None = None,
    need_weights: bool = False,
) -> tuple[Float[Tensor, "n h q v"], Float[Tensor, "n h q k"] | None]:
    """The context and, if asked for, the weights; a query that sees nothing has zeros. See `limits.are_few`.

    With a `new` item, of which the one query is, keys and values are a cache: what stands there before its place is
    seen, and its own key and value, which are written to the cache.
    """
    refuse_transforms("few_queries")
    (n, h, q, a), (g, k), v = query.shape, keys.shape[1:3], values.shape[-1]
    query, key_rows, value_rows = contiguous_rows(query), contiguous_rows(keys), contiguous_rows(values)
    assert new is None or (key_rows is keys and value_rows is values), "a cache has neighbouring numbers in its rows"
    context = values.new_empty(n, q, h, v)
    weights = query.new_empty(n, h, q, k) if need_weights else None
    if 0 in (n, h, q, v):
        return context.transpose(1, 2), weights
    strides_of_mask = (0, 0)
    if allowed is not None:
        allowed = contiguous_rows(allowed).view(torch.uint8).expand(n, q, k)
        strides_of_mask = allowed.stride(0), allowed.stride(1)
    fresh = [contiguous_rows(side) for side in new[:2]] if new is not None else [query, query]
    block_q, block_k = 1 if q == 1 else power_of_two(q, 16), power_of_two(k, 16)
    wide, deep = power_of_two(a, 16), power_of_two(v, 16)
    with on(query):
        _few[(n * h,)](
            query, key_rows, value_rows, *fresh, query if new is None else new.place, context,
            context if weights is None else weights, query if allowed is None else allowed,
            *query.stride()[:3], *key_rows.stride()[:3], *value_rows.stride()[:3],
            *(stride for side in fresh for stride in side.stride()[:2]), *strides_of_mask,
            q, k, a, v, float(scale), h, h // g,
            has_new=new is not None, has_allowed=allowed is not None, with_weights=need_weights,
            block_q=block_q, block_k=block_k, padded_features=wide, padded_depth=deep,
            num_warps=1 if block_k * max(wide, deep) <= 2048 else 2 if block_k * max(wide, deep) <= 4096 else 4,
        )  # fmt: skip
    return context.transpose(1, 2), weights
