"""Additive attention in blocks that fit the cache of a processor: plain PyTorch, and never a tensor [q k a].

The eager score writes tanh(q_i + k_j) for all pairs to memory, and keeps it for the gradients. Here a block [i j a] of
a few queries and keys is made in one small buffer, reduced to scores, and made again in the backward pass. It needs no
exponential: with E = exp(2q) and F = exp(2k), both made once,

    r = 1 / (1 + E·F)        tanh(q + k) = 1 − 2r        tanh'(q + k) = 4 (r − r²)

E and F must be numbers of full precision. Where one of query and keys is of moderate size the other is clamped, which
changes a tanh by less than a rounding, since it is ±1 there. Where both are large, a block is tanh(q + k) itself.

A block belongs to one thread. Threads share the rows, not the operations: operations this short, each split among
threads that wait for each other, take a hundred times as long as soon as another process wants a core.
"""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from itertools import chain, groupby
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.base import ConfigError, ShapeError
from regard.kernels.derivatives import (
    differentiable_again,
    plain_additive,
    plain_additive_with_weights,
    refuse_transforms,
    visible_keys,
)
from regard.kernels.opaque import opaque

BLOCK = 1 << 21  # bytes of a block: a thread's share of the cache
ROWS = 1 << 16  # scores [q k] that a thread holds at a time
SHARE = 1 << 20  # numbers [q k a] that are worth a thread
PAYING_QUERIES, PAYING_SIZE = 4, 1 << 22  # see `pays`
BOUND = {torch.float32: (33.0, 43.0), torch.float64: (330.0, 352.0)}  # exp(±2·43) are normal numbers, and 43 − 33 > 9

Result = TypeVar("Result")


# ---------------------------------------------------------------- blocks


class _Pairs:
    """Queries [s q a] and keys [s k a] of some sentences, as blocks x_ij with tanh(q_i + k_j) = 1 − 2 x_ij, or x_ij."""

    def __init__(self, query: Tensor, keys: Tensor, v: Tensor) -> None:
        moderate, bound = BOUND[v.dtype]
        self.rational = any(bool(x.abs().max() <= moderate) for x in (query, keys) if x.numel())
        if self.rational:
            query, keys = (x.clamp(-bound, bound).mul_(2.0).exp_() for x in (query, keys))
        self.query, self.keys, self.one = query.unsqueeze(2), keys.unsqueeze(1), v.new_ones(())
        self.scale, self.slope = (-2.0, 4.0) if self.rational else (1.0, 1.0)
        self.v = v * self.scale
        self.offset = v.sum() if self.rational else v.new_zeros(())

    def score(self, i: slice, j: slice, x: Tensor) -> Tensor:
        """Fills a block x [s i j a]; gives its scores [s i j], without the offset."""
        query, keys = self.query[:, i], self.keys[:, :, j]
        if self.rational:
            torch.addcmul(self.one, query, keys, out=x).reciprocal_()
        else:
            torch.add(query, keys, out=x).tanh_()
        return torch.mv(x.view(-1, x.shape[-1]), self.v).view(x.shape[:-1])

    def differentiate(self, x: Tensor) -> None:
        """tanh' / slope, in the place of a block."""
        torch.addcmul(x if self.rational else self.one, x, x, value=-1.0, out=x)


