# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""Attention over an edge list in one pass, for scores LeakyReLU(s_i + t_j): graph attention without a tensor [e d].

Edges are sorted by target, and one program walks along the edges of one target in one head: it forms the scores, keeps
the highest one and the sum of exponentials, and adds up the values. Backward, one pass over targets gives the gradient
of s, and one over sources, with the edges sorted by source, those of t and of the values. So there is no atomic
addition: results repeat bit by bit. Memory is that of nodes × width and of three numbers for each edge.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.base import ImplementationUnavailable
from regard.kernels.derivatives import differentiable_again, refuse_transforms
from regard.kernels.dropout import kept
from regard.kernels.launch import jit, on, power_of_two, tl
from regard.kernels.limits import reasons_against_triton
from regard.kernels.opaque import opaque

LIMIT = tl.constexpr(torch.finfo(torch.float32).max / 8)  # of scores, as in `align.finite`
TILE = 512  # numbers of values that a program looks at in one step


class SortedEdges(NamedTuple):
    """An edge list twice, as 32-bit numbers: by target with its sources, and by source with its targets."""

    by_target: Tensor  # [e] numbers of edges
    sources: Tensor  # [e] of the edges in that order
    target_starts: Tensor  # [q + 1] where the edges of each target begin
    by_source: Tensor  # [e] numbers of edges
    targets: Tensor  # [e] of the edges in that order
    source_starts: Tensor  # [k + 1]


def sort_edges(targets: Int[Tensor, " e"], sources: Int[Tensor, " e"], num_queries: int, num_keys: int) -> SortedEdges:
    """The two orders of an edge list; edges of one node keep their order."""
    by_target, by_source = targets.argsort(stable=True), sources.argsort(stable=True)
    tables = (
        by_target, sources[by_target], _starts(targets, num_queries),
        by_source, targets[by_source], _starts(sources, num_keys),
    )  # fmt: skip
    return SortedEdges(*(table.to(torch.int32) for table in tables))


def _starts(nodes: Tensor, count: int) -> Tensor:
    return torch.cat([nodes.new_zeros(1), torch.bincount(nodes, minlength=count).cumsum(0)])


# ── kernels ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@jit
def _scores(sums, slope, here):
    """LeakyReLU, made finite as in the reference; the slope at each place; which edges are there and not at −∞."""
    low = tl.where(slope == 0.0, 0.0, sums * slope)
    scores = tl.where(sums > 0.0, sums, low)
    seen = here & (scores != -float("inf"))
    return tl.minimum(tl.maximum(scores, -LIMIT), LIMIT), tl.where(sums > 0.0, 1.0, slope), seen


@jit
def _kept_edges(seed, item, edges, dropout, block: tl.constexpr):
    """Which edges survive dropout in this head."""
    return tl.reshape(kept(seed, item, tl.arange(0, 1), edges, dropout), [block])


@jit
def _of_sources(
    own, source_half, values, sources, place, here, item, num_keys, stride_vn, stride_v, deep, depth, slope
):  # fmt: skip
    """Of a block of edges of one target: scores, slopes, which of them count, and the values of their sources."""
    source = tl.load(sources + place, mask=here, other=0).to(tl.int64)
    other = tl.load(source_half + item * num_keys + source, mask=here, other=0.0)
    scores, steep, seen = _scores(own + other, slope, here)
    there = here[:, None] & (deep[None, :] < depth)
    value = tl.load(values + item * stride_vn + source[:, None] * stride_v + deep[None, :], mask=there, other=0.0)
    return scores, steep, seen, value.to(tl.float32)


@jit
def _forward(
    target_half, source_half, values, context, highest, total, order, sources, starts, seed,
    stride_vn, stride_v, stride_cn, stride_c, num_queries, num_keys, items, depth, slope, dropout,
    has_dropout: tl.constexpr, block: tl.constexpr, padded: tl.constexpr,
):  # fmt: skip
    """The context of one target in one head, its highest score, and the sum of its exponentials."""
    number = tl.program_id(0).to(tl.int64)
    item, target = number % items, number // items
    first, last = tl.load(starts + target), tl.load(starts + target + 1)
    own = tl.load(target_half + item * num_queries + target)
    deep = tl.arange(0, padded)
    peak = tl.full([], -float("inf"), tl.float32)
    summed = tl.full([], 0.0, tl.float32)
    result = tl.zeros([padded], tl.float32)
    for step in range(tl.cdiv(last - first, block)):
        place = first + step * block + tl.arange(0, block)
        here = place < last
        scores, _, seen, value = _of_sources(
            own, source_half, values, sources, place, here, item, num_keys, stride_vn, stride_v, deep, depth, slope
        )
        higher = tl.maximum(peak, tl.max(tl.where(seen, scores, -float("inf")), 0))
        base = tl.where(higher == -float("inf"), 0.0, higher)
        shrink = tl.exp(peak - base)
        weights = tl.where(seen, tl.exp(tl.where(seen, scores - base, 0.0)), 0.0)
        summed = summed * shrink + tl.sum(weights, 0)
        if has_dropout:
            edges = tl.load(order + place, mask=here, other=0)
            weights = tl.where(_kept_edges(seed, item, edges, dropout, block), weights / (1.0 - dropout), 0.0)
        result = result * shrink + tl.sum(weights[:, None] * value, 0)
        peak = higher
    result = result / tl.where(summed != 0.0, summed, 1.0)
    at = context + item * stride_cn + target * stride_c + deep
    tl.store(at, result.to(context.dtype.element_ty), mask=deep < depth)
    tl.store(highest + item * num_queries + target, tl.where(summed != 0.0, peak, 0.0))
    tl.store(total + item * num_queries + target, summed)


