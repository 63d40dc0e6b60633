"""Masks: every maker against a double loop, the algebra, the batch axis, and torch's conventions."""

import operator
from collections.abc import Callable

import pytest
import torch
from table import cases
from torch import Tensor, nn
from torch.testing import assert_close

from regard.attention import Mask, MultiHead, attend
from regard.attention.mask import as_mask, fit
from regard.base import ConfigError, MaskError
from regard.score import Additive, Dot

SIZES = [(3, 5), (4, 4), (5, 3), (1, 4), (1, 1)]
SEGMENTS = torch.tensor([[0, 0, 1, 2], [1, 0, 1, 0]])


def loop(q: int, k: int, rule: Callable[[int, int], bool]) -> Tensor:
    """rule(position of the query, position of the key); the last query stands at the last key."""
    return torch.tensor([[rule(i + k - q, j) for j in range(k)] for i in range(q)])


@cases(("q", "k"), SIZES)
def test_causal(q: int, k: int) -> None:
    assert torch.equal(Mask.causal().dense(q, k), loop(q, k, lambda i, j: j <= i))
    assert Mask.causal().dense(q, k)[-1].all()
    assert Mask.causal().is_causal
    assert not (Mask.causal() & Mask.causal()).is_causal


@cases(("q", "k"), SIZES)
@cases(("before", "after"), [(0, 0), (2, 1), (0, 3), (1, None)])
def test_window(q: int, k: int, before: int, after: int | None) -> None:
    behind = before if after is None else after
    assert torch.equal(Mask.window(before, after).dense(q, k), loop(q, k, lambda i, j: -before <= j - i <= behind))


