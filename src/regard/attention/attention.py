"""Score → align → context: the mechanism. Read this file first; `_attend` has the three lines.

scores  = score(query, keys)        [*b q d], [*b k f] → [*b q k]     how well does each key answer the query?
weights = align(scores, mask)       [*b q k] → [*b q k]               how much of each key does the query take?
context = weights @ values          [*b q k], [*b k v] → [*b q v]     what does it get?
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.align import Align, Alignment, Softmax
from regard.attention.checks import check_call, check_callable, check_dropout, check_pairs, key_tensor
from regard.attention.dispatch import DOTS, Call, check_impl, choose
from regard.attention.fused import additive, banded, broadcast, few, one_query, sdpa, short
from regard.attention.mask import Mask, as_mask, fit
from regard.attention.output import AttentionOutput, CallOptions
from regard.attention.tracing import record, watched
from regard.attention.weights import recompute_weights
from regard.score import Prepared, ScaledDot, Score

ScoreLike = Score | Callable[..., Tensor]
AlignLike = Align | Callable[..., Alignment | Tensor]
SCALED_DOT, SOFTMAX = ScaledDot(), Softmax()  # the defaults; neither holds anything


def _attend(
    query: Tensor, keys: Tensor | Prepared, values: Tensor, score: ScoreLike, align: AlignLike, options: CallOptions
) -> AttentionOutput:
    """The mechanism. All else in this file checks what comes in, or does the same in a faster way."""
    scores = _scores(score, query, keys, values, options)  # ① how well does each key answer the query?
    weights, log_prob, entropy = _align(align, scores, query, options)  # ② how much of each key does the query take?
    context = _drop(weights, options.dropout).to(values.dtype) @ values  # ③ what does it get?
    return AttentionOutput(context, weights.to(query.dtype), log_prob, entropy)


def attend(
    query: Float[Tensor, "*#b q d"],
    keys: Float[Tensor, "*#b k e"] | Prepared,
    values: Float[Tensor, "*#b k v"],
    *,
    score: ScoreLike | None = None,
    align: AlignLike | None = None,
    mask: Mask | Tensor | None = None,
    bias: Tensor | None = None,
    previous: Float[Tensor, "*#b k"] | None = None,
    step: int | Tensor = 0,
    dropout: float = 0.0,
    need_weights: bool = True,
    impl: str = "auto",
) -> AttentionOutput:
    """The context of each query, and the weights that made it.

    query [*b q d], keys [*b k f] or `score.prepare(keys)`, values [*b k v]; leading axes broadcast. `mask`: True = may
    attend; its leading axes are the batch axes, first axis first. `bias` is added to the scores. For scores and
    alignments with history, `previous` [*b k] is the weights of the query before and `step` the time of the first
    query. `dropout` acts on the weights. `impl` names an implementation, see docs/attention.md.

    >>> query, keys = torch.tensor([[360.0]]), torch.tensor([[300.0], [400.0]])
    >>> from regard.align import Normalize
    >>> from regard.score import Distance
    >>> attend(query, keys, torch.tensor([[30.0], [40.0]]), score=Distance(), align=Normalize())[:2]
    (tensor([[36.]]), tensor([[0.4000, 0.6000]]))
    """
    watch = watched(None)
    score, align = check_callable("score", score, SCALED_DOT), check_callable("align", align, SOFTMAX)
    options = CallOptions(as_mask(mask), bias, previous, step, dropout)
    out = _run(query, keys, values, score, align, options, need_weights, check_impl(impl))
    if watch:
        record(None, out.weights, _LaterWeights(query, keys, values, score, align, options))
    return out if need_weights else out._replace(weights=None)


class Attention(nn.Module):
    """A score and an alignment, joined: `Attention(score=Additive(512, 1024, 256), align=Entmax(1.5))`.

    Both may be any callable; without them it is scaled dot-product attention with softmax. `dropout` acts on the
    weights, in training only; returned weights are those before it. `impl` is "auto", "reference", or a fused way by
    name: "sdpa", "short", "banded", "triton", "blocked"; see docs/attention.md.
    """

    def __init__(
        self,
        score: ScoreLike | None = None,
        align: AlignLike | None = None,
        *,
        dropout: float = 0.0,
        impl: str = "auto",
    ) -> None:
        super().__init__()
        check_dropout(dropout)
        self.score = check_callable("score", score, ScaledDot())
        self.align = check_callable("align", align, Softmax())
        self.dropout = dropout
        self.impl = check_impl(impl)

    def prepare(self, keys: Tensor) -> Prepared:
        """Keys after the projection of the score, to be passed in place of the keys of many calls."""
        return self.score.prepare(keys) if isinstance(self.score, Score) else Prepared(keys)

    def forward(
        self,
        query: Float[Tensor, "*#b q d"],
        keys: Float[Tensor, "*#b k e"] | Prepared,
        values: Float[Tensor, "*#b k v"],
        *,
        mask: Mask | Tensor | None = None,
        bias: Tensor | None = None,
        previous: Float[Tensor, "*#b k"] | None = None,
        step: int | Tensor = 0,
        need_weights: bool = True,
    ) -> AttentionOutput:
        """As `attend`, with this module's score and alignment."""
        options = CallOptions(as_mask(mask), bias, previous, step, self.dropout if self.training else 0.0)
        return self.run(query, keys, values, options, need_weights=need_weights, trace_as=self)

    if TYPE_CHECKING:
        __call__ = forward

    def run(
        self,
        query: Tensor,
        keys: Tensor | Prepared,
        values: Tensor,
        options: CallOptions,
        *,
        need_weights: bool,
        trace_as: nn.Module,
        heads: bool = False,
    ) -> AttentionOutput:
        """As `forward`, seen by a trace as the layer `trace_as`: for layers that have their attention inside."""
        watch = watched(trace_as)
        out = _run(query, keys, values, self.score, self.align, options, need_weights, self.impl)
        if watch:
            later = _LaterWeights(query, keys, values, self.score, self.align, options)
            record(trace_as, out.weights, later, heads=heads)
        return out if need_weights else out._replace(weights=None)

    def extra_repr(self) -> str:
        """Dropout, implementation, and the functions that are not submodules."""
        plain = [
            f"{name}={function}"
            for name, function in (("score", self.score), ("align", self.align))
            if callable(function) and not isinstance(function, nn.Module)
        ]
        return ", ".join([*plain, f"dropout={self.dropout}, impl={self.impl!r}"])


