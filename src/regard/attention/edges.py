"""The mechanism over an edge list: the same three lines, for the pairs of the list alone.

scores  = score.on_edges(query, keys, edges)     [*b q d], [*b k f] → [*b e]   how well does each key answer the query?
weights = align.on_edges(scores, segments)       [*b e] → [*b e]               how much of each key does the query take?
context = Σ over the edges of each query         [*b e], [*b k v] → [*b q v]   what does it get?

Time and memory are those of edges × width; no tensor of queries × keys is made. These are plain operations, which
`torch.compile` and `torch.func` see through. Sums over edges are `index_add`: on a GPU their order, and with it the
last bits, may change from run to run unless `torch.use_deterministic_algorithms(True)` is set.

On a GPU, `impl="auto"` takes one kernel for the softmax of scores in two halves, those of graph attention: memory is
then that of nodes × width, and results repeat bit by bit (`kernels/edges.py`).
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.align import Align, Alignment, Segments, Softmax
from regard.attention.attention import SCALED_DOT, SOFTMAX
from regard.attention.checks import check_call, check_callable, check_spreads
from regard.attention.dispatch import Call, check_impl_over_edges, choose_over_edges
from regard.attention.output import AttentionOutput, CallOptions
from regard.attention.tracing import record_edges, watched
from regard.base import ConfigError, MaskError, ShapeError
from regard.score import Edges, Prepared, ScaledDot, Score
from regard.score.score import to_float32


def attend_edges(
    query: Tensor,
    keys: Tensor | Prepared,
    values: Tensor,
    edges: Edges,
    *,
    score: Score | None = None,
    align: Align | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    need_weights: bool = True,
    impl: str = "auto",
) -> AttentionOutput:
    """The context of each query from the keys that it has an edge to, and the weights [*b e] of the edges.

    As `attend` with the mask `edges.mask()`: query [*b q d], keys [*b k f] or `score.prepare(keys)`, values [*b k v].
    Batch axes and heads share the edges. `bias` broadcasts to [*b e] and is added to the scores. `dropout` acts on the
    weights. Scores and alignments without an edge form are refused. `impl` is "auto", "reference" or "triton"; weights
    of the kernel carry no gradient, so where one may be wanted "auto" takes the reference.

    >>> import torch
    >>> edges = Edges.of(torch.tensor([[0, 0, 1], [0, 2, 1]]), num_queries=3)
    >>> x = torch.tensor([[1.0], [2.0], [3.0]])
    >>> attend_edges(x * 0, x, x, edges)[:2]
    (tensor([[2.],
            [2.],
            [0.]]), tensor([0.5000, 0.5000, 1.0000]))
    """
    score, align = check_callable("score", score, SCALED_DOT), check_callable("align", align, SOFTMAX)
    watch = watched("attend_edges")
    out = _attend_edges(query, keys, values, edges, score, align, bias, dropout, _Wish(impl, need_weights, watch))
    if watch and out.weights is not None:
        record_edges("attend_edges", out.weights, edges)
    return out if need_weights else out._replace(weights=None)


class _Wish(NamedTuple):
    """How a call is to be computed, and who wants the weights: the caller, or a trace, which needs no gradient."""

    impl: str
    need_weights: bool
    watched: bool


class EdgeAttention(nn.Module):
    """`Attention` over an edge list: a score and an alignment, joined, with the same names of parameters.

    Dropout acts on the weights, in training only; returned weights are those before it. With `heads=True` a trace calls
    the last axis before the edges heads.
    """

    def __init__(
        self,
        score: Score | None = None,
        align: Align | None = None,
        *,
        dropout: float = 0.0,
        heads: bool = False,
        impl: str = "auto",
    ) -> None:
        super().__init__()
        if not 0 <= dropout < 1:
            raise ConfigError("dropout", got=dropout, expected="0 ≤ dropout < 1")
        self.score: Score = check_callable("score", score, ScaledDot())
        self.align: Align = check_callable("align", align, Softmax())
        _check_forms(self.score, self.align)
        check_impl_over_edges(impl)
        self.dropout, self.heads, self.impl = dropout, heads, impl

    def prepare(self, keys: Tensor) -> Prepared:
        """Keys after the projection of the score, to be passed in place of the keys of many calls."""
        return self.score.prepare(keys)

    def forward(
        self,
        query: Tensor,
        keys: Tensor | Prepared,
        values: Tensor,
        edges: Edges,
        *,
        bias: Tensor | None = None,
        need_weights: bool = True,
    ) -> AttentionOutput:
        """As `attend_edges`, with this module's score and alignment."""
        watch = watched(self)
        dropout = self.dropout if self.training else 0.0
        wish = _Wish(self.impl, need_weights, watch)
        out = _attend_edges(query, keys, values, edges, self.score, self.align, bias, dropout, wish)
        if watch and out.weights is not None:
            record_edges(self, out.weights, edges, heads=self.heads)
        return out if need_weights else out._replace(weights=None)

    def extra_repr(self) -> str:
        """What is not a submodule."""
        return f"dropout={self.dropout}" + (f", impl={self.impl!r}" if self.impl != "auto" else "")