@jit
def _backward_targets(
    target_half, source_half, values, grad, highest, total, mean, grad_target, order, sources, starts, seed,
    stride_vn, stride_v, stride_gn, stride_g, num_queries, num_keys, items, depth, slope, dropout,
    has_dropout: tl.constexpr, block: tl.constexpr, padded: tl.constexpr,
):  # fmt: skip
    """Of one target in one head: Σ_j w_j dw_j, which `_backward_sources` needs, and the gradient of its half."""
    number = tl.program_id(0).to(tl.int64)
    item, target = number % items, number // items
    first, last = tl.load(starts + target), tl.load(starts + target + 1)
    row = item * num_queries + target
    own, peak, summed = tl.load(target_half + row), tl.load(highest + row), tl.load(total + row)
    share = 1.0 / tl.where(summed != 0.0, summed, 1.0)
    deep = tl.arange(0, padded)
    outer = tl.load(grad + item * stride_gn + target * stride_g + deep, mask=deep < depth, other=0.0).to(tl.float32)
    average = tl.full([], 0.0, tl.float32)
    sloped = tl.full([], 0.0, tl.float32)  # Σ w dw · slope
    slopes = tl.full([], 0.0, tl.float32)  # Σ w · slope
    for step in range(tl.cdiv(last - first, block)):
        place = first + step * block + tl.arange(0, block)
        here = place < last
        scores, steep, seen, value = _of_sources(
            own, source_half, values, sources, place, here, item, num_keys, stride_vn, stride_v, deep, depth, slope
        )
        weights = tl.where(seen, tl.exp(tl.where(seen, scores - peak, 0.0)), 0.0) * share
        gained = tl.sum(value * outer[None, :], 1)
        if has_dropout:
            edges = tl.load(order + place, mask=here, other=0)
            gained = tl.where(_kept_edges(seed, item, edges, dropout, block), gained / (1.0 - dropout), 0.0)
        average += tl.sum(weights * gained, 0)
        sloped += tl.sum(weights * gained * steep, 0)
        slopes += tl.sum(weights * steep, 0)
    tl.store(mean + row, average)
    tl.store(grad_target + row, sloped - average * slopes)


@jit
def _backward_sources(
    target_half, source_half, values, grad, highest, total, mean, grad_source, grad_values, order, targets, starts,
    seed, stride_vn, stride_v, stride_gn, stride_g, stride_on, stride_o,
    num_queries, num_keys, items, depth, slope, dropout,
    has_dropout: tl.constexpr, block: tl.constexpr, padded: tl.constexpr,
):  # fmt: skip
    """Of one source in one head: the gradients of its half and of its values, over all targets that see it."""
    number = tl.program_id(0).to(tl.int64)
    item, source = number % items, number // items
    first, last = tl.load(starts + source), tl.load(starts + source + 1)
    own = tl.load(source_half + item * num_keys + source)
    deep = tl.arange(0, padded)
    value = tl.load(values + item * stride_vn + source * stride_v + deep, mask=deep < depth, other=0.0).to(tl.float32)
    halves = tl.full([], 0.0, tl.float32)
    result = tl.zeros([padded], tl.float32)
    for step in range(tl.cdiv(last - first, block)):
        place = first + step * block + tl.arange(0, block)
        here = place < last
        target = tl.load(targets + place, mask=here, other=0).to(tl.int64)
        row = item * num_queries + target
        other = tl.load(target_half + row, mask=here, other=0.0)
        peak, summed = tl.load(highest + row, mask=here, other=0.0), tl.load(total + row, mask=here, other=1.0)
        average = tl.load(mean + row, mask=here, other=0.0)
        scores, steep, seen = _scores(other + own, slope, here)
        there = here[:, None] & (deep[None, :] < depth)
        outer = tl.load(grad + item * stride_gn + target[:, None] * stride_g + deep[None, :], mask=there, other=0.0)
        outer = outer.to(tl.float32)
        weights = tl.where(seen, tl.exp(tl.where(seen, scores - peak, 0.0)), 0.0)
        weights = weights / tl.where(summed != 0.0, summed, 1.0)
        gained, taken = tl.sum(outer * value[None, :], 1), weights
        if has_dropout:
            edges = tl.load(order + place, mask=here, other=0)
            keep = _kept_edges(seed, item, edges, dropout, block)
            gained = tl.where(keep, gained / (1.0 - dropout), 0.0)
            taken = tl.where(keep, weights / (1.0 - dropout), 0.0)
        halves += tl.sum(weights * (gained - average) * steep, 0)
        result += tl.sum(taken[:, None] * outer, 0)
    tl.store(grad_source + item * num_keys + source, halves)
    at = grad_values + item * stride_on + source * stride_o + deep
    tl.store(at, result.to(grad_values.dtype.element_ty), mask=deep < depth)


