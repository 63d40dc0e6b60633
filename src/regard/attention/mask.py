"""One type for masks: True = may attend. Masks are rules; sizes come in when attention asks for them.

Mask.causal() & Mask.padding(lengths)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.align.align import check_boolean
from regard.base import ConfigError, MaskError

Device = torch.device | str | None
FARTHEST = 1 << 40  # a window or block that wide is without end; positions are numbers of 64 bits


class Simple(NamedTuple):
    """A mask that needs no tensor of pairs; what is None or False forbids nothing."""

    padding: "_Padding | None" = None  # of keys
    causal: bool = False
    window: tuple[int, int] | None = None  # before, after


class Mask:
    """Who may attend to whom. Combine with `&`, `|` and `~`; the result of `dense` is [*b q k], True = may attend.

    The leading axes of a mask are the batch axes, first axis first: a mask of lengths [b] serves scores [b q k] and
    scores [b h q k] alike. When there are more keys than queries, the queries are the last ones.

    >>> (Mask.causal() & Mask.padding([3, 2])).dense(2, 3).int()
    tensor([[[1, 1, 0],
             [1, 1, 1]],
    <BLANKLINE>
            [[1, 1, 0],
             [1, 1, 0]]], dtype=torch.int32)
    """

    is_causal = False
    is_tensor = False  # whether it was made from a tensor, and is no rule

    # ── makers ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @staticmethod
    def padding(lengths: Tensor | Sequence[int]) -> "Mask":
        """The first `lengths` [*b] keys of each sentence."""
        return _Padding(*_lengths(lengths), of_queries=False)

    @staticmethod
    def query_padding(lengths: Tensor | Sequence[int]) -> "Mask":
        """The first `lengths` [*b] queries of each sentence; the rows of the others are empty."""
        return _Padding(*_lengths(lengths), of_queries=True)

    @staticmethod
    def causal() -> "Mask":
        """No later keys. The last query sees all keys, however many there are."""
        return _Causal()

    @staticmethod
    def window(before: int, after: int | None = None) -> "Mask":
        """Keys from `before` positions before the query to `after` (the same number unless told) behind it."""
        after = before if after is None else after
        if not (isinstance(before, int) and isinstance(after, int)) or before < 0 or after < 0:
            raise ConfigError(
                "window",
                got=f"before={before}, after={after}",
                expected="0 or more",
                cure="count positions on either side; Mask.window(0) sees the query's own position only",
            )
        return _Window(min(before, FARTHEST), min(after, FARTHEST))

    @staticmethod
    def block(size: int) -> "Mask":
        """Keys in the query's own block of `size` positions."""
        if not isinstance(size, int) or size < 1:
            raise ConfigError("block size", got=size, expected="1 or more", cure="count positions, in whole numbers")
        return _Block(min(size, FARTHEST))

    @staticmethod
    def segment(queries: Tensor | Sequence[int], keys: Tensor | Sequence[int] | None = None) -> "Mask":
        """Keys with the query's own segment number: [*b q] and [*b k] (the same unless told)."""
        return _Segment(_segments(queries), _segments(queries if keys is None else keys))

    @staticmethod
    def of(allowed: Tensor) -> "Mask":
        """A boolean tensor [*b q k] (axes of 1 spread), True = may attend, as in `scaled_dot_product_attention`."""
        check_boolean(allowed)
        if allowed.ndim < 2:
            raise MaskError(
                "a mask needs an axis of queries and one of keys",
                got=list(allowed.shape),
                expected="[..., q, k]",
                cure="write mask[..., None, :] for a mask that all queries share",
            )
        return _Dense(allowed)

    @staticmethod
    def from_torch_key_padding(ignored: Tensor) -> "Mask":
        """From `key_padding_mask` of `torch.nn.MultiheadAttention`: [*b k], True = padding, may *not* be seen."""
        check_boolean(ignored, "True = padding")
        return _Dense(~ignored.unsqueeze(-2))

    @staticmethod
    def from_torch_attention(forbidden: Tensor) -> "Mask":
        """From a boolean `attn_mask` of `torch.nn.MultiheadAttention`: [q k] or [*b q k], True = may *not* attend."""
        check_boolean(forbidden, "True = may not attend")
        return Mask.of(~forbidden)

    # ── results ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def dense(
        self,
        num_queries: int,
        num_keys: int,
        *,
        device: torch.device | str | None = None,
        rows: Tensor | None = None,
    ) -> Bool[Tensor, "..."]:
        """The mask as a tensor [*b q k], True = may attend; an axis that does not matter has size 1.

        With `rows` [r], numbers of queries, those rows alone: [*b r k].
        """
        raise NotImplementedError

    def simple(self) -> "Simple | None":
        """The mask as padding, causality and a window, where it is no more than these: what kernels know."""
        return None

    def to_torch_attention(
        self, num_queries: int, num_keys: int, *, device: torch.device | str | None = None
    ) -> Bool[Tensor, "..."]:
        """For `attn_mask` of `torch.nn.MultiheadAttention`: True = may *not* attend.

        With batch axes the result is [b q k]; torch wants [b·h q k]: `.repeat_interleave(num_heads, 0)`.
        """
        dense = self.dense(num_queries, num_keys, device=device)
        return ~dense.expand(*dense.shape[:-2], num_queries, num_keys)

    def to_torch_key_padding(self, num_keys: int, *, device: torch.device | str | None = None) -> Bool[Tensor, "..."]:
        """For `key_padding_mask` of `torch.nn.MultiheadAttention`: [*b k], True = padding."""
        dense = self.dense(num_keys, num_keys, device=device)
        if dense.shape[-2] != 1:
            raise MaskError(
                "this mask differs from query to query",
                got=self,
                expected="a mask of keys alone, such as Mask.padding",
                cure="use to_torch_attention",
            )
        return ~dense.squeeze(-2).expand(*dense.shape[:-2], num_keys)

    def __and__(self, other: "Mask | Tensor") -> "Mask":
        return _Both(self, _operand(other))

    def __or__(self, other: "Mask | Tensor") -> "Mask":
        return _Either(self, _operand(other))

    def __invert__(self) -> "Mask":
        return _Not(self)

    __rand__, __ror__ = __and__, __or__

    def __bool__(self) -> bool:
        raise MaskError("a Mask is neither true nor false", cure="combine masks with & | ~, not with and, or, not")