def _attend_edges(
    query: Tensor,
    keys: Tensor | Prepared,
    values: Tensor,
    edges: Edges,
    score: Score,
    align: Align,
    bias: Tensor | None,
    dropout: float,
    wish: _Wish,
) -> AttentionOutput:
    _check_forms(score, align)
    lead = check_call(query, keys, values, CallOptions(None, None, None, 0, dropout))
    _check_edges(edges, query, values)
    gradient = wish.need_weights and torch.is_grad_enabled()  # then one may go through the weights
    call = Call(query.device.type, query, values, bias is not None)
    if choose_over_edges(wish.impl, score, align, call, gradient=gradient) == "triton":
        return _fused(query, keys, values, edges, score, lead, dropout, wish.need_weights or wish.watched)
    segments = Segments(edges.targets, edges.num_queries)

    scores = score.on_edges(query, keys, edges)  # ① how well does each key answer the query?
    scores = scores if scores.shape[:-1] == lead else scores.expand(*lead, -1)
    if bias is not None:
        _check_bias(bias, scores)
        scores = scores + bias

    alignment: Alignment = align.on_edges(scores, segments)  # ② how much of each key does the query take?

    dropped = F.dropout(alignment.weights, dropout) if dropout > 0 else alignment.weights
    taken = to_float32(dropped.to(values.dtype)).unsqueeze(-1) * edges.at_sources(to_float32(values))  # [*b e v]
    context = taken.new_zeros(*taken.shape[:-2], edges.num_queries, taken.shape[-1])
    context = context.index_add(-2, edges.targets, taken).to(values.dtype)  # ③ what does it get?
    return AttentionOutput(context, alignment.weights.to(query.dtype), alignment.log_prob, alignment.entropy)


def _fused(
    query: Tensor,
    keys: Tensor | Prepared,
    values: Tensor,
    edges: Edges,
    score: Score,
    lead: tuple[int, ...],
    dropout: float,
    weighed: bool,
) -> AttentionOutput:
    """The three lines in one kernel; weights that are wanted come from its sums, without gradient."""
    from regard.kernels.edges import edge_weights, fused_edges

    prepared = keys if isinstance(keys, Prepared) else score.prepare(keys)
    form = score.as_halves(query, prepared.keys)
    asks, answers = (half.expand(*lead, half.shape[-1]).reshape(-1, half.shape[-1]) for half in form[:2])
    flat = values.expand(*lead, *values.shape[-2:]).reshape(-1, *values.shape[-2:])
    context, highest, total = fused_edges(asks, answers, flat, edges.sorted(), slope=form.slope, dropout=dropout)
    weights = None
    if weighed:
        made = edge_weights(asks, answers, highest, total, edges.targets, edges.sources, slope=form.slope)
        weights = made.view(*lead, -1).to(query.dtype)
    return AttentionOutput(context.view(*lead, *context.shape[1:]), weights)


def _check_forms(score: Any, align: Any) -> None:
    for role, form, kind in (("score", score, Score), ("align", align, Align)):
        if not isinstance(form, kind):
            raise ConfigError(
                f"a plain function is no {role} over edges",
                got=getattr(form, "__name__", type(form).__name__),
                expected=f"a {kind.__name__} with an edge form",
                cure="use attend(…, mask=edges.mask())",
            )


def _check_edges(edges: Any, query: Tensor, values: Tensor) -> None:
    if not isinstance(edges, Edges):
        cure = "make one by Edges.of(pairs, num_queries, num_keys) or Edges.from_mask(mask)"
        raise ShapeError("edges must be an edge list", got=type(edges).__name__, expected="Edges", cure=cure)
    if edges.targets.device != query.device:
        got = f"{edges.targets.device} and {query.device}"
        raise ShapeError(
            "edges and query are on different devices",
            got=got,
            expected="one",
            cure="move them: edges.to(query.device)",
        )
    sizes = query.shape[-2], values.shape[-2]
    if sizes != (edges.num_queries, edges.num_keys):
        raise ShapeError(
            "edges do not fit query and keys",
            got=f"{edges.num_queries} queries and {edges.num_keys} keys",
            expected=f"{sizes[0]} and {sizes[1]}",
            cure="give the number of both: Edges(targets, sources, num_queries, num_keys)",
        )


def _check_bias(bias: Tensor, scores: Tensor) -> None:
    if bias.dtype == torch.bool:
        raise MaskError(
            "a bias is added to the scores", got="torch.bool", cure="leave forbidden pairs out of the edges"
        )
    if bias.dtype.is_complex:
        raise ShapeError("a bias must hold real numbers", got=bias.dtype, cure="pass bias.real")
    check_spreads("the bias does not fit the edges", bias, tuple(scores.shape))