def _run(
    query: Tensor,
    keys: Tensor | Prepared,
    values: Tensor,
    score: ScoreLike,
    align: AlignLike,
    options: CallOptions,
    need_weights: bool,
    impl: str,
) -> AttentionOutput:
    """Check what came in, then take the fastest way that can do it: fused, row by row, or `_attend`."""
    lead = check_call(query, keys, values, options)
    if isinstance(keys, Prepared) and not isinstance(score, Score):
        keys = keys.keys  # a plain callable has nothing to prepare
    if options.bias is not None and options.bias.ndim < 2:
        options = options._replace(bias=options.bias.reshape(1, -1))
    if values.shape[-2] == 0:  # nothing to attend to: every row is empty
        weights = query[..., :0].expand(*lead, -1, -1)
        return AttentionOutput(weights.to(values.dtype) @ values, weights)
    inputs = query, key_tensor(keys), values, options.bias, options.by_distance
    has_bias = options.bias is not None
    call = Call(query.device.type, query, values, has_bias, inputs[1], options.mask, options.by_distance)
    way = choose(impl, score, align, call, gradient=need_weights and _has_gradient(*inputs, score))
    if way != "reference" and 0 not in (*lead, query.shape[-2], values.shape[-1]):  # no kernel is needed for nothing
        return _fused(way, query, keys, values, score, align, options, need_weights, wished=impl != "auto")
    options = options.by_key(values.shape[-2])
    if "previous" in getattr(score, "needs", ()) and query.shape[-2] > 1:
        return _row_by_row(query, keys, values, score, align, options)
    return _attend(query, keys, values, score, align, options)


def _scores(score: ScoreLike, query: Tensor, keys: Tensor | Prepared, values: Tensor, options: CallOptions) -> Tensor:
    """Scores [*b q k] of all pairs, with the bias added."""
    scores: Tensor = _call(score, query, keys, query, options)
    check_pairs("score", score, scores, query.shape[-2], values.shape[-2])
    lead = broadcast(query, key_tensor(keys), values)
    scores = scores if scores.shape[:-2] == lead else scores.expand(*lead, -1, -1)
    return scores if options.bias is None else scores + options.bias


def _align(align: AlignLike, scores: Tensor, query: Tensor, options: CallOptions) -> Alignment:
    """The alignment of the scores under the mask, checked; one that is not ours is held to the mask."""
    num_queries, num_keys = scores.shape[-2:]
    allowed = None
    if options.mask is not None:
        allowed = fit(options.mask.dense(num_queries, num_keys, device=query.device), scores.shape)
    result = _call(align, scores, allowed, query, options)
    alignment = Alignment(result) if isinstance(result, Tensor) else result
    weights = alignment.weights if isinstance(alignment, Alignment) else alignment
    check_pairs("weight", align, weights, num_queries, num_keys)
    if allowed is not None and not isinstance(align, Align):
        weights = weights.masked_fill(~allowed, 0.0)
    return Alignment(weights, alignment.log_prob, alignment.entropy)


def _drop(weights: Tensor, dropout: float) -> Tensor:
    return F.dropout(weights, dropout) if dropout > 0 else weights