def as_mask(mask: object) -> Mask | None:
    """The `mask` argument of a call: a Mask, a boolean tensor with True = may attend, or None."""
    if mask is None or isinstance(mask, Mask):
        return mask
    return _operand(mask)


def fit(allowed: Tensor, shape: Sequence[int]) -> Tensor:
    """`allowed` [*b q k] with axes of size 1 put after its batch axes, until it has as many as the scores."""
    missing = len(shape) - allowed.ndim
    if missing > 0:
        lead = allowed.shape[:-2]
        allowed = allowed.reshape(*lead, *[1] * missing, *allowed.shape[-2:])
    if missing < 0 or any(have not in (1, want) for have, want in zip(allowed.shape, shape, strict=True)):
        raise MaskError(
            "the mask does not fit the scores",
            got=list(allowed.shape),
            expected=f"axes of 1 or those of {list(shape)}",
            cure="put queries and keys last and the batch first, or pass a [batch, keys] mask of torch's kind through"
            " Mask.from_torch_key_padding",
        )
    return allowed


def _operand(mask: object) -> Mask:
    if isinstance(mask, Mask):
        return mask
    if isinstance(mask, Tensor):
        return Mask.of(mask)
    raise MaskError(
        "mask",
        got=type(mask).__name__,
        expected="a Mask, or a boolean tensor with True = may attend",
        cure="make one by Mask.padding(lengths), Mask.causal() or Mask.of(tensor)",
    )


