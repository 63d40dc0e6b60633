# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""Additive scores as one product of matrices, where bfloat16 needs no more digits than that gives.

A sine of a sum is a sum of products: sin(ω(q + k)) = sin ωq · cos ωk + cos ωq · sin ωk. So a tanh that is written as
sines turns the additive score into a dot product of longer rows, which is what matrix units are for:

    tanh(s) ≈ Σ_m b_m sin(ω_m s),        ω_m = (m − ½) π/L,        b_m = (π/L) / sinh(π ω_m / 2),        m = 1 … M.

The right side repeats with 4L: it is the sum of tanh shifted by all multiples of 2L, with alternating signs. L is
chosen for each feature from the largest |q + k| that its rows can have, and M for each item, so that neither what is
cut off after M terms nor the next tanh is worth more than half a rounding of bfloat16 near 1. For inputs of the normal
distribution M is about 12, and 24 multiplications on matrix units replace some seven other instructions for each
(query, key, feature).

Terms of scores are float16, which rounds eight times finer than bfloat16. M is known on the device alone, and an item
that would need too many terms is left to the kernels of `tiled.py`, without a wait for the host.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.kernels.launch import INTERPRETED, jit, on, power_of_two, tl
from regard.kernels.masks import Rules

SMALLEST_WORK = 2**27  # (query, key, feature) triples that are worth the making of terms
FEWEST_KEYS = 128  # for the same reason
MOST_TERMS = 24
MOST_NUMBERS = 2**29  # terms in memory at once
PARTS = 32  # into which the rows of an item are split when their bounds are looked for
ROWS = 32  # of a program that makes terms
ROW_STEP = 64  # rows of terms are padded to whole steps of a walk along them
PI = tl.constexpr(3.141592653589793)
CUT = tl.constexpr(2.0**-9)  # the largest sum of the terms after M
NEXT = tl.constexpr(3.8)  # how far the next tanh stays away: 2 exp(−2 · 3.8) is 2^-10


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@jit
def _all_bounds(bounds, item, items, parts, padded_features, at, real, block_parts: tl.constexpr):
    """The lowest and the highest number of each feature of an item, from those of its parts."""
    part = tl.arange(0, block_parts)
    place = (item * parts + part[:, None]) * padded_features + at[None, :]
    there = (part[:, None] < parts) & real[None, :]
    lowest = tl.min(tl.load(bounds + place, mask=there, other=float("inf")), 0)
    highest = tl.max(tl.load(bounds + items * parts * padded_features + place, mask=there, other=-float("inf")), 0)
    return lowest, highest


@jit
def choice(bounds_q, bounds_k, item, items, parts_q, parts_k, features, padded_features, at, block_parts: tl.constexpr):
    """Chooses L of each feature, and M of the item; M is 0 where some reach is too large or no number."""
    real = at < features
    low_q, high_q = _all_bounds(bounds_q, item, items, parts_q, padded_features, at, real, block_parts)
    low_k, high_k = _all_bounds(bounds_k, item, items, parts_k, padded_features, at, real, block_parts)
    reach = tl.where(real, tl.maximum(high_q + high_k, -(low_q + low_k)), 0.0)  # −∞ where there is no row
    fits = tl.min(tl.where(reach < 1e3, 1, 0), 0) > 0  # infinite and undefined ones do not
    reach = tl.where(reach < 1e3, reach, 0.0)
    period = tl.maximum(reach, 0.5 * (tl.maximum(reach, 0.0) + NEXT))
    rate = 1.0 / period * (PI * PI / 2.0)  # each term is exp(−rate) times the one before
    terms = -tl.log(period * (1.0 - tl.exp(-rate)) * (CUT / (2.0 * PI))) / rate - 0.5
    most = tl.ceil(tl.max(terms, 0)).to(tl.int32)
    return period, tl.where(fits, tl.maximum(most, 1), 0)


