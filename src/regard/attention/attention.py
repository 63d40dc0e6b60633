"""Score → align → context: the mechanism. Read this file first.

scores  = score(query, keys)        [*b q d], [*b k e] → [*b q k]     how well does each key answer the query?
weights = align(scores, mask)       [*b q k] → [*b q k]               how much of each key does the query take?
context = weights @ values          [*b q k], [*b k v] → [*b q v]     what does it get?
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.align import Align, Alignment, Softmax
from regard.attention.dispatch import Call, check_impl, choose
from regard.attention.fused import additive, broadcast, refuse_gradient, sdpa
from regard.attention.mask import Mask, as_mask, fit
from regard.attention.output import AttentionOutput
from regard.attention.tracing import record, watched
from regard.attention.weights import weights_beside
from regard.base import ConfigError, MaskError, ShapeError
from regard.score import Prepared, ScaledDot, Score

ScoreLike = Score | Callable[..., Tensor]
AlignLike = Align | Callable[..., Alignment | Tensor]
SCALED_DOT, SOFTMAX = ScaledDot(), Softmax()  # the defaults; neither holds anything
LATEST = 1 << 62  # of a step: times are numbers of 64 bits


class CallOptions(NamedTuple):
    """What a query comes with, beside its keys and values."""

    mask: Mask | None
    bias: Tensor | None
    previous: Tensor | None
    step: int | Tensor
    dropout: float


def attend(
    query: Tensor,
    keys: Tensor | Prepared,
    values: Tensor,
    *,
    score: ScoreLike | None = None,
    align: AlignLike | None = None,
    mask: Mask | Tensor | None = None,
    bias: Tensor | None = None,
    previous: Tensor | None = None,
    step: int | Tensor = 0,
    dropout: float = 0.0,
    need_weights: bool = True,
    impl: str = "auto",
) -> AttentionOutput:
    """The context of each query, and the weights that made it.

    query [*b q d], keys [*b k e] or `score.prepare(keys)`, values [*b k v]. `mask`: True = may attend; its leading axes
    are the batch axes, first axis first. `bias` is added to the scores. For scores and alignments with history,
    `previous` [*b k] is the weights of the query before and `step` the time of the first query. `dropout` acts on
    the weights.

    >>> query, keys = torch.tensor([[360.0]]), torch.tensor([[300.0], [400.0]])
    >>> from regard.align import Normalize
    >>> from regard.score import Distance
    >>> attend(query, keys, torch.tensor([[30.0], [40.0]]), score=Distance(), align=Normalize())[:2]
    (tensor([[36.]]), tensor([[0.4000, 0.6000]]))
    """
    watch = watched(None)
    score, align = _checked("score", score, SCALED_DOT), _checked("align", align, SOFTMAX)
    options = CallOptions(as_mask(mask), bias, previous, step, dropout)
    out = _attend(query, keys, values, score, align, options, need_weights, check_impl(impl))
    if watch:
        record(None, out.weights, _Beside(query, keys, values, score, align, options))
    return out if need_weights else out._replace(weights=None)


class Attention(nn.Module):
    """A score and an alignment, joined: `Attention(score=Additive(512, 1024, 256), align=Entmax(1.5))`.

    Both may be any callable. Dropout acts on the weights, in training only; returned weights are those before it.
    `impl` is "auto", "reference", or a fused way by name: "sdpa", "triton", "blocked"; see docs/attention.md.
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
        _check_dropout(dropout)
        self.score = _checked("score", score, ScaledDot())
        self.align = _checked("align", align, Softmax())
        self.dropout = dropout
        self.impl = check_impl(impl)

    def prepare(self, keys: Tensor) -> Prepared:
        """Keys after the projection of the score, to be passed in place of the keys of many calls."""
        return self.score.prepare(keys) if isinstance(self.score, Score) else Prepared(keys)

    def forward(
        self,
        query: Tensor,
        keys: Tensor | Prepared,
        values: Tensor,
        *,
        mask: Mask | Tensor | None = None,
        bias: Tensor | None = None,
        previous: Tensor | None = None,
        step: int | Tensor = 0,
        need_weights: bool = True,
    ) -> AttentionOutput:
        """As `attend`, with this module's score and alignment."""
        options = CallOptions(as_mask(mask), bias, previous, step, self.dropout if self.training else 0.0)
        return self.run(query, keys, values, options, need_weights=need_weights, trace_as=self)

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
        out = _attend(query, keys, values, self.score, self.align, options, need_weights, self.impl)
        if watch:
            beside = _Beside(query, keys, values, self.score, self.align, options)
            record(trace_as, out.weights, beside, heads=heads)
        return out if need_weights else out._replace(weights=None)

    def extra_repr(self) -> str:
        """What is not a submodule."""
        plain = [
            f"{name}={part}"
            for name, part in (("score", self.score), ("align", self.align))
            if callable(part) and not isinstance(part, nn.Module)
        ]
        return ", ".join([*plain, f"dropout={self.dropout}, impl={self.impl!r}"])