def _call(function: Callable[..., Any], first: Any, second: Any, query: Tensor, options: CallOptions) -> Any:
    """Call a score or an alignment with what it needs of the history, and nothing else."""
    needs = getattr(function, "needs", ())
    if not needs:
        return function(first, second)
    history = {"query": query, "previous": options.previous, "step": options.step}
    return function(first, second, **{name: history[name] for name in needs})


# ── other ways to the same result ───────────────────────────────────────────────────────────────────────────────────


def _fused(
    way: str,
    query: Tensor,
    keys: Tensor | Prepared,
    values: Tensor,
    score: ScoreLike,
    align: AlignLike,
    options: CallOptions,
    need_weights: bool,
    *,
    wished: bool,
) -> AttentionOutput:
    """The context by a fused kernel; weights, if asked for, from an additive one too, or else by a second pass."""
    assert isinstance(score, Score)
    assert isinstance(align, Softmax)
    prepared = keys if isinstance(keys, Prepared) else score.prepare(keys)
    mask, by_distance = options.mask, options.by_distance
    if need_weights or way != "banded":
        options = options.by_key(values.shape[-2])
    bias = options.bias
    if way not in DOTS:
        found = additive(way, query, prepared, values, score, align, mask, options.dropout, need_weights=need_weights)
        return AttentionOutput(*found)
    if way == "sdpa" and not wished and bias is None and not options.dropout:
        both = few(query, prepared, values, score, align, mask, need_weights=need_weights)
        if both is None and need_weights:
            both = one_query(query, prepared, values, score, align, mask)
        if both is not None:
            return AttentionOutput(*both)
    if way == "banded":
        context = banded(query, prepared, values, score, align, mask, by_distance, options.dropout)
    elif way == "short":
        context = short(query, prepared, values, score, align, mask, options.dropout)
    else:
        context = sdpa(query, prepared, values, score, align, mask, bias, options.dropout)
    if not need_weights:
        return AttentionOutput(context)
    return AttentionOutput(context, recompute_weights(query, prepared, values, score, align, mask, bias))


def _row_by_row(
    query: Tensor,
    keys: Tensor | Prepared,
    values: Tensor,
    score: ScoreLike,
    align: AlignLike,
    options: CallOptions,
) -> AttentionOutput:
    """One query after the other, for scores that look at the weights of the query before."""
    allowed = None
    if options.mask is not None:
        allowed = options.mask.dense(query.shape[-2], values.shape[-2], device=query.device)
    if isinstance(score, Score) and not isinstance(keys, Prepared):
        keys = score.prepare(keys)
    previous, rows = options.previous, []
    for index in range(query.shape[-2]):

        def row_of(matrix: Tensor, index: int = index) -> Tensor:
            return matrix[..., index : index + 1, :] if matrix.shape[-2] > 1 else matrix

        here = options._replace(
            mask=None if allowed is None else Mask.of(row_of(allowed)),
            bias=None if options.bias is None else row_of(options.bias),
            previous=previous,
            step=options.step + index,
        )
        row = _attend(query[..., index : index + 1, :], keys, values, score, align, here)
        assert row.weights is not None
        previous = row.weights[..., 0, :]
        rows.append(row)

    def join(tensors: list[Tensor | None], axis: int) -> Tensor | None:
        return torch.cat([tensor for tensor in tensors if tensor is not None], axis) if tensors[0] is not None else None

    context = torch.cat([row.context for row in rows], -2)
    return AttentionOutput(
        context,
        join([row.weights for row in rows], -2),
        join([row.log_prob for row in rows], -1),
        join([row.entropy for row in rows], -1),
    )


class _LaterWeights(NamedTuple):
    """Makes the weights of a call whose own pass gave none; only a fused one does not."""

    query: Tensor
    keys: Tensor | Prepared
    values: Tensor
    score: Any
    align: Any
    options: CallOptions

    @torch.no_grad()
    def __call__(self, rows: Sequence[int] | None, heads: Sequence[int] | None) -> Tensor:
        """Weights of these rows and heads."""
        bias = self.options.bias
        flat = bias.reshape(1, -1) if bias is not None and bias.ndim < 2 else bias
        bias = self.options._replace(bias=flat).by_key(self.values.shape[-2]).bias
        return recompute_weights(*self[:5], self.options.mask, bias, rows=rows, heads=heads)


def _has_gradient(*inputs: Tensor | ScoreLike | None) -> bool:
    """Whether somebody may want to differentiate what is made of these; compilers see one plain path."""
    if torch.compiler.is_compiling():
        return True
    if not torch.is_grad_enabled():
        return False
    tensors = [tensor for each in inputs for tensor in ([each] if isinstance(each, Tensor) else _parameters(each))]
    return any(tensor.requires_grad for tensor in tensors)


def _parameters(score: Any) -> list[Tensor]:
    return list(score.parameters()) if isinstance(score, nn.Module) else []