def _sizes(values: Tensor, dropout: float) -> dict[str, int | bool]:
    """Widths as powers of two, and how many edges are looked at together."""
    padded = power_of_two(values.shape[-1], 2)
    block = min(32, max(4, TILE // padded))
    return {"has_dropout": dropout > 0.0, "block": block, "padded": padded, "num_warps": 1 if padded <= 128 else 4}


# ── operations ──────────────────────────────────────────────────────────────────────────────────────────────────────


@opaque("regard::edges_forward")
def _forward_op(
    target_half: Tensor, source_half: Tensor, values: Tensor, by_target: Tensor, sources: Tensor, target_starts: Tensor,
    by_source: Tensor, targets: Tensor, source_starts: Tensor, seed: Tensor | None, slope: float, dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    (items, queries), keys = target_half.shape, source_half.shape[1]
    context, highest, total = _made(target_half, values)
    if items * queries:
        with on(values):
            _forward[(items * queries,)](
                target_half, source_half, values, context, highest, total, by_target, sources, target_starts,
                sources if seed is None else seed, *values.stride()[:2], *context.stride()[:2],
                queries, keys, items, values.shape[2], slope, dropout, **_sizes(values, dropout),
            )  # fmt: skip
    return context, highest, total


@opaque("regard::edges_backward")
def _backward_op(
    grad: Tensor, target_half: Tensor, source_half: Tensor, values: Tensor, highest: Tensor, total: Tensor,
    by_target: Tensor, sources: Tensor, target_starts: Tensor, by_source: Tensor, targets: Tensor,
    source_starts: Tensor, seed: Tensor | None, slope: float, dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    (items, queries), keys, depth = target_half.shape, source_half.shape[1], values.shape[2]
    grad_target, grad_source, grad_values = _gradients(target_half, source_half, values)
    mean = torch.empty_like(target_half)
    grad = grad if grad.stride(-1) == 1 else grad.contiguous()
    noise, sizes = sources if seed is None else seed, _sizes(values, dropout)
    strides = *values.stride()[:2], *grad.stride()[:2]
    with on(values):
        if items * queries:
            _backward_targets[(items * queries,)](
                target_half, source_half, values, grad, highest, total, mean, grad_target,
                by_target, sources, target_starts, noise, *strides,
                queries, keys, items, depth, slope, dropout, **sizes,
            )  # fmt: skip
        if items * keys:
            _backward_sources[(items * keys,)](
                target_half, source_half, values, grad, highest, total, mean, grad_source, grad_values,
                by_source, targets, source_starts, noise, *strides, *grad_values.stride()[:2],
                queries, keys, items, depth, slope, dropout, **sizes,
            )  # fmt: skip
    return grad_target, grad_source, grad_values


def _made(target_half: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Room for the context, in which the heads of a node lie side by side, and for the sums."""
    items, queries = target_half.shape
    context = values.new_empty(queries, items, values.shape[2]).transpose(0, 1)
    return context, torch.empty_like(target_half), torch.empty_like(target_half)


def _gradients(target_half: Tensor, source_half: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    items, keys, depth = values.shape
    room = values.new_empty(keys, items, depth).transpose(0, 1)
    return torch.empty_like(target_half), torch.empty_like(source_half), room


@_forward_op.register_fake
def _(target_half, source_half, values, *rest):
    return _made(target_half, values)


@_backward_op.register_fake
def _(grad, target_half, source_half, values, *rest):
    return _gradients(target_half, source_half, values)


def _remember(ctx, inputs, output):
    *tensors, ctx.slope, ctx.dropout = inputs
    target_half, source_half, values, *tables, seed = tensors
    _, highest, total = output
    ctx.save_for_backward(target_half, source_half, values, highest, total, *tables, seed)
    ctx.mark_non_differentiable(highest, total)
    ctx.set_materialize_grads(False)


def _differentiate(ctx, grad, *_):
    if grad is None:
        return (None,) * 12
    if not torch.is_grad_enabled():
        return *_backward_op(grad, *ctx.saved_tensors, ctx.slope, ctx.dropout), *(None,) * 9
    target_half, source_half, values, _highest, _total, *tables, _seed = ctx.saved_tensors
    edges, inputs = SortedEdges(*tables), (target_half, source_half, values)  # somebody wants a second derivative

    def plain(target_half, source_half, values):
        return plain_edges(target_half, source_half, values, edges, slope=ctx.slope)

    gradients = differentiable_again(plain, inputs, ctx.needs_input_grad[:3], grad, dropout=ctx.dropout)
    return *gradients, *(None,) * 9


_forward_op.register_autograd(_differentiate, setup_context=_remember)


# ── functions ───────────────────────────────────────────────────────────────────────────────────────────────────────


def fused_edges(
    target_half: Float[Tensor, "n q"],
    source_half: Float[Tensor, "n k"],
    values: Float[Tensor, "n k d"],
    edges: SortedEdges,
    *,
    slope: float,
    dropout: float = 0.0,
    seed: Int[Tensor, "1"] | None = None,
) -> tuple[Float[Tensor, "n q d"], Float[Tensor, "n q"], Float[Tensor, "n q"]]:
    """The context of each target for the scores e_ij = LeakyReLU(s_i + t_j), its highest score and Σ_j exp(e_ij − it).

    The two numbers have no gradient: `edge_weights` makes the weights of them. A target without an edge has the
    context 0. Halves are float32; values are float32, bfloat16 or float16, up to 256 wide. `dropout` acts on the
    weights, with noise from `seed` or else from torch's generator.
    """
    refuse_transforms("fused_edges")
    if reasons := reasons_against_triton(values.device, values=values):
        what, cure = "fused_edges cannot run here: " + "; ".join(reasons), "use attend_edges(…, impl='reference')"
        raise ImplementationUnavailable(what, cure=cure)
    if dropout > 0.0 and seed is None:
        seed = torch.randint(1 << 62, (1,), device=values.device)
    values = values if values.stride(-1) == 1 else values.contiguous()
    context, highest, total = _forward_op(
        target_half.contiguous(), source_half.contiguous(), values, *edges, seed if dropout > 0.0 else None,
        float(slope), float(dropout),
    )  # fmt: skip
    return context, highest, total


def edge_weights(
    target_half: Float[Tensor, "n q"],
    source_half: Float[Tensor, "n k"],
    highest: Float[Tensor, "n q"],
    total: Float[Tensor, "n q"],
    targets: Int[Tensor, " e"],
    sources: Int[Tensor, " e"],
    *,
    slope: float,
) -> Float[Tensor, "n e"]:
    """The weights of the edges beside a fused pass, from its two numbers for each target; without gradient."""
    with torch.no_grad():
        scores = _plain_scores(target_half, source_half, targets, sources, slope)
        limit = torch.finfo(scores.dtype).max / 8
        weights = (scores.clamp(-limit, limit) - highest.index_select(-1, targets)).exp()
        weights = weights / total.index_select(-1, targets)
        return weights.masked_fill(scores == -torch.inf, 0.0)


def plain_edges(target_half, source_half, values, edges: SortedEdges, *, slope: float):
    """What `fused_edges` computes, in plain operations, without dropout."""
    sources, counts = edges.sources.long(), edges.target_starts.diff().long()
    targets = torch.repeat_interleave(torch.arange(len(counts), device=sources.device), counts)
    scores = _plain_scores(target_half, source_half, targets, sources, slope)
    lowest = scores.new_full(target_half.shape, torch.finfo(scores.dtype).min)
    peak = lowest.scatter_reduce(-1, targets.expand(scores.shape), scores.detach(), "amax").index_select(-1, targets)
    shares = (scores - peak).exp()
    total = torch.zeros_like(target_half).index_add(-1, targets, shares)
    taken = (shares / total.index_select(-1, targets)).unsqueeze(-1) * values.float().index_select(-2, sources)
    context = taken.new_zeros(*target_half.shape, values.shape[-1]).index_add(-2, targets, taken)
    return context.to(values.dtype)


def _plain_scores(target_half: Tensor, source_half: Tensor, targets: Tensor, sources: Tensor, slope: float) -> Tensor:
    sums = target_half.index_select(-1, targets) + source_half.index_select(-1, sources)
    return torch.where(sums > 0, sums, sums * slope if slope else torch.zeros_like(sums))