@cases(("q", "k"), SIZES)
@cases("size", [1, 2, 3])
def test_block(q: int, k: int, size: int) -> None:
    assert torch.equal(Mask.block(size).dense(q, k), loop(q, k, lambda i, j: i // size == j // size))


@cases("kind", [list, torch.tensor, lambda sizes: torch.tensor(sizes, dtype=torch.int32)])
def test_padding(kind: Callable) -> None:
    sizes = [3, 0, 5]
    dense = Mask.padding(kind(sizes)).dense(2, 5)
    assert dense.shape == (3, 1, 5)
    rows = Mask.query_padding(kind(sizes)).dense(5, 2)
    assert rows.shape == (3, 5, 1)
    for b, size in enumerate(sizes):
        assert torch.equal(dense[b].expand(2, 5), loop(2, 5, lambda i, j, size=size: j < size))
        assert torch.equal(rows[b].expand(5, 2), loop(5, 2, lambda i, j, size=size: i + 3 < size))


def test_padding_of_one_sentence_and_of_many_batch_axes() -> None:
    assert Mask.padding(torch.tensor(2)).dense(1, 3).tolist() == [[True, True, False]]
    assert Mask.padding(torch.tensor([[1, 2, 3], [0, 1, 2]])).dense(4, 3).shape == (2, 3, 1, 3)


def test_padding_of_no_sentence() -> None:
    assert Mask.padding(torch.tensor([], dtype=torch.long)).dense(4, 3).shape == (0, 1, 3)
    assert Mask.padding([]).dense(4, 3).shape == (0, 1, 3)


def test_segment() -> None:
    own = Mask.segment(SEGMENTS).dense(4, 4)
    other = Mask.segment(SEGMENTS, SEGMENTS[:, :3]).dense(4, 3)
    for b in range(2):
        numbers = SEGMENTS[b].tolist()
        assert torch.equal(own[b], loop(4, 4, lambda i, j, n=numbers: n[i] == n[j]))
        assert torch.equal(other[b], own[b, :, :3])


def test_of_spreads_axes_of_one() -> None:
    allowed = torch.tensor([[True, False, True]])
    query, keys = torch.randn(2, 4, 8), torch.randn(2, 3, 8)
    as_tensor = attend(query, keys, keys, mask=allowed)
    assert (as_tensor.weights[..., 1] == 0).all()
    assert torch.equal(as_tensor.weights, attend(query, keys, keys, mask=Mask.of(allowed)).weights)


# ── algebra ─────────────────────────────────────────────────────────────────────────────────────────────────────────

MEMBERS = {
    "causal": Mask.causal(),
    "window": Mask.window(1, 2),
    "block": Mask.block(2),
    "padding": Mask.padding([2, 4]),
    "query padding": Mask.query_padding([1, 3]),
    "segment": Mask.segment(SEGMENTS),
    "dense": Mask.of(torch.tensor([[True, False, False, True]])),
    "heads": Mask.of(torch.arange(2 * 3 * 16).reshape(2, 3, 4, 4) % 5 < 3),
}


def full(mask: Mask) -> Tensor:
    """[b h q k] = [2 3 4 4], batch axes first."""
    return fit(mask.dense(4, 4), (2, 3, 4, 4)).expand(2, 3, 4, 4)


@cases("right", MEMBERS)
@cases("left", MEMBERS)
def test_algebra(left: str, right: str) -> None:
    a, b = MEMBERS[left], MEMBERS[right]
    if {a.dense(4, 4).ndim, b.dense(4, 4).ndim} == {2, 3}:
        assert (a & b).dense(4, 4).ndim == 3
    assert torch.equal(full(a & b), full(a) & full(b))
    assert torch.equal(full(a | b), full(a) | full(b))
    assert torch.equal(full(~a), ~full(a))
    assert torch.equal(full(~(a & b)), full(~a | ~b))  # De Morgan
    assert torch.equal(full(~(a | b)), full(~a & ~b))


@cases("combine", [operator.and_, operator.or_])
def test_tensors_join_in_on_either_side(combine: Callable) -> None:
    tensor = torch.rand(4, 4) < 0.5
    expected = combine(tensor, Mask.causal().dense(4, 4))
    assert torch.equal(combine(Mask.causal(), tensor).dense(4, 4), expected)
    assert torch.equal(combine(tensor, Mask.causal()).dense(4, 4), expected)


def test_a_mask_has_no_truth() -> None:
    with pytest.raises(MaskError, match="neither true nor false"):
        bool(Mask.causal())


def test_as_mask() -> None:
    assert as_mask(None) is None
    assert as_mask(MEMBERS["block"]) is MEMBERS["block"]
    assert torch.equal(as_mask(torch.ones(2, 2, dtype=torch.bool)).dense(2, 2), torch.ones(2, 2, dtype=torch.bool))


# ── the batch axis ──────────────────────────────────────────────────────────────────────────────────────────────────


@cases("need_weights", [True, False])
@cases("heads", [2, 3])
@cases("mask", [Mask.padding([4, 1]), Mask.padding([4, 1]) & Mask.causal()], ids=["padding", "both"])
def test_lengths_belong_to_the_batch_never_to_the_heads(mask: Mask, heads: int, need_weights: bool) -> None:
    query, keys, values = (torch.randn(2, heads, 4, 8, dtype=torch.float64) for _ in range(3))
    batch = attend(query, keys, values, mask=mask, need_weights=need_weights)
    for b, size in enumerate([4, 1]):
        allowed = loop(4, 4, lambda i, j, size=size: j < size) & mask.dense(4, 4)[b]
        for h in range(heads):
            alone = attend(query[b, h], keys[b, h], values[b, h], mask=allowed)
            assert_close(batch.context[b, h], alone.context)


def test_fit_puts_new_axes_behind_the_batch() -> None:
    assert fit(torch.ones(2, 1, 5, dtype=torch.bool), (2, 2, 3, 5)).shape == (2, 1, 1, 5)
    assert fit(torch.ones(3, 5, dtype=torch.bool), (2, 2, 3, 5)).shape == (1, 1, 3, 5)
    assert fit(torch.ones(2, 2, 1, 5, dtype=torch.bool), (2, 2, 4, 3, 5)).shape == (2, 2, 1, 1, 5)


# ── torch's conventions ─────────────────────────────────────────────────────────────────────────────────────────────


def test_round_trips() -> None:
    ignored = torch.rand(3, 5) < 0.5
    assert torch.equal(Mask.from_torch_key_padding(ignored).to_torch_key_padding(5), ignored)
    forbidden = torch.rand(2, 4, 5) < 0.5
    assert torch.equal(Mask.from_torch_attention(forbidden).to_torch_attention(4, 5), forbidden)
    assert torch.equal(Mask.from_torch_attention(forbidden).dense(4, 5), ~forbidden)


def test_makers_to_torch() -> None:
    padding = Mask.padding([2, 0]).to_torch_key_padding(3)
    assert padding.tolist() == [[False, False, True], [True, True, True]]
    causal = nn.Transformer.generate_square_subsequent_mask(4) != 0
    assert torch.equal(Mask.causal().to_torch_attention(4, 4), causal)
    assert Mask.padding([2, 0]).to_torch_attention(4, 3).shape == (2, 4, 3)


def test_key_padding_covers_all_keys() -> None:
    mask = Mask.of(torch.tensor([[[True]], [[False]]]))
    assert mask.to_torch_key_padding(3).tolist() == [[False] * 3, [True] * 3]


@cases("mask", [Mask.causal(), Mask.query_padding([1, 2])], ids=["causal", "query padding"])
def test_a_mask_of_queries_is_no_key_padding(mask: Mask) -> None:
    with pytest.raises(MaskError, match="use to_torch_attention"):
        mask.to_torch_key_padding(4)


@cases("self_attention", [True, False])
@cases("kinds", [("padding",), ("attention",), ("padding", "attention")], ids="+".join)
def test_the_same_masks_in_torch_and_here(kinds: tuple[str, ...], self_attention: bool) -> None:
    other = nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
    layer = MultiHead.from_torch(other)
    query = torch.randn(2, 5, 8, dtype=torch.float64)
    keys = query if self_attention else torch.randn(2, 6, 8, dtype=torch.float64)
    k = keys.shape[1]
    ignored, forbidden = torch.rand(2, k) < 0.4, torch.rand(5, k) < 0.4
    ignored[:, 0] = forbidden[:, 0] = False  # torch knows no empty rows
    options, mask = {}, Mask.of(torch.ones(1, 1, dtype=torch.bool))
    if "padding" in kinds:
        options["key_padding_mask"] = ignored
        mask &= Mask.from_torch_key_padding(ignored)
    if "attention" in kinds:
        options["attn_mask"] = forbidden
        mask &= Mask.from_torch_attention(forbidden)
    expected, weights = other(query, keys, keys, average_attn_weights=False, **options)
    out = layer(query, keys, mask=mask, need_weights=True)
    assert_close((out.context, out.weights), (expected, weights), rtol=1e-10, atol=1e-10)
    assert_close(layer(query, keys, mask=mask).context, expected, rtol=1e-10, atol=1e-10)


# ── settings ────────────────────────────────────────────────────────────────────────────────────────────────────────


@cases(("before", "after"), [(-1, None), (1, -1)])
def test_negative_windows(before: int, after: int | None) -> None:
    with pytest.raises(ConfigError, match="0 or more"):
        Mask.window(before, after)


@cases("size", [0, -2])
def test_empty_blocks(size: int) -> None:
    with pytest.raises(ConfigError, match="1 or more"):
        Mask.block(size)


@cases("lengths", [[1, -1], [1.0, 2.0], [float("nan")], [True]])
def test_bad_lengths(lengths: list) -> None:
    with pytest.raises(MaskError, match="length"):
        Mask.padding(torch.tensor(lengths))


# ── rows alone, and rules without a tensor ──────────────────────────────────────────────────────────────────────────

ALL = {
    "causal": Mask.causal(),
    "padding": Mask.padding([4, 2]),
    "query padding": Mask.query_padding([3, 1]),
    "window": Mask.window(1, 0),
    "block": Mask.block(2),
    "segment": Mask.segment(SEGMENTS[:, :3], SEGMENTS),
    "dense": Mask.of(torch.rand(2, 3, 4, generator=torch.Generator().manual_seed(0)) > 0.5),
    "one row for all": Mask.of(torch.tensor([[[True, False, True, True]]])),
    "both": Mask.causal() & Mask.padding([4, 2]),
    "either": Mask.causal() | Mask.block(2),
    "not": ~Mask.window(1),
}


@cases("mask", ALL.values(), ids=ALL)
@cases("rows", [[0, 1, 2], [2, 0], [1], []], ids=str)
def test_rows_alone(mask: Mask, rows: list[int]) -> None:
    whole = mask.dense(3, 4)
    whole = whole.expand(*whole.shape[:-2], 3, 4)
    some = mask.dense(3, 4, rows=torch.tensor(rows, dtype=torch.long))
    some = some.expand(*some.shape[:-2], len(rows), 4)
    assert torch.equal(some, whole[..., rows, :])


def test_what_kernels_know() -> None:
    padding = Mask.padding([4, 2])
    assert padding.simple() == (padding, False, None)
    assert Mask.causal().simple() == (None, True, None)
    assert Mask.window(2, 0).simple() == (None, False, (2, 0))
    assert (Mask.window(2, 0) & padding & Mask.causal()).simple() == (padding, True, (2, 0))
    for mask in (
        Mask.query_padding([1, 2]),
        Mask.block(2),
        ~padding,
        padding | Mask.causal(),
        padding & Mask.block(2),
        padding & Mask.padding([1, 1]),
        Mask.window(1) & Mask.window(2),
        Mask.causal() & Mask.causal(),
        Mask.of(torch.ones(2, 2, dtype=torch.bool)),
    ):
        assert mask.simple() is None


@cases("impl", ["reference", "sdpa", "blocked"])
def test_a_window_beyond_all_numbers_is_none(impl: str) -> None:
    huge = 99999999999999999999
    x = torch.randn(2, 5, 4)
    score = Additive(4, 4, 3) if impl == "blocked" else Dot()
    masks = {Mask.window(huge): None, Mask.window(huge, 0): Mask.causal(), Mask.block(huge): None}
    for mask, same in masks.items():
        found, expected = (
            attend(x, x, x, score=score, mask=m, need_weights=False, impl=impl).context for m in (mask, same)
        )
        torch.testing.assert_close(found, expected)


@cases("mask", ALL.values(), ids=ALL)
@cases("rows", [None, torch.tensor([2, 0])], ids=["all", "rows"])
def test_a_mask_goes_to_the_device_that_is_asked_for(mask: Mask, rows: Tensor | None) -> None:
    here = mask.dense(3, 4, rows=rows)
    elsewhere = mask.dense(3, 4, device="meta", rows=rows)
    assert (elsewhere.device.type, elsewhere.shape) == ("meta", here.shape)
    assert mask.to_torch_attention(3, 4, device="meta").device.type == "meta"
    with torch.device("meta"):  # the default; a tensor that is made without a device of its own is there
        assert torch.equal(mask.dense(3, 4, device="cpu", rows=rows), here)


def test_key_padding_goes_to_the_device_that_is_asked_for() -> None:
    assert Mask.padding([2, 0]).to_torch_key_padding(3, device="meta").device.type == "meta"


@cases("lead", [(), (2,), (2, 3)], ids=str)
def test_segments_of_any_number_of_batch_axes(lead: tuple[int, ...]) -> None:
    queries, keys = torch.randint(3, (*lead, 4)), torch.randint(3, (*lead, 6))
    dense = Mask.segment(queries, keys).dense(4, 6)
    assert torch.equal(dense, queries.unsqueeze(-1) == keys.unsqueeze(-2))
    assert torch.equal(Mask.segment(queries).dense(4, 4), queries.unsqueeze(-1) == queries.unsqueeze(-2))
    with pytest.raises(MaskError, match="segment numbers do not fit: got 4 queries and 6 keys; expected 6 and 4"):
        Mask.segment(queries, keys).dense(6, 4)