def _lengths(lengths: Tensor | Sequence[int]) -> tuple[Tensor, int]:
    """Lengths as a tensor, and the longest; looked at once, when the mask is made, and not inside a captured graph."""
    try:
        tensor = torch.as_tensor(lengths)
    except (TypeError, ValueError, RuntimeError) as error:
        raise MaskError("lengths", got=repr(lengths), expected="whole numbers, as a tensor or list") from error
    tensor = tensor if tensor.numel() else tensor.long()
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex or tensor.dtype == torch.bool:
        nan = " with NaN" if tensor.dtype.is_floating_point and bool(tensor.isnan().any()) else ""
        raise MaskError(
            "lengths must be whole numbers",
            got=f"{tensor.dtype}{nan}",
            expected="an integer tensor or list",
            cure="count the tokens that are not padding: (tokens != pad).sum(-1)",
        )
    hidden = tensor.is_meta or (tensor.is_cuda and torch.cuda.is_current_stream_capturing())
    if torch.compiler.is_compiling() or hidden or torch._C._functorch.is_batchedtensor(tensor):
        return tensor, 0  # numbers that nobody may look at now
    shortest, longest = (int(tensor.min()), int(tensor.max())) if tensor.numel() else (0, 0)
    if shortest < 0:
        raise MaskError("a length is negative", got=shortest, expected="0 or more")
    return tensor, longest


def _segments(numbers: Tensor | Sequence[int]) -> Tensor:
    try:
        return torch.as_tensor(numbers)
    except (TypeError, ValueError, RuntimeError) as error:
        raise MaskError("segment numbers", got=repr(numbers), expected="whole numbers, as a tensor or list") from error


def _positions(num_queries: int, num_keys: int, device: Device, rows: Tensor | None) -> tuple[Tensor, Tensor]:
    """Positions of queries [q 1] and keys [k]; the last query stands at the last key."""
    if rows is None:
        query = torch.arange(num_keys - num_queries, num_keys, device=device)
    else:
        query = (rows if device is None else rows.to(device)) + num_keys - num_queries
    return query.unsqueeze(-1), torch.arange(num_keys, device=device)


@dataclass(frozen=True, eq=False)
class _Padding(Mask):
    lengths: Tensor
    longest: int
    of_queries: bool

    def simple(self) -> Simple | None:
        return None if self.of_queries else Simple(padding=self)

    def check(self, size: int) -> None:
        """No length goes beyond the items that there are."""
        if self.longest > size:
            what = "queries" if self.of_queries else "keys"
            raise MaskError(
                f"a length is beyond the {what}",
                got=self.longest,
                expected=f"at most {size}",
                cure=f"count the {what} that are not padding",
            )

    def dense(self, num_queries: int, num_keys: int, *, device: Device = None, rows: Tensor | None = None) -> Tensor:
        size = num_queries if self.of_queries else num_keys
        self.check(size)
        lengths = self.lengths if device is None else self.lengths.to(device)
        chosen = rows if self.of_queries and rows is not None else torch.arange(size, device=lengths.device)
        inside = chosen.to(lengths.device) < lengths.unsqueeze(-1)
        return inside.unsqueeze(-1 if self.of_queries else -2)  # [*b q 1] or [*b 1 k]


@dataclass(frozen=True, eq=False)
class _Causal(Mask):
    is_causal = True

    def simple(self) -> Simple:
        return Simple(causal=True)

    def dense(self, num_queries: int, num_keys: int, *, device: Device = None, rows: Tensor | None = None) -> Tensor:
        query, key = _positions(num_queries, num_keys, device, rows)
        return key <= query


@dataclass(frozen=True, eq=False)
class _Window(Mask):
    before: int
    after: int

    def simple(self) -> Simple:
        return Simple(window=(self.before, self.after))

    def dense(self, num_queries: int, num_keys: int, *, device: Device = None, rows: Tensor | None = None) -> Tensor:
        query, key = _positions(num_queries, num_keys, device, rows)
        return (key >= query - self.before) & (key <= query + self.after)


@dataclass(frozen=True, eq=False)
class _Block(Mask):
    size: int

    def dense(self, num_queries: int, num_keys: int, *, device: Device = None, rows: Tensor | None = None) -> Tensor:
        query, key = _positions(num_queries, num_keys, device, rows)
        return query.div(self.size, rounding_mode="floor") == key.div(self.size, rounding_mode="floor")