def _attend(
    query: Tensor,
    keys: Tensor | Prepared,
    values: Tensor,
    score: ScoreLike,
    align: AlignLike,
    options: CallOptions,
    need_weights: bool,
    impl: str,
) -> AttentionOutput:
    lead = _check(query, keys, values, options)
    num_queries, num_keys = query.shape[-2], values.shape[-2]
    mask, bias, previous, step, dropout = options
    if isinstance(keys, Prepared) and not isinstance(score, Score):
        keys = keys.keys  # a plain callable has nothing to prepare
    if bias is not None and bias.ndim < 2:
        bias = bias.reshape(1, -1)
    if num_keys == 0:  # nothing to attend to: every row is empty
        weights = query[..., :0].expand(*lead, -1, -1)
        return AttentionOutput(weights.to(values.dtype) @ values, weights)
    raw = keys.keys if isinstance(keys, Prepared) else keys
    call = Call(query.device.type, query, values, bias is not None)
    way = choose(impl, score, align, call, gradient=need_weights and _has_gradient(query, raw, values, bias, score))
    if way != "reference" and 0 not in (*lead, num_queries, values.shape[-1]):  # no kernel is needed for nothing
        assert isinstance(score, Score)
        assert isinstance(align, Softmax)
        prepared = keys if isinstance(keys, Prepared) else score.prepare(keys)
        if way == "sdpa":
            context = sdpa(query, prepared, values, score, align, mask, bias, dropout)
        else:
            context = additive(way, query, prepared, values, score, align, mask, dropout)
        if not need_weights:
            return AttentionOutput(context)
        weights = weights_beside(query, prepared, values, score, align, mask, bias)
        return AttentionOutput(context, refuse_gradient(weights, query, raw, values, bias, *_parameters(score)))
    allowed = None if mask is None else mask.dense(num_queries, num_keys, device=query.device)
    if "previous" in getattr(score, "needs", ()) and num_queries > 1:
        return _row_by_row(query, keys, values, score, align, options._replace(bias=bias), allowed)
    history = {"query": query, "previous": previous, "step": step}

    scores = _pick(score, query, keys, history)  # ① how well does each key answer the query?
    _check_pairs("score", score, scores, num_queries, num_keys)
    scores = scores if scores.shape[:-2] == lead else scores.expand(*lead, -1, -1)
    scores = scores if bias is None else scores + bias

    allowed = None if allowed is None else fit(allowed, scores.shape)
    alignment = _pick(align, scores, allowed, history)  # ② how much of each key does the query take?
    weights, log_prob, entropy = _weights(align, alignment, allowed, num_queries, num_keys)

    dropped = F.dropout(weights, dropout) if dropout > 0 else weights
    context = dropped.to(values.dtype) @ values  # ③ what does it get?
    return AttentionOutput(context, weights.to(query.dtype), log_prob, entropy)


class _Beside(NamedTuple):
    """Makes the weights of a call whose own pass gave none; only a fused one does not."""

    query: Tensor
    keys: Tensor | Prepared
    values: Tensor
    score: Any
    align: Any
    options: CallOptions

    def __call__(self, rows: Sequence[int] | None, heads: Sequence[int] | None) -> Tensor:
        """Weights of these rows and heads."""
        bias = self.options.bias
        bias = bias.reshape(1, -1) if bias is not None and bias.ndim < 2 else bias
        return weights_beside(*self[:5], self.options.mask, bias, rows=rows, heads=heads)


def _has_gradient(*parts: Tensor | ScoreLike | None) -> bool:
    """Whether somebody may want to differentiate what is made of these; compilers see one plain path."""
    if torch.compiler.is_compiling():
        return True
    if not torch.is_grad_enabled():
        return False
    tensors = [part for each in parts for part in ([each] if isinstance(each, Tensor) else _parameters(each))]
    return any(tensor.requires_grad for tensor in tensors)


def _parameters(score: Any) -> list[Tensor]:
    return list(score.parameters()) if isinstance(score, nn.Module) else []


def _weights(align: AlignLike, result: Any, allowed: Tensor | None, num_queries: int, num_keys: int) -> Alignment:
    """The result of an alignment, checked; one that is not ours is held to the mask."""
    if isinstance(result, Tensor):
        result = Alignment(result)
    weights = result.weights if isinstance(result, Alignment) else result
    _check_pairs("weight", align, weights, num_queries, num_keys)
    if allowed is not None and not isinstance(align, Align):
        weights = weights.masked_fill(~allowed, 0.0)
    return Alignment(weights, result.log_prob, result.entropy)


def _row_by_row(
    query: Tensor,
    keys: Tensor | Prepared,
    values: Tensor,
    score: ScoreLike,
    align: AlignLike,
    options: CallOptions,
    allowed: Tensor | None,
) -> AttentionOutput:
    """One query after the other, for scores that look at the weights of the query before."""
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
        row = _attend(query[..., index : index + 1, :], keys, values, score, align, here, True, "reference")
        assert row.weights is not None
        previous = row.weights[..., 0, :]
        rows.append(row)

    def join(parts: list[Tensor | None], axis: int) -> Tensor | None:
        return torch.cat([part for part in parts if part is not None], axis) if parts[0] is not None else None

    context = torch.cat([row.context for row in rows], -2)
    return AttentionOutput(
        context,
        join([row.weights for row in rows], -2),
        join([row.log_prob for row in rows], -1),
        join([row.entropy for row in rows], -1),
    )


