"""One call of fused attention in a model that is not ours, in one form, and the weights of the rows that are asked for.

Torch has two functions that attend without giving weights by head: `F.scaled_dot_product_attention` and
`F.multi_head_attention_forward`. `of_sdpa` and `of_multi_head` take their arguments, and give a `FusedCall`. No tensor
of all pairs is made of rows that nobody asked for.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.align import softmax
from regard.attention.fused import broadcast
from regard.attention.weights import AT_ONCE, select_pairs
from regard.kernels.derivatives import without_autocast

HALF = (torch.bfloat16, torch.float16)
AT_ONCE_RULE = 2**20  # numbers in a rule that is kept for several calls
KEPT = 32  # small tensors of numbers and rules that a block of calls shares

Memo = dict[tuple[Any, ...], Tensor]  # numbers of rows, and which keys they see: made once for all layers


class FusedCall(NamedTuple):
    """What one call of fused attention was asked: the softmax of `scale` · query · keys under masks, times the values.

    Each mask is boolean (True = may attend) or of numbers that are added to the scores, and broadcasts to [*b h q k].
    With `offset`, the query numbered i sees the keys up to i + offset. Several query heads may share a key head.
    """

    query: Tensor  # [*b h q d], or [*b q d] where there are no heads
    keys: Tensor  # [*b g k d]
    values: Tensor  # [*b g k v]
    masks: tuple[Tensor, ...]
    offset: int | None
    scale: float
    dropout: float
    has_heads: bool

    @property
    def num_queries(self) -> int:
        """How many queries the call has."""
        return self.query.shape[-2]

    @property
    def num_heads(self) -> int | None:
        """How many query heads the call has; None where it has no axis of heads."""
        return self.query.shape[-3] if self.has_heads else None

    @property
    def group(self) -> int:
        """How many query heads share each key head."""
        return self.query.shape[-3] // max(1, self.keys.shape[-3]) if self.has_heads else 1

    def key_heads(self, heads: Sequence[int] | None) -> list[int] | None:
        """The number of the key head of each of these query heads; None where every query head has its own."""
        group = self.group
        if group == 1:
            return None
        return [head // group for head in (range(self.query.shape[-3]) if heads is None else heads)]

    def weights(
        self, rows: Sequence[int] | None = None, heads: Sequence[int] | None = None, memo: Memo | None = None
    ) -> Tensor:
        """The weights [*b h r k] of these rows and heads, or of all, before dropout, in float32 or better.

        A large result comes from blocks of rows, and lies on the CPU. A row that sees no key has weights of zero.
        """
        memo = {} if memo is None else memo
        chosen = range(self.num_queries) if rows is None else rows
        lead = _lead(self.query, self.keys, self.group)
        count = math.prod(lead) if heads is None else math.prod(lead[:-1]) * len(heads)
        size = max(1, AT_ONCE // max(1, count * self.keys.shape[-2]))
        if len(chosen) <= size:
            return self._weights(rows, heads, memo)
        starts = range(0, len(chosen), size)
        return torch.cat([self._weights(chosen[start : start + size], heads, {}).cpu() for start in starts], -2)

    def whole_weights(self, heads: Sequence[int] | None = None) -> Tensor:
        """The weights [*b h q k] of all rows at once, through which gradients go."""
        return self._weights(None, heads, {})

    def allowed(self, heads: Sequence[int] | None = None) -> Tensor | None:
        """Where attending is allowed, as a boolean tensor that broadcasts to [*b h q k]; None: everywhere."""
        some = None if heads is None else _numbers(heads, self.query.device, {})
        rules = [select_pairs(mask, None, some) for mask in self.masks]
        rules = [rule if rule.dtype == torch.bool else rule > torch.finfo(rule.dtype).min / 2 for rule in rules]
        if self.offset is not None:
            rules.append(self._causal(None, {}))
        seen = None
        for rule in rules:
            seen = rule if seen is None else seen & rule
        return seen

    def context(self, weights: Tensor, heads: Sequence[int] | None = None) -> Tensor:
        """`weights` @ values of these heads, with the dropout of the call: [*b h q v]."""
        values = self._spread(self.values)
        values = values if heads is None else values[..., list(heads), :, :]
        dropped = F.dropout(weights, self.dropout) if self.dropout > 0 else weights
        with without_autocast(values.device):
            return (dropped @ values.to(weights.dtype)).to(values.dtype)

    def _weights(self, rows: Sequence[int] | None, heads: Sequence[int] | None, memo: Memo) -> Tensor:
        device, num_keys = self.query.device, self.keys.shape[-2]
        chosen = None if rows is None else _numbers(rows, device, memo)
        some = None if heads is None else _numbers(heads, device, memo)
        query, keys, group = self.query, self.keys, self.group
        query = query if chosen is None else query.index_select(-2, chosen)
        if some is not None and heads is not None:
            query = query.index_select(-3, some)
            keys = keys.index_select(-3, _numbers([head // group for head in heads], device, memo))
            group = 1
        shape = (*_lead(query, keys, group), query.shape[-2], num_keys)
        if 0 in shape:
            return query.new_zeros(shape, dtype=torch.promote_types(query.dtype, torch.float32))
        if not self.masks and (self.offset is None or self.offset >= 0) and _fit_baddbmm(query, keys, group):
            return self._small_weights(query, keys, group, rows, memo).view(shape)
        with without_autocast(device):
            scores = _product(query, keys, group, self.scale)
        scores = scores if group == 1 else scores.view(shape)
        if not self.masks and (self.offset is None or self.offset >= 0):  # every row sees a key: few passes over memory
            if self.offset is not None:
                scores = scores.masked_fill_(self._causal(rows, memo, hidden=True), -math.inf)
            return scores.softmax(-1)
        seen = None if self.offset is None else self._causal(rows, memo)
        for mask in self.masks:
            here = select_pairs(mask, chosen, some)
            if here.dtype != torch.bool:
                scores = scores + here
            else:
                seen = here if seen is None else seen & here
        return softmax(scores, None if seen is None else seen.expand(shape))

    def _small_weights(self, query: Tensor, keys: Tensor, group: int, rows: Sequence[int] | None, memo: Memo) -> Tensor:
        """The weights [(b g) (group r) k] by one product that adds the causal rule: as few calls of torch as can be."""
        num_rows, num_keys = query.shape[-2], keys.shape[-2]
        key = ("rule", group, self.offset, _key(range(num_rows) if rows is None else rows), num_keys, query.dtype)
        if (*key, query.device) not in memo:
            rule = query.new_zeros(num_rows, num_keys)
            if self.offset is not None:
                rule.masked_fill_(self._causal(rows, memo, hidden=True), -math.inf)
            _keep(memo, (*key, query.device), rule.repeat(group, 1))
        left = query.reshape(-1, group * num_rows, query.shape[-1])
        right = keys.reshape(-1, *keys.shape[-2:]).mT
        rule = memo[*key, query.device]
        with without_autocast(query.device):
            return torch.baddbmm(rule, left, right, beta=int(self.offset is not None), alpha=self.scale).softmax(-1)

    def _causal(self, rows: Sequence[int] | None, memo: Memo, *, hidden: bool = False) -> Tensor:
        """Which keys these queries see, or do not, [r k]: the key numbered j is seen by queries from j − offset on."""
        assert self.offset is not None
        device, num_keys = self.query.device, self.keys.shape[-2]
        numbers = range(self.num_queries) if rows is None else rows
        key = ("causal", hidden, _key(numbers), self.offset, num_keys, device)
        if key not in memo:
            places, keys = _numbers(numbers, device, memo)[:, None] + self.offset, torch.arange(num_keys, device=device)
            _keep(memo, key, keys > places if hidden else keys <= places)
        return memo[key]

    def _spread(self, side: Tensor) -> Tensor:
        """Keys or values, once for every query head."""
        return side if self.group == 1 else side.repeat_interleave(self.group, -3)


def of_sdpa(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> FusedCall:
    """The call of `F.scaled_dot_product_attention` with these arguments; four axes and more have an axis of heads."""
    query, key, value = _as_autocast_reads(query, key, value)
    offset = 0 if is_causal else None
    variant = getattr(attn_mask, "variant", None)
    masks = () if attn_mask is None else (attn_mask.reshape(1, -1) if attn_mask.ndim < 2 else attn_mask,)
    if variant is not None:  # a rule of torch.nn.attention.bias, which holds no numbers
        offset = 0 if variant.name == "UPPER_LEFT" else key.shape[-2] - query.shape[-2]
        masks = ()
    factor = 1 / math.sqrt(max(1, query.shape[-1])) if scale is None else float(scale)
    return FusedCall(query, key, value, masks, offset, factor, float(dropout_p), query.ndim >= 4)


def of_multi_head(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> FusedCall:
    """The call of `F.multi_head_attention_forward` with these arguments, after its projections.

    Time comes first in them. The result is [b h q d], or [h q d] where there is no batch. Its masks are turned round:
    in torch's function True means that a key is hidden.
    """
    is_batched = query.ndim == 3
    matrices: Sequence[Tensor | None] = (q_proj_weight, k_proj_weight, v_proj_weight)
    if not use_separate_proj_weight:
        assert in_proj_weight is not None
        matrices = in_proj_weight.chunk(3)
    added = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
    sides = []
    extra = ((None, None), (bias_k, static_k), (bias_v, static_v))
    for side, matrix, bias, (more, fixed) in zip((query, key, value), matrices, added, extra, strict=True):
        assert matrix is not None
        side = side if is_batched else side.unsqueeze(1)
        projected = F.linear(side, matrix, bias)  # [t b (h d)]
        if more is not None:
            projected = torch.cat([projected, more.expand(1, projected.shape[1], -1)])
        heads = projected.reshape(*projected.shape[:2], num_heads, -1).permute(1, 2, 0, 3)  # [b h t d]
        sides.append(heads if fixed is None else fixed.reshape(-1, num_heads, *fixed.shape[1:]))
    if add_zero_attn:
        sides[1:] = [F.pad(side, (0, 0, 0, 1)) for side in sides[1:]]
    columns = (bias_k is not None) + bool(add_zero_attn)
    masks = []
    if attn_mask is not None:
        by_head = attn_mask.reshape(-1, num_heads, *attn_mask.shape[1:]) if attn_mask.ndim == 3 else attn_mask
        masks.append(_turned(by_head, columns))
    if key_padding_mask is not None:
        masks.append(_turned(key_padding_mask if is_batched else key_padding_mask[None], columns)[:, None, None, :])
    if not is_batched:
        sides = [side[0] for side in sides]
        masks = [mask[0] if mask.ndim == 4 else mask for mask in masks]
    factor, dropout = 1 / math.sqrt(max(1, sides[0].shape[-1])), float(dropout_p) if training else 0.0
    return FusedCall(sides[0], sides[1], sides[2], tuple(masks), None, factor, dropout, True)


def _turned(mask: Tensor, columns: int) -> Tensor:
    """A mask in which True means hidden, with `columns` more keys that all may see."""
    return F.pad(~mask, (0, columns), value=True) if mask.dtype == torch.bool else F.pad(mask, (0, columns))


def _lead(query: Tensor, keys: Tensor, group: int) -> tuple[int, ...]:
    """The axes [*b h] of the weights."""
    spread = keys.shape[:-2] if group == 1 else (*keys.shape[:-3], keys.shape[-3] * group)
    known = tuple(query.shape[:-2])
    return known if known == tuple(spread) else tuple(torch.broadcast_shapes(known, spread))  # type: ignore[no-untyped-call]


def _fit_baddbmm(query: Tensor, keys: Tensor, group: int) -> bool:
    """Whether a product of a few rows may go by `torch.baddbmm`: batches alike, no graph, no half precision."""
    alike = query.ndim == keys.ndim > 2 and query.dtype == keys.dtype and query.dtype not in HALF
    lead = (*keys.shape[:-3], keys.shape[-3] * group) if alike else ()
    few = group * query.shape[-2] * keys.shape[-2] <= AT_ONCE_RULE
    return alike and few and query.shape[:-2] == lead and not torch.is_grad_enabled()


def _product(query: Tensor, keys: Tensor, group: int, scale: float) -> Tensor:
    """`scale` · query · keys in float32 or better, in memory of its own.

    On a GPU half-precision factors go to the matrix units, which add in float32. Query heads that share a key head go
    together, so that no key is copied. The scale goes into the queries, which are fewer than the scores; but not where
    they would be rounded once more, which no power of two does.
    """
    if group > 1:
        query = query.reshape(*keys.shape[:-3], keys.shape[-3], group * query.shape[-2], query.shape[-1])
    graph = torch.is_grad_enabled() and (query.requires_grad or keys.requires_grad)
    if query.is_cuda and query.dtype in HALF and query.dtype == keys.dtype and not graph:
        lead = broadcast(query, keys)
        left, right = (
            (side if side.shape[:-2] == lead else side.expand(*lead, -1, -1)).reshape(-1, *side.shape[-2:])
            for side in (query, keys)
        )
        product: Tensor = torch.bmm(left, right.mT, out_dtype=torch.float32)
        return product.mul_(scale).view(*lead, *product.shape[-2:])
    dtype = query.dtype
    if dtype != keys.dtype or dtype in HALF:
        dtype = torch.promote_types(torch.promote_types(dtype, keys.dtype), torch.float32)
        query, keys = query.to(dtype), keys.to(dtype)
    return (query * scale) @ keys.mT


def _as_autocast_reads(*sides: Tensor) -> list[Tensor]:
    """Query, keys and values in the type in which torch's kernel gets them under autocast."""
    kind = sides[0].device.type
    if not torch.is_autocast_enabled(kind):
        return list(sides)
    dtype = torch.get_autocast_dtype(kind)
    return [side.to(dtype) if side.dtype in (torch.float32, *HALF) else side for side in sides]


def _numbers(numbers: Sequence[int], device: torch.device, memo: Memo) -> Tensor:
    """Numbers as a tensor, which is made once: a copy to a GPU waits for it."""
    key = (_key(numbers), device)
    if key not in memo:
        _keep(memo, key, torch.tensor(list(numbers), dtype=torch.long, device=device))
    return memo[key]


def _key(numbers: Sequence[int]) -> Sequence[int]:
    return numbers if isinstance(numbers, range) else tuple(numbers)


def _keep(memo: Memo, key: tuple[Any, ...], tensor: Tensor) -> None:
    if len(memo) >= KEPT:
        memo.clear()
    memo[key] = tensor