@dataclass(frozen=True, eq=False)
class _Segment(Mask):
    queries: Tensor
    keys: Tensor

    def dense(self, num_queries: int, num_keys: int, *, device: Device = None, rows: Tensor | None = None) -> Tensor:
        if (self.queries.shape[-1], self.keys.shape[-1]) != (num_queries, num_keys):
            raise MaskError(
                "segment numbers do not fit",
                got=f"{self.queries.shape[-1]} queries and {self.keys.shape[-1]} keys",
                expected=f"{num_queries} and {num_keys}",
                cure="pass Mask.segment(queries, keys) for cross-attention",
            )
        queries, keys = (ids if device is None else ids.to(device) for ids in (self.queries, self.keys))
        queries = queries if rows is None else queries.index_select(-1, rows.to(queries.device))
        return queries.unsqueeze(-1) == keys.unsqueeze(-2)


@dataclass(frozen=True, eq=False)
class _Dense(Mask):
    allowed: Tensor

    is_tensor = True

    def dense(self, num_queries: int, num_keys: int, *, device: Device = None, rows: Tensor | None = None) -> Tensor:
        have, want = tuple(self.allowed.shape[-2:]), (num_queries, num_keys)
        if any(size not in (1, wanted) for size, wanted in zip(have, want, strict=True)):
            raise MaskError(
                "the mask does not fit the scores",
                got=list(self.allowed.shape),
                expected=f"[..., {want[0]}, {want[1]}]",
                cure="put queries and keys last, or pass a [batch, keys] mask of torch's kind through"
                " Mask.from_torch_key_padding",
            )
        allowed = self.allowed if device is None else self.allowed.to(device)
        all_rows = rows is None or allowed.shape[-2] == 1
        return allowed if all_rows else allowed.index_select(-2, rows.to(allowed.device))  # type: ignore[union-attr]


@dataclass(frozen=True, eq=False)
class _Both(Mask):
    left: Mask
    right: Mask

    def simple(self) -> Simple | None:
        left, right = self.left.simple(), self.right.simple()
        if left is None or right is None:
            return None
        if (left.causal and right.causal) or (left.window and right.window):
            return None
        if left.padding is not None and right.padding is not None:
            return None
        padding = right.padding if left.padding is None else left.padding
        return Simple(padding, left.causal or right.causal, left.window or right.window)

    def dense(self, num_queries: int, num_keys: int, *, device: Device = None, rows: Tensor | None = None) -> Tensor:
        left, right = _meet(
            *(side.dense(num_queries, num_keys, device=device, rows=rows) for side in (self.left, self.right))
        )
        return left & right


@dataclass(frozen=True, eq=False)
class _Either(Mask):
    left: Mask
    right: Mask

    def dense(self, num_queries: int, num_keys: int, *, device: Device = None, rows: Tensor | None = None) -> Tensor:
        left, right = _meet(
            *(side.dense(num_queries, num_keys, device=device, rows=rows) for side in (self.left, self.right))
        )
        return left | right


@dataclass(frozen=True, eq=False)
class _Not(Mask):
    mask: Mask

    def dense(self, num_queries: int, num_keys: int, *, device: Device = None, rows: Tensor | None = None) -> Tensor:
        return ~self.mask.dense(num_queries, num_keys, device=device, rows=rows)


def _meet(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Batch axes first: [b q k] beside [b h q k] becomes [b 1 q k]."""
    axes = max(left.ndim, right.ndim)
    left, right = (
        mask.reshape(*mask.shape[:-2], *[1] * (axes - mask.ndim), *mask.shape[-2:]) for mask in (left, right)
    )
    if any(a != b and 1 not in (a, b) for a, b in zip(left.shape, right.shape, strict=True)):
        raise MaskError("two masks do not fit each other", got=f"{list(left.shape)} and {list(right.shape)}")
    return left, right