def _pick(part: Callable[..., Any], first: Any, second: Any, history: dict[str, Any]) -> Any:
    """Call a score or an alignment with what it needs of the history, and nothing else."""
    return part(first, second, **{name: history[name] for name in getattr(part, "needs", ())})


def _checked(role: str, part: Any, default: nn.Module) -> Any:
    if part is None:
        return default
    if isinstance(part, type):
        raise ConfigError(f"{role} must be an object, not a class", got=part.__name__, cure=f"write {part.__name__}(…)")
    if isinstance(part, Align if role == "score" else Score):
        raise ConfigError(f"this is no {role}", got=type(part).__name__, cure="Attention(score=…, align=…)")
    if not callable(part):
        raise ConfigError(f"{role} must be callable", got=repr(part), expected=f"an object such as {default}")
    return part


def _check(query: Tensor, keys: Tensor | Prepared, values: Tensor, options: CallOptions) -> tuple[int, ...]:
    """The leading axes of the result, once everything fits."""
    key_tensor = keys.keys if isinstance(keys, Prepared) else keys
    for name, tensor in (("query", query), ("keys", key_tensor), ("values", values)):
        if not isinstance(tensor, Tensor):
            raise ShapeError(f"{name} must be a tensor", got=type(tensor).__name__, expected="[..., items, width]")
        if tensor.ndim < 2:
            raise ShapeError(
                f"{name} needs an axis for its items and one for their width",
                got=list(tensor.shape),
                expected="[..., items, width]",
                cure=f"{name}.unsqueeze(-2) makes one item of a vector",
            )
        if not tensor.is_floating_point():
            raise ShapeError(f"{name} must hold real numbers", got=tensor.dtype, cure=f"{name}.float()")
        if tensor.device != query.device:
            raise ShapeError(
                f"{name} and query are on different devices",
                got=f"{tensor.device} and {query.device}",
                expected="one",
                cure=f"{name}.to(query.device)",
            )
    if query.ndim < max(key_tensor.ndim, values.ndim):
        raise ShapeError(
            "the query has fewer axes than keys or values",
            got=f"query {list(query.shape)}, keys {list(key_tensor.shape)}, values {list(values.shape)}",
            expected="as many",
            cure="query.unsqueeze(-2) makes one query of each state; query[None] lets all sentences share queries",
        )
    if key_tensor.shape[-2] != values.shape[-2]:
        raise ShapeError(
            "keys and values differ in length",
            got=f"{key_tensor.shape[-2]} and {values.shape[-2]}",
            expected="one value for each key",
        )
    _check_dropout(options.dropout)
    if isinstance(options.step, int) and abs(options.step) > LATEST:
        raise ConfigError("step", got=options.step, expected=f"the time of the first query, at most {LATEST}")
    lead = broadcast(query, key_tensor, values)
    if options.bias is not None:
        if options.bias.dtype == torch.bool:
            raise MaskError("a bias is added to the scores", got="torch.bool", cure="pass it as mask=")
        if options.bias.dtype.is_complex:
            raise ShapeError("a bias must hold real numbers", got=options.bias.dtype, cure="bias.real")
        if options.bias.device != query.device:
            got = f"{options.bias.device} and {query.device}"
            cure = "bias.to(query.device)"
            raise ShapeError("bias and query are on different devices", got=got, expected="one", cure=cure)
        _check_spreads("the bias does not fit the scores", options.bias, (*lead, query.shape[-2], values.shape[-2]))
    if options.previous is not None:
        wanted = (*lead, values.shape[-2])
        _check_spreads("the previous weights do not fit the keys", options.previous, wanted, whole=True)
    return lead


def _check_spreads(what: str, tensor: Tensor, shape: tuple[int, ...], *, whole: bool = False) -> None:
    axes = zip(reversed(tensor.shape), reversed(shape), strict=False)
    wrong = tensor.ndim != len(shape) if whole else tensor.ndim > len(shape)
    if wrong or any(have not in (1, want) for have, want in axes):
        raise ShapeError(what, got=list(tensor.shape), expected=f"a tensor that broadcasts to {list(shape)}")


def _check_dropout(dropout: float) -> None:
    if not 0 <= dropout < 1:
        raise ConfigError("dropout", got=dropout, expected="0 ≤ dropout < 1")


def _check_pairs(what: str, part: Any, result: Any, num_queries: int, num_keys: int) -> None:
    """A score or an alignment, ours or the caller's, has given one number for each pair."""
    if not isinstance(result, Tensor) or result.ndim < 2 or result.shape[-2:] != (num_queries, num_keys):
        raise ShapeError(
            f"{getattr(part, '__name__', type(part).__name__)} returned no {what} for each pair",
            got=list(result.shape) if isinstance(result, Tensor) else type(result).__name__,
            expected=f"[..., {num_queries}, {num_keys}]",
        )