class _Tile(NamedTuple):
    """Some rows of some sentences and the keys that one of them may see; `number` counts the tiles."""

    number: int
    sentences: slice
    rows: slice
    span: slice

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of the scores [s q k]."""
        return _size(self.sentences), _size(self.rows), _size(self.span)

    def local(self, i: slice, j: slice) -> tuple[slice, slice, slice]:
        """Where a block is among the scores of the tile."""
        row, key = self.rows.start, self.span.start
        return slice(None), slice(i.start - row, i.stop - row), slice(j.start - key, j.stop - key)


class _Plan:
    """What is to be done, in which order: tiles that threads share, and the blocks of a tile.

    A block holds several short sentences, or some queries and keys of a long one.
    """

    def __init__(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        v: Tensor,
        lengths: Tensor | None,
        allowed: Tensor | None,
        before: int | None,
        after: int | None,
        dropout: float,
        seed: Tensor | None,
    ) -> None:
        self.dtype = _wide(query, keys, values, v)
        self.query, self.keys, self.values, self.v = query, keys, values, v.to(self.dtype)
        (self.num_sentences, self.num_queries, self.width), self.num_keys = query.shape, keys.shape[1]
        self.lengths = None if lengths is None else lengths.clamp(0, self.num_keys)
        self.allowed, self.before, self.after, self.dropout = allowed, before, after, dropout
        self.seed = None if seed is None else int(seed)
        pairs = max(1, BLOCK // (self.dtype.itemsize * max(self.width, 1)))
        some = max(1, min(self.num_queries, math.isqrt(pairs)))
        self.block_keys = max(1, min(self.num_keys, pairs // some))
        self.block_queries = max(1, min(self.num_queries, pairs // self.block_keys))
        self.group = max(1, pairs // max(1, self.num_queries * self.num_keys))

    def tiles(self) -> list[_Tile]:
        """All tiles. They depend on shapes and lengths alone, so both passes have the same."""
        size = max(self.block_queries, ROWS // max(self.num_keys, 1))
        lengths = [self.num_keys] * self.num_sentences if self.lengths is None else self.lengths.tolist()
        tiles: list[_Tile] = []
        for sentences in _cut(slice(0, self.num_sentences), self.group):
            for rows in _cut(slice(0, self.num_queries), size):
                span = self.seen(rows, slice(0, max(lengths[sentences])))
                if span.start < span.stop:
                    tiles.append(_Tile(len(tiles), sentences, rows, span))
        return tiles

    def seen(self, rows: slice, span: slice) -> slice:
        """The part of the keys in `span` that one of the rows may see by its position."""
        shift = self.num_keys - self.num_queries  # the last query stands at the last key
        start = span.start if self.before is None else max(span.start, rows.start + shift - self.before)
        stop = span.stop if self.after is None else min(span.stop, rows.stop + shift + self.after)
        return slice(start, stop)

    def blocks(self, tile: _Tile) -> Iterator[tuple[slice, slice]]:
        """The blocks of a tile, without those that no position allows."""
        for i in _cut(tile.rows, self.block_queries):
            for j in _cut(self.seen(i, tile.span), self.block_keys):
                yield i, j

    def room(self) -> Callable[[_Tile, slice, slice], Tensor]:
        """Room for one block [s i j a] at a time; each thread has its own."""
        size = min(self.group, self.num_sentences) * self.block_queries * self.block_keys
        buffer = self.query.new_empty(size * self.width, dtype=self.dtype)

        def block(tile: _Tile, i: slice, j: slice) -> Tensor:
            shape = _size(tile.sentences), _size(i), _size(j), self.width
            return buffer[: math.prod(shape)].view(shape)

        return block

    def inside(self, x: Tensor, sentences: slice) -> Tensor:
        """Keys or values of some sentences, in the dtype of the work; padding, which may hold anything, is zero."""
        x = x[sentences].to(self.dtype)
        return x if self.lengths is None else x.masked_fill(self.padding(sentences).unsqueeze(-1), 0.0)

    def padding(self, sentences: slice) -> Tensor:
        """True where a key is beyond the length of its sentence, [s k]."""
        assert self.lengths is not None
        return torch.arange(self.num_keys, device=self.query.device) >= self.lengths[sentences].unsqueeze(1)

    def pairs(self, sentences: slice) -> _Pairs:
        """The pairs of some sentences."""
        query, keys = self.query[sentences].to(self.dtype), self.inside(self.keys, sentences)
        return _Pairs(query.contiguous(), keys.contiguous(), self.v)

    def forbidden(self, tile: _Tile) -> Tensor | None:
        """True where a query of the tile may not attend to a key; None if all may."""
        rows, span, conditions = tile.rows, tile.span, []
        if self.before is not None or self.after is not None:
            shift = self.num_keys - self.num_queries
            position = torch.arange(rows.start + shift, rows.stop + shift, device=self.query.device).unsqueeze(1)
            distance = torch.arange(span.start, span.stop, device=self.query.device) - position
            conditions += [] if self.before is None else [distance < -self.before]
            conditions += [] if self.after is None else [distance > self.after]
        if self.lengths is not None:
            conditions.append(self.padding(tile.sentences)[:, None, span])
        if self.allowed is not None:
            allowed = self.allowed if self.allowed.shape[0] == 1 else self.allowed[tile.sentences]
            conditions.append(~(allowed if allowed.shape[1] == 1 else allowed[:, rows])[:, :, span])
        return reduce(torch.logical_or, conditions) if conditions else None

    def dropout_factors(self, tile: _Tile) -> Tensor | None:
        """What dropout multiplies the weights of a tile by; the same in both passes."""
        if self.seed is None:
            return None
        factors = self.query.new_zeros(tile.shape, dtype=self.dtype)
        if self.dropout == 1.0:
            return factors
        generator = torch.Generator(self.query.device).manual_seed(self.seed + tile.number)
        return factors.bernoulli_(1.0 - self.dropout, generator=generator).div_(1.0 - self.dropout)

    def share(self, work: Callable[[list[_Tile]], Result]) -> list[Result]:
        """`work` on all tiles, by as many threads as torch may use and the size is worth."""
        tiles, threads = self.tiles(), torch.get_num_threads()
        costs = [math.prod(tile.shape) * self.width for tile in tiles]
        total, done = max(1, sum(costs)), 0
        count = max(1, min(threads, len(tiles), total // SHARE)) if self.query.is_cpu else 1
        stripes: list[list[_Tile]] = [[] for _ in range(count)]
        for tile, cost in zip(tiles, costs, strict=True):  # neighbours stay together, where their middle falls
            stripes[min(count - 1, (2 * done + cost) * count // (2 * total))].append(tile)
            done += cost
        inference, device = torch.is_inference_mode_enabled(), self.query.device.type

        def run(stripe: list[_Tile]) -> Result:
            torch.set_num_threads(1)  # for the operations of this thread
            with torch.inference_mode(inference), torch.no_grad(), torch.autocast(device, enabled=False):
                return work(stripe)

        try:
            if count == 1:
                return [run(tiles)]
            with ThreadPoolExecutor(count) as pool:
                return list(pool.map(run, stripes))
        finally:
            torch.set_num_threads(threads)


def _wide(*tensors: Tensor) -> torch.dtype:
    """The dtype of the work: float32 or better."""
    dtype = torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return dtype


def _size(span: slice) -> int:
    return int(span.stop - span.start)


def _cut(span: slice, size: int) -> Iterator[slice]:
    for start in range(span.start, span.stop, size):
        yield slice(start, min(start + size, span.stop))


def _sentences(tile: _Tile) -> tuple[int, int]:
    return tile.sentences.start, tile.sentences.stop


# ---------------------------------------------------------------- the two passes, as operators


@opaque("regard::blocked_additive_forward")
def _forward(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    v: Tensor,
    lengths: Tensor | None,
    allowed: Tensor | None,
    before: int | None,
    after: int | None,
    dropout: float,
    seed: Tensor | None,
    with_weights: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    plan = _Plan(query, keys, values, v, lengths, allowed, before, after, dropout, seed)
    shape = (*query.shape[:2], keys.shape[1]) if with_weights else (0,)
    all_weights = query.new_zeros(shape, dtype=plan.dtype)
    context = values.new_zeros(query.shape[0], query.shape[1], values.shape[2])
    log_sum = query.new_full(query.shape[:2], -math.inf, dtype=plan.dtype)
    peak, total = log_sum.clone(), torch.zeros_like(log_sum)  # the highest score of a row, Σ exp(score − peak)

    def work(tiles: list[_Tile]) -> None:
        room = plan.room()
        for ends, group in groupby(tiles, key=_sentences):
            pairs, content = plan.pairs(slice(*ends)), plan.inside(values, slice(*ends))
            for tile in group:
                forbidden, factors = plan.forbidden(tile), plan.dropout_factors(tile)
                scores = context.new_zeros(tile.shape, dtype=plan.dtype)
                for i, j in plan.blocks(tile):
                    scores[tile.local(i, j)] = pairs.score(i, j, room(tile, i, j))
                scores = scores if forbidden is None else scores.masked_fill_(forbidden, -math.inf)
                top = scores.amax(-1, keepdim=True)
                weights = scores.sub_(top.masked_fill(top == -math.inf, 0.0)).exp_()
                sums = weights.sum(-1, keepdim=True)
                weights.div_(sums.masked_fill(sums == 0.0, 1.0))
                if with_weights:
                    all_weights[tile.sentences, tile.rows, tile.span] = weights
                weights = weights if factors is None else weights.mul_(factors)
                here = tile.sentences, tile.rows
                peak[here], total[here] = top.squeeze(-1), sums.squeeze(-1)
                log_sum[here] = (top + pairs.offset + sums.log()).squeeze(-1)
                context[here] = (weights @ content[:, tile.span]).to(context.dtype)

    plan.share(work)
    return context, log_sum, peak, total, all_weights


@opaque("regard::blocked_additive_backward")
def _backward(
    grad: Tensor,
    context: Tensor,
    peak: Tensor,
    total: Tensor,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    v: Tensor,
    lengths: Tensor | None,
    allowed: Tensor | None,
    before: int | None,
    after: int | None,
    dropout: float,
    seed: Tensor | None,
    all_weights: Tensor | None = None,
    grad_weights: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    plan = _Plan(query, keys, values, v, lengths, allowed, before, after, dropout, seed)
    to_query, to_v = torch.zeros_like(query), torch.zeros_like(plan.v)
    to_keys, to_values = (torch.zeros_like(x, dtype=plan.dtype) for x in (keys, values))

    def work(tiles: list[_Tile]) -> list[tuple[slice, Tensor, Tensor, Tensor]]:
        room, gradients = plan.room(), []
        for ends, group in groupby(tiles, key=_sentences):
            sentences = slice(*ends)
            pairs, content = plan.pairs(sentences), plan.inside(values, sentences)
            slope, ones = plan.v * pairs.slope, plan.v.new_ones(_size(sentences), 1, plan.block_queries)
            for_keys = torch.zeros_like(pairs.keys)  # [s 1 k a]
            for_values = content.new_zeros(content.shape)
            for_v = torch.zeros_like(plan.v)
            for tile in group:
                forbidden, factors = plan.forbidden(tile), plan.dropout_factors(tile)
                here = sentences, tile.rows
                upstream = grad[here].to(plan.dtype)
                mean = (upstream * context[here]).sum(-1, keepdim=True)
                rise = upstream @ content[:, tile.span].mT  # of the loss with each weight
                share = total[here].masked_fill(total[here] == 0.0, 1.0).reciprocal_().unsqueeze(-1)
                rise = rise if factors is None else rise.mul_(factors)
                if all_weights is not None and grad_weights is not None:  # what dropout does not touch
                    given = all_weights[tile.sentences, tile.rows, tile.span]
                    outer = grad_weights[tile.sentences, tile.rows, tile.span].to(plan.dtype)
                    outer = outer.masked_fill(given == 0.0, 0.0)  # which may be infinite there
                    mean, rise = mean + (given * outer).sum(-1, keepdim=True), rise.add_(outer)
                rise.sub_(mean).mul_(share)
                top = peak[here].unsqueeze(-1)
                top = (top if forbidden is None else top.masked_fill(forbidden, math.inf)).expand_as(rise)
                weights = torch.zeros_like(rise)  # times the total
                moment, for_query = (rise.new_zeros(*rise.shape[:2], plan.width) for _ in range(2))
                for i, j in plan.blocks(tile):
                    at, x = tile.local(i, j), room(tile, i, j)
                    weight = pairs.score(i, j, x).sub_(top[at]).exp_()
                    weights[at] = weight
                    slant = weight.mul_(rise[at])  # the gradient of the scores, [s i j]
                    flat = slant.view(-1, 1, slant.shape[-1]), x.flatten(0, 1)
                    moment[at[:2]].view(-1, 1, plan.width).baddbmm_(*flat)
                    pairs.differentiate(x)
                    for_query[at[:2]].view(-1, 1, plan.width).baddbmm_(*flat)
                    x.mul_(slant.unsqueeze(-1))
                    for_keys[:, :, j].view(*ones.shape[:2], -1).baddbmm_(ones[:, :, : x.shape[1]], x.flatten(2))
                for_v += moment.sum((0, 1)).mul_(pairs.scale)
                if pairs.rational:  # but for rounding, the gradients of a row of scores sum to 0
                    for_v += torch.dot(weights.view(-1), rise.view(-1))
                weights = weights.mul_(share if factors is None else factors.mul_(share))
                for_values[:, tile.span] += weights.mT @ upstream
                to_query[here] = for_query.mul_(slope).to(to_query.dtype)
            gradients.append((sentences, for_keys.squeeze(1).mul_(slope), for_values, for_v))
        return gradients

    for sentences, for_keys, for_values, for_v in chain.from_iterable(plan.share(work)):
        to_keys[sentences] += for_keys
        to_values[sentences] += for_values
        to_v += for_v
    return to_query, to_keys.to(keys.dtype), to_values.to(values.dtype), to_v.to(v.dtype)


@_forward.register_fake
def _(query, keys, values, v, lengths, allowed, before, after, dropout, seed, with_weights=False):  # type: ignore[no-untyped-def]
    context = values.new_empty(query.shape[0], query.shape[1], values.shape[2])
    rows = query.new_empty(query.shape[:2], dtype=_wide(query, keys, values, v))
    weights = rows.new_empty((*query.shape[:2], keys.shape[1]) if with_weights else (0,))
    return context, rows, torch.empty_like(rows), torch.empty_like(rows), weights


@_backward.register_fake
def _(grad, context, peak, total, query, keys, values, v, *rest):  # type: ignore[no-untyped-def]
    return tuple(torch.empty_like(x) for x in (query, keys, values, v))


def _remember(ctx, inputs, output):  # type: ignore[no-untyped-def]
    query, keys, values, v, lengths, allowed, *ctx.settings, seed, with_weights = inputs
    context, log_sum, peak, total, weights = output
    ctx.save_for_backward(context, peak, total, query, keys, values, v, lengths, allowed, seed, weights)
    ctx.mark_non_differentiable(log_sum, peak, total, *(() if with_weights else (weights,)))
    ctx.set_materialize_grads(False)  # none for rows of weights that nobody differentiates


def _differentiate(ctx, grad, _log_sum, _peak, _total, of_weights):  # type: ignore[no-untyped-def]
    *tensors, seed, weights = ctx.saved_tensors
    context, _peak, _total, query, keys, values, v, lengths, allowed = tensors
    if grad is None and of_weights is None:
        return (None,) * 11
    if not torch.is_grad_enabled():
        grad = torch.zeros_like(context) if grad is None else grad
        asked = () if of_weights is None else (weights, of_weights)
        return *_backward(grad, *tensors, *ctx.settings, seed, *asked), *(None,) * 7
    before, after, dropout = ctx.settings  # somebody wants a second derivative
    made = plain_additive if of_weights is None else plain_additive_with_weights
    plain = partial(made, seen=visible_keys(query, keys, lengths, allowed, before, after))
    inputs, needed = (query, keys, values, v), ctx.needs_input_grad[:4]
    found = differentiable_again(plain, inputs, needed, grad, dropout=dropout, of_weights=of_weights)
    return *found, *(None,) * 7


_forward.register_autograd(_differentiate, setup_context=_remember)


# ---------------------------------------------------------------- the public functions


def blocked_additive(
    query: Float[Tensor, "n q a"],
    keys: Float[Tensor, "n k a"],
    values: Float[Tensor, "n k d"],
    v: Float[Tensor, " a"],
    *,
    lengths: Int[Tensor, " n"] | None = None,
    causal: bool = False,
    window: tuple[int, int] | None = None,
    allowed: Bool[Tensor, "#n #q k"] | None = None,
    dropout: float = 0.0,
    seed: Int[Tensor, "1"] | None = None,
) -> tuple[Float[Tensor, "n q d"], Float[Tensor, "n q"]]:
    """The context of each query for the scores e_ij = Σ_a v_a tanh(q_ia + k_ja), and log Σ_j exp(e_ij).

    A query sees the first `lengths` keys; with `causal` none after its own position, with `window=(before, after)` only
    keys that near; and keys where `allowed` is True. With more keys than queries, the queries are the last ones.
    A query that sees no key has the context 0 and the sum log 0 = −∞. The sum is formed in float32 or better and has no
    gradient. `dropout` acts on the weights, with noise from `seed` or else from torch's generator.

    >>> query, keys = torch.tensor([[[0.5, 1.0]]]), torch.tensor([[[0.75, -1.0], [-0.25, -0.125], [0.0, -0.25]]])
    >>> blocked_additive(query, keys, torch.eye(3).unsqueeze(0), torch.tensor([1.0, -1.0]))
    (tensor([[[0.6132, 0.1659, 0.2208]]]), tensor([[1.3373]]))
    """
    context, log_sum, _ = _run(
        "blocked_additive", query, keys, values, v, with_weights=False,
        lengths=lengths, causal=causal, window=window, allowed=allowed, dropout=dropout, seed=seed,
    )  # fmt: skip
    return context, log_sum


def blocked_additive_with_weights(
    query: Float[Tensor, "n q a"],
    keys: Float[Tensor, "n k a"],
    values: Float[Tensor, "n k d"],
    v: Float[Tensor, " a"],
    **rules: Any,
) -> tuple[Float[Tensor, "n q d"], Float[Tensor, "n q k"]]:
    """The context as `blocked_additive` gives it, and the weights before dropout, in float32 or better.

    Both have gradients, which one backward pass makes together. For weights alone give values of width 0. `rules` are
    `lengths`, `causal`, `window`, `allowed`, `dropout` and `seed` of `blocked_additive`.

    >>> query, keys = torch.tensor([[[0.5, 1.0]]]), torch.tensor([[[0.75, -1.0], [-0.25, -0.125], [0.0, -0.25]]])
    >>> blocked_additive_with_weights(query, keys, keys[..., :0], torch.tensor([1.0, -1.0]))[1]
    tensor([[[0.6132, 0.1659, 0.2208]]])
    """
    context, _, weights = _run("blocked_additive_with_weights", query, keys, values, v, with_weights=True, **rules)
    return context, weights


def _run(
    name: str,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    v: Tensor,
    *,
    with_weights: bool,
    lengths: Tensor | None = None,
    causal: bool = False,
    window: tuple[int, int] | None = None,
    allowed: Tensor | None = None,
    dropout: float = 0.0,
    seed: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    check_inputs(query, keys, values, v, lengths, allowed, dropout)
    refuse_transforms(name)
    before, after = (None, None) if window is None else sides(window)
    after = 0 if causal else after
    if dropout > 0.0 and seed is None:
        seed = torch.randint(1 << 62, (1,))
    seed = seed if dropout > 0.0 else None
    rules = lengths, allowed, before, after, dropout, seed
    context, log_sum, _, _, weights = _forward(query, keys, values, v, *rules, with_weights)
    return context, log_sum, weights


def pays(n: int, q: int, k: int, a: int) -> bool:
    """Whether this is quicker than the eager reference, forward and backward together.

    >>> pays(64, 1, 30, 128), pays(4, 512, 512, 256)
    (False, True)
    """
    # Eager time / blocked time, float32, one thread of a 2.5 GHz Xeon. a = 256: (24, 30, 30) 0.9, (64, 30, 30) 3.1,
    # (300, 16, 32) 2.8; a = 64: (1, 181, 181) 1.2, (16, 64, 64) 1.0, (1, 256, 256) 1.6. They are even at 2²² numbers;
    # from 2²³ on the reference fetches its tensors from the system anew each time. With one query the tensor of pairs
    # is no larger than the keys; a = 256: (64, 1, 512) 0.7, (64, 2, 256) 1.4, (64, 3, 170) 1.0.
    return q >= PAYING_QUERIES and n * q * k * a >= PAYING_SIZE


def sides(window: tuple[int, int]) -> tuple[int, int]:
    """(before, after), if both are positions to count."""
    if len(window) != 2 or any(not isinstance(side, int) or side < 0 for side in window):
        raise ConfigError(
            "window", got=window, expected="(before, after), each 0 or more", cure="count positions on either side"
        )
    return window


def check_inputs(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    v: Tensor,
    lengths: Tensor | None,
    allowed: Tensor | None,
    dropout: float,
) -> None:
    """What both kernels of additive attention are given fits together."""
    if not 0.0 <= dropout <= 1.0:
        raise ConfigError("dropout", got=dropout, expected="0 to 1", cure="give the share of weights to drop")
    for name, tensor, axes in (("query", query, "[n q a]"), ("keys", keys, "[n k a]"), ("values", values, "[n k d]")):
        if tensor.ndim != 3:
            raise ShapeError(f"{name} has the wrong number of axes", got=list(tensor.shape), expected=axes)
    for name, tensor in (("query", query), ("keys", keys), ("values", values), ("v", v)):
        if not tensor.dtype.is_floating_point:
            raise ConfigError(f"{name} must be real numbers", got=tensor.dtype, expected="a floating dtype")
    for other in (keys, values, v, lengths, allowed):
        if other is not None and other.device != query.device:
            raise ConfigError(
                "tensors are on different devices", got=f"{query.device} and {other.device}", expected="one"
            )
    n, q, a = query.shape
    k = keys.shape[1]
    if a == 0:
        raise ShapeError("query has no width", got=list(query.shape), expected="[n q a] with a ≥ 1")
    wanted = {
        "keys": (
            keys,
            [n, k, a],
            "project query and keys to one width, and repeat one for each batch item of the other",
        ),
        "values": (values, [n, k, values.shape[2]], "give one value for each key"),
        "v": (v, [a], "make v as wide as query and keys"),
    }
    for name, (tensor, shape, cure) in wanted.items():
        if list(tensor.shape) != shape:
            raise ShapeError(f"{name} does not fit", got=list(tensor.shape), expected=shape, cure=cure)
    if lengths is not None and (
        list(lengths.shape) != [n] or lengths.dtype.is_floating_point or lengths.dtype == torch.bool
    ):
        raise ShapeError(
            "lengths does not fit",
            got=f"{list(lengths.shape)} of {lengths.dtype}",
            expected=f"[{n}] of whole numbers",
            cure="count the tokens that are not padding: (tokens != pad).sum(-1)",
        )
    if allowed is not None:
        fits = allowed.ndim == 3 and allowed.shape[0] in (1, n) and allowed.shape[1] in (1, q) and allowed.shape[2] == k
        if not fits or allowed.dtype != torch.bool:
            raise ShapeError(
                "allowed does not fit",
                got=f"{list(allowed.shape)} of {allowed.dtype}",
                expected=f"[{n} or 1, {q} or 1, {k}] of torch.bool",
                cure="pass a tensor of bools in which True means: may attend",
            )