@jit
def sine_and_cosine(x, period, m):
    """Gives the sine and the cosine of ω_m x; m counts from 0."""
    turns = x / (4.0 * period) * (2.0 * m + 1.0)
    angle = (turns - tl.floor(turns + 0.5)) * (2.0 * PI)
    return tl.sin(angle), tl.cos(angle)


@jit
def coefficient(m, period):
    """Gives b_m; m counts from 0."""
    power = tl.exp(-(m + 0.5) / period * (PI * PI / 2.0))
    return power / (period * (1.0 - power * power)) * (2.0 * PI)


# ── kernels ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@jit
def _bounds(
    rows_of, ends, lengths, stride_n, stride_row, num_rows, features, padded_features, parts, items,
    has_lengths: tl.constexpr, block: tl.constexpr, block_features: tl.constexpr,
):  # fmt: skip
    """The lowest and the highest number of each feature in one part of the rows of an item."""
    part, item = tl.program_id(0) % parts, (tl.program_id(0) // parts).to(tl.int64)
    at, length = tl.arange(0, block_features), num_rows
    if has_lengths:
        length = tl.minimum(tl.load(lengths + item).to(tl.int32), num_rows)
    blocks = tl.cdiv(length, block)
    lowest = tl.full([block, block_features], float("inf"), tl.float32)
    highest = -lowest
    for number in range(part * blocks // parts, (part + 1) * blocks // parts):
        rows = number * block + tl.arange(0, block)
        here = (rows[:, None] < length) & (at[None, :] < features)
        place = item * stride_n + rows[:, None].to(tl.int64) * stride_row + at[None, :]
        x = tl.load(rows_of + place, mask=here, other=0.0).to(tl.float32)
        lowest = tl.minimum(lowest, tl.where(here, x, float("inf")))
        highest = tl.maximum(highest, tl.where(here, x, -float("inf")))
    place = (item * parts + part) * padded_features + at
    inside = at < padded_features
    tl.store(ends + place, tl.min(lowest, 0), mask=inside)
    tl.store(ends + items * parts * padded_features + place, tl.max(highest, 0), mask=inside)


@jit
def _terms(
    rows_of, v, bounds_q, bounds_k, terms, counts, lengths, stride_n, stride_row, num_rows, padded_rows, features,
    padded_features, width, parts_q, parts_k, tiles, items, most,
    has_lengths: tl.constexpr, is_query: tl.constexpr, weighs: tl.constexpr, block: tl.constexpr,
    block_features: tl.constexpr, block_parts: tl.constexpr,
):  # fmt: skip
    """Of a tile of rows v_a b_m (cos, sin)(ω_m q_a), or (sin, cos)(ω_m k_a), in the order [m, which of two, a].

    The angles of one row step by the same amount, so each pair is the one before, turned. Rows of padding, and those
    beyond the length of an item, which may hold anything, count as zero.
    """
    tile, item = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    rows, at = tile * block + tl.arange(0, block), tl.arange(0, block_features)
    period, count = choice(
        bounds_q, bounds_k, item, items, parts_q, parts_k, features, padded_features, at, block_parts
    )
    count = tl.where(count <= most, count, 0)
    if is_query & (tile == 0):
        tl.store(counts + item, count)
    weight = tl.load(v + at, mask=at < features, other=0.0).to(tl.float32)
    largest = tl.max(tl.abs(weight), 0)
    weight = weight / tl.where(largest > 0.0, largest, 1.0)
    length = num_rows
    if has_lengths:
        length = tl.minimum(tl.load(lengths + item).to(tl.int32), num_rows)
    here = (rows[:, None] < length) & (at[None, :] < features)
    place = item * stride_n + rows[:, None].to(tl.int64) * stride_row + at[None, :]
    x = tl.load(rows_of + place, mask=here, other=0.0).to(tl.float32)
    sine, cosine = sine_and_cosine(x, period[None, :], 0)
    turn_sine, turn_cosine = 2.0 * sine * cosine, 1.0 - 2.0 * sine * sine
    inside = (rows[:, None] < padded_rows) & (at[None, :] < padded_features)
    place = (item * padded_rows + rows[:, None]) * width + at[None, :]
    for m in range(count):
        if weighs:
            share = (weight * coefficient(m, period))[None, :]
            first, second = share * cosine, share * sine
        else:
            first, second = sine, cosine
        tl.store(terms + place, first.to(terms.dtype.element_ty), mask=inside)
        tl.store(terms + place + padded_features, second.to(terms.dtype.element_ty), mask=inside)
        place += 2 * padded_features
        sine, cosine = sine * turn_cosine + cosine * turn_sine, cosine * turn_cosine - sine * turn_sine


@jit
def _multiply(
    terms_q, terms_k, counts, facts, scores, lengths, num_queries, num_keys, padded_rows, padded_columns, width, step_m,
    shift, before, after, padded_q, padded_k, tiles_q, tiles_k,
    has_lengths: tl.constexpr, block_q: tl.constexpr, block_k: tl.constexpr, block: tl.constexpr,
    neighbours: tl.constexpr,
):  # fmt: skip
    """One tile of scores, if its item has terms and one of its queries may see one of its keys by their places."""
    number = tl.program_id(0)
    item, number = (number // (tiles_q * tiles_k)).to(tl.int64), number % (tiles_q * tiles_k)
    first = number // (neighbours * tiles_k) * neighbours  # programs that run together share rows and columns
    high = tl.minimum(tiles_q - first, neighbours)
    number = number % (neighbours * tiles_k)
    tile, column = first + number % high, number // high
    last = tl.minimum(tl.minimum(tile * block_q + block_q, num_queries) + shift + after, num_keys)
    if has_lengths:
        last = tl.minimum(last, tl.load(lengths + item).to(tl.int32))
    count = tl.load(counts + item)
    count = tl.where(column * block_k < last, count, 0)
    count = tl.where(column * block_k + block_k > tile * block_q + shift - before, count, 0)
    if count > 0:
        rows, columns = tile * block_q + tl.arange(0, block_q), column * block_k + tl.arange(0, block_k)
        at = tl.arange(0, block)
        there = item * padded_rows + tl.minimum(rows, padded_rows - 1)
        up = terms_q + there[:, None] * width + at[None, :]
        there = item * padded_columns + tl.minimum(columns, padded_columns - 1)
        across = terms_k + there[None, :] * width + at[:, None]
        total = tl.zeros([block_q, block_k], tl.float32)
        for _ in range(0, count * step_m, block):
            left, right = tl.load(up), tl.load(across)
            if INTERPRETED:
                total += tl.dot(left.to(tl.float32), right.to(tl.float32))
            else:
                total = tl.dot(left, right, total)
            up += block
            across += block
        place = item * padded_q * padded_k + rows[:, None].to(tl.int64) * padded_k + columns[None, :]
        inside = (rows[:, None] < padded_q) & (columns[None, :] < padded_k)
        tl.store(scores + place, tl.load(facts) * total, mask=inside)


# ── launches ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Tiles:
    """The size of a tile of scores, and how `_multiply` is built."""

    queries: int = 128
    keys: int = 256
    terms: int = 64  # of one step
    warps: int = 8
    stages: int = 3
    neighbours: int = 8


def pays(query: Tensor, keys: Tensor) -> bool:
    """Whether scores of these sizes and type are worth it."""
    (n, q, a), k = query.shape, keys.shape[1]
    if query.dtype != torch.bfloat16 or min(q, k) < FEWEST_KEYS or n * q * k * a < SMALLEST_WORK:
        return False
    return n * max(q, k) * _width(a) <= MOST_NUMBERS


def fill(
    scores: Tensor,
    query: Tensor,
    keys: Tensor,
    v: Tensor,
    facts: Tensor,
    rules: Rules,
    shift: int,
    tiles: Tiles | None = None,
) -> Tensor:
    """Fills the scores [n q k], padded, of all items that need few terms; gives the number of terms [n], 0: not filled.

    `facts` starts with max|v|.
    """
    tiles = tiles or Tiles()
    made = make_terms(query, keys, v, rules, weighs=True)
    grid = -(-scores.shape[1] // tiles.queries), -(-scores.shape[2] // tiles.keys)
    with on(query):
        _multiply[(len(query) * grid[0] * grid[1],)](
            made.of_query, made.of_keys, made.counts, facts, scores, query if rules.lengths is None else rules.lengths,
            query.shape[1], keys.shape[1], made.of_query.shape[1], made.of_keys.shape[1], made.width, 2 * made.padded,
            shift, rules.before, rules.after, *scores.shape[1:], *grid,
            has_lengths=rules.lengths is not None, block_q=tiles.queries, block_k=tiles.keys, block=tiles.terms,
            neighbours=tiles.neighbours, num_warps=tiles.warps, num_stages=tiles.stages,
        )  # fmt: skip
    return made.counts


@dataclass(frozen=True)
class Terms:
    """Sines and cosines of the rows of both sides, as `_terms` makes them."""

    of_query: Tensor  # [n q terms], rows padded
    of_keys: Tensor  # [n k terms]
    counts: Tensor  # [n], M of each item, or 0
    bounds: tuple[Tensor, Tensor]  # of queries and keys [2 n parts features], the lowest and the highest of each part
    padded: int  # features with those that fill the step of a product

    @property
    def width(self) -> int:
        """How many numbers a row of terms has room for."""
        return self.of_keys.shape[2]


def make_terms(query: Tensor, keys: Tensor, v: Tensor, rules: Rules, *, weighs: bool) -> Terms:
    """The terms of both sides: those of queries times v_a b_m, in float16; or without them, in bfloat16."""
    (n, q, a), k = query.shape, keys.shape[1]
    padded, width, has_lengths = _padded(a), _width(a), rules.lengths is not None
    dtype = torch.float16 if weighs else torch.bfloat16  # which holds gradients of any size, and is multiplied by them
    lengths = query if rules.lengths is None else rules.lengths
    counts = torch.empty(n, dtype=torch.int32, device=query.device)
    parts = min(PARTS, -(-q // 64)), min(PARTS, -(-k // 64))
    of_query, of_keys = (
        torch.empty(n, -(-rows // ROW_STEP) * ROW_STEP, width, dtype=dtype, device=query.device) for rows in (q, k)
    )
    bounds_q, bounds_k = (torch.empty(2, n, p, padded, dtype=torch.float32, device=query.device) for p in parts)
    sides = (query, of_query, bounds_q, parts[0], False), (keys, of_keys, bounds_k, parts[1], has_lengths)
    features = power_of_two(padded)
    with on(query):
        for x, _, bounds, count, shortens in sides:
            _bounds[(n * count,)](
                x, bounds, lengths, *x.stride()[:2], x.shape[1], a, padded, count, n,
                has_lengths=shortens, block=32, block_features=features, num_warps=4, num_stages=1,
            )  # fmt: skip
        for number, (x, made, _, _, shortens) in enumerate(sides):
            tiles = -(-made.shape[1] // ROWS)
            _terms[(n * tiles,)](
                x, v, bounds_q, bounds_k, made, counts, lengths, *x.stride()[:2], x.shape[1], made.shape[1], a, padded,
                width, *parts, tiles, n, MOST_TERMS,
                has_lengths=shortens, is_query=number == 0, weighs=weighs and number == 0, block=ROWS,
                block_features=features, block_parts=PARTS, num_warps=8, num_stages=1,
            )  # fmt: skip
    return Terms(of_query, of_keys, counts, (bounds_q, bounds_k), padded)


def _padded(features: int) -> int:
    """How many features a row has with those that fill the step of a product."""
    return -(-features // 32) * 32


def _width(features: int) -> int:
    """How many numbers a row of terms has room for."""
    return MOST_TERMS * 2 * _padded(features)
