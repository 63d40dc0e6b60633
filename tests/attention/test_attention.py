"""Score → align → context: against a plain loop, against torch, and between the two implementations."""

import itertools
import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from table import cases
from torch import Tensor, nn
from torch.testing import assert_close

from regard.align import Align, Alignment, Entmax, Hard, LocalMonotonic, LocalPredictive, Monotonic, Shift, Softmax
from regard.attention import Attention, AttentionOutput, Mask, attend
from regard.base import ConfigError
from regard.score import Additive, Cosine, Dot, General, LocationAware, ScaledDot, Score

TOLERANCE = {torch.float64: {"rtol": 1e-10, "atol": 1e-10}, torch.float32: {"rtol": 1e-5, "atol": 1e-5}}
KEY_DIM = {"general": 3}  # the query has width 4, and so have keys unless told
LEADS = [(), (2,), (2, 3), (2, 1, 3)]


def make_score(kind: str) -> Score:
    return {"dot": Dot(), "scaled_dot": ScaledDot(), "general": General(4, 3), "cosine": Cosine(2.5, learned=True)}[
        kind
    ]


def lengths(lead: tuple[int, ...], longest: int) -> Tensor:
    return torch.tensor(longest - 2) if not lead else longest - torch.arange(lead[0])


def without_row_1(lead: tuple[int, ...]) -> Mask:
    allowed = torch.ones(3, 5, dtype=torch.bool)
    allowed[1] = False
    return Mask.of(allowed)


MASKS: dict[str, tuple[int, int, Callable[[tuple[int, ...]], Mask | None]]] = {  # queries, keys, mask
    "none": (3, 5, lambda lead: None),
    "padding": (3, 5, lambda lead: Mask.padding(lengths(lead, 5))),
    "causal": (4, 4, lambda lead: Mask.causal()),
    "causal, fewer queries": (3, 5, lambda lead: Mask.causal()),
    "causal, more queries": (5, 3, lambda lead: Mask.causal()),
    "causal, one query": (1, 5, lambda lead: Mask.causal()),
    "padding & causal": (4, 4, lambda lead: Mask.padding(lengths(lead, 4)) & Mask.causal()),
    "window": (4, 5, lambda lead: Mask.window(1, 0)),
    "empty row": (3, 5, without_row_1),
    "dense": (3, 5, lambda lead: Mask.of(torch.rand(*lead, 3, 5) < 0.6)),
}


def make_bias(kind: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor | None:
    if kind == "none":
        return None
    bias = torch.randn(shape, dtype=dtype)
    if kind == "-inf":
        bias[torch.rand(shape) < 0.3] = -math.inf
        bias[..., 0, :] = -math.inf  # and an empty row
    return bias.requires_grad_()


def plain(scores: Tensor, values: Tensor, allowed: Tensor, temperature: float = 1.0) -> Tensor:
    """Contexts [*b q v] row by row: the definition, with nothing clever in it."""
    context = torch.zeros(*scores.shape[:-1], values.shape[-1], dtype=scores.dtype)
    for row in itertools.product(*map(range, scores.shape[:-1])):
        seen = allowed[row]
        if seen.any():
            exponential = torch.exp(scores[row][seen] / temperature)
            context[row] = torch.einsum("k,kv->v", exponential / exponential.sum(), values[row[:-1]][seen])
    return context


def random_inputs(
    lead: tuple[int, ...], q: int, k: int, key_dim: int = 4, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor]:
    shapes = (*lead, q, 4), (*lead, k, key_dim), (*lead, k, 6)
    query, keys, values = (torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes)
    return query, keys, values


@cases("lead", LEADS, ids=len)
@cases("bias_kind", ["none", "finite", "-inf"])
@cases("mask_kind", MASKS)
@pytest.mark.parametrize("score_kind", ["dot", "scaled_dot", "general", "cosine"])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_both_implementations_agree(
    dtype: torch.dtype, score_kind: str, mask_kind: str, bias_kind: str, lead: tuple[int, ...]
) -> None:
    q, k, make_mask = MASKS[mask_kind]
    score, mask, align = make_score(score_kind).to(dtype), make_mask(lead), Softmax(0.7)
    query, keys, values = random_inputs(lead, q, k, KEY_DIM.get(score_kind, 4), dtype)
    bias = make_bias(bias_kind, (*lead, q, k), dtype)
    leaves = [query, keys, values, *score.parameters(), *([] if bias is None else [bias])]
    contexts, gradients = [], []
    for impl in ("reference", "sdpa"):
        out = attend(query, keys, values, score=score, align=align, mask=mask, bias=bias, need_weights=False, impl=impl)
        upstream = torch.linspace(-1, 1, out.context.numel(), dtype=dtype).reshape(out.context.shape)
        contexts.append(out.context)
        gradients.append(torch.autograd.grad(out.context, leaves, upstream))
    assert_close(contexts[0], contexts[1], **TOLERANCE[dtype])
    assert_close(gradients[0], gradients[1], **TOLERANCE[dtype])
    assert all(gradient.isfinite().all() for gradient in gradients[0])
    if dtype == torch.float64:
        allowed = torch.ones(q, k, dtype=torch.bool) if mask is None else mask.dense(q, k)
        allowed = allowed.reshape(*allowed.shape[:-2], *[1] * (len(lead) + 2 - allowed.ndim), *allowed.shape[-2:])
        scores = score(query, keys) + (0 if bias is None else bias)
        allowed = allowed.expand(scores.shape) & (scores != -math.inf)
        assert_close(contexts[0], plain(scores, values, allowed, 0.7), rtol=1e-10, atol=1e-10)


@cases("impl", ["reference", "sdpa"])
@cases("mask_kind", MASKS)
@cases("dtype", TOLERANCE, ids=str)
def test_equals_torch_called_by_hand(dtype: torch.dtype, mask_kind: str, impl: str) -> None:
    lead = (2, 3)
    q, k, make_mask = MASKS[mask_kind]
    query, keys, values = random_inputs(lead, q, k, dtype=dtype)
    mask, bias = make_mask(lead), torch.randn(3, q, k, dtype=dtype)
    allowed = torch.ones(2, 3, q, k, dtype=torch.bool)
    if mask is not None:
        dense = mask.dense(q, k)
        allowed &= dense.unsqueeze(1) if dense.ndim == 3 else dense
    additive = bias.expand(allowed.shape).masked_fill(~allowed, -math.inf)
    expected = F.scaled_dot_product_attention(query, keys, values, attn_mask=additive)
    out = attend(query, keys, values, mask=mask, bias=bias, need_weights=False, impl=impl)
    rows = allowed.any(-1)  # of an empty row, torch makes what it likes
    assert_close(out.context[rows], expected[rows], **TOLERANCE[dtype])


@pytest.mark.parametrize("impl", ["reference", "sdpa"])
@pytest.mark.parametrize("how", ["mask", "bias"])
@pytest.mark.parametrize("lead", LEADS, ids=len)
def test_empty_rows_are_zero_with_zero_gradients(lead: tuple[int, ...], how: str, impl: str) -> None:
    query, keys, values = random_inputs(lead, 3, 5)
    allowed = torch.ones(3, 5, dtype=torch.bool)
    allowed[1] = False
    empty = (
        {"mask": Mask.of(allowed)} if how == "mask" else {"bias": torch.zeros(3, 5).masked_fill(~allowed, -math.inf)}
    )
    out = attend(query, keys, values, **empty, need_weights=False, impl=impl)
    assert torch.equal(out.context[..., 1, :], torch.zeros_like(out.context[..., 1, :]))
    assert (out.context[..., [0, 2], :] != 0).all()
    gradients = torch.autograd.grad(out.context.sum(), (query, keys, values))
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert (gradients[0][..., 1, :] == 0).all()
    only_empty = attend(query, keys, values, **empty, need_weights=False, impl=impl).context[..., 1, :]
    for gradient in torch.autograd.grad(only_empty.sum(), (query, keys, values)):
        assert (gradient == 0).all()


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("impl", ["auto", "reference"])
def test_auto_takes_the_kernel_unless_weights_may_be_differentiated(
    monkeypatch: pytest.MonkeyPatch, impl: str, need_weights: bool
) -> None:
    calls = []
    kernel = F.scaled_dot_product_attention
    monkeypatch.setattr(
        "regard.attention.fused.F.scaled_dot_product_attention",
        lambda *args, **options: calls.append(1) or kernel(*args, **options),
    )
    inputs = [part.detach() for part in random_inputs((2,), 3, 5)]
    attend(*inputs, need_weights=need_weights, impl=impl)
    Attention(impl=impl)(*inputs, need_weights=need_weights)
    assert len(calls) == (2 if impl == "auto" else 0)
    attend(*inputs, align=Entmax(1.5), need_weights=False)
    attend(*inputs, score=lambda query, keys: query @ keys.mT, need_weights=False)
    assert len(calls) == (2 if impl == "auto" else 0)
    calls.clear()
    inputs[1].requires_grad_()
    attend(*inputs, need_weights=need_weights, impl=impl)
    assert len(calls) == (1 if impl == "auto" and not need_weights else 0)
    with torch.no_grad():
        attend(*inputs, need_weights=need_weights, impl=impl)
    assert len(calls) == (2 - need_weights if impl == "auto" else 0)


@pytest.mark.parametrize("impl", ["reference", "auto"])
def test_need_weights_changes_nothing_else(impl: str) -> None:
    inputs = random_inputs((2,), 3, 5)
    for layer in (lambda *args, **options: attend(*args, impl=impl, **options), Attention(impl=impl)):
        with_weights, without = layer(*inputs), layer(*inputs, need_weights=False)
        assert type(with_weights) is type(without) is AttentionOutput
        assert without.weights is None
        assert_close(with_weights.context, without.context, rtol=1e-12, atol=1e-12)
        assert_close(with_weights.weights.sum(-1), torch.ones(2, 3, dtype=torch.float64))
        assert_close(with_weights.weights @ inputs[2], with_weights.context)


def test_worked_example() -> None:
    score = Additive(2, 2, 2).double()
    with torch.no_grad():
        score.to_query.weight.copy_(0.5 * torch.eye(2))
        score.to_keys.weight.copy_(torch.diag(torch.tensor([1.0, -1.0])))
        score.v.copy_(torch.tensor([1.0, 2.0]))
    c, y = torch.tensor([[1.0, -1.0]]).double(), torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]).double()
    out = attend(c, y, y, score=score)
    assert_close(out.weights, torch.tensor([[0.596305, 0.157852, 0.245842]]).double(), rtol=0, atol=1e-6)
    assert_close(out.context, torch.tensor([[0.842148, 0.403695]]).double(), rtol=0, atol=1e-6)


# ── dropout ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_dropout_acts_in_training_only_and_not_on_returned_weights() -> None:
    query, keys, values = random_inputs((8,), 3, 5)
    layer = Attention(dropout=0.5)
    clean = Attention()(query, keys, values)
    trained, evaluated = layer.train()(query, keys, values), layer.eval()(query, keys, values)
    assert torch.equal(evaluated.context, clean.context)
    assert torch.equal(evaluated.weights, clean.weights)
    assert torch.equal(trained.weights, clean.weights)
    assert not torch.allclose(trained.context, clean.context)
    without = layer.eval()(query, keys, values, need_weights=False)
    assert_close(without.context, clean.context)


@pytest.mark.parametrize("impl", ["reference", "sdpa"])
def test_dropout_keeps_the_mean(impl: str) -> None:
    query, keys, values = torch.randn(1, 2, 4), torch.randn(1, 5, 4), torch.randn(1, 5, 3)
    many = attend(query.expand(20_000, -1, -1), keys, values, dropout=0.3, impl=impl).context
    assert many.std(0).min() > 0.05
    assert_close(many.mean(0, keepdim=True), attend(query, keys, values).context, rtol=0, atol=0.03)


# ── callables, prepared keys, history ───────────────────────────────────────────────────────────────────────────────


def test_any_callable_is_a_score_or_an_alignment() -> None:
    inputs = random_inputs((2,), 3, 5)
    mask = Mask.padding([5, 2])
    expected = attend(*inputs, score=Dot(), align=Softmax(), mask=mask)

    def masked_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
        return scores.masked_fill(~allowed, -math.inf).softmax(-1)

    for align in (masked_softmax, lambda scores, allowed: Alignment(masked_softmax(scores, allowed))):
        for layer in (attend, Attention(lambda query, keys: query @ keys.mT, align)):
            options = {"score": lambda query, keys: query @ keys.mT, "align": align} if layer is attend else {}
            out = layer(*inputs, mask=mask, **options)
            assert_close((out.context, out.weights), (expected.context, expected.weights))


def test_a_callable_is_given_what_it_needs() -> None:
    class Sharp:
        needs = ("query", "step", "previous")

        def __call__(
            self, scores: Tensor, mask: Tensor | None, *, query: Tensor, step: int, previous: Tensor
        ) -> Tensor:
            assert previous is earlier
            assert step == 7
            return (scores * query.norm(dim=-1, keepdim=True)).softmax(-1)

    query, keys, values = random_inputs((2,), 1, 5)
    earlier = torch.rand(2, 5)
    out = attend(query, keys, values, align=Sharp(), previous=earlier, step=7)
    expected = (ScaledDot()(query, keys) * query.norm(dim=-1, keepdim=True)).softmax(-1)
    assert_close(out.weights, expected)


@pytest.mark.parametrize(
    "score", [ScaledDot(), General(4, 3), Cosine(2.0), Additive(4, 3, 5)], ids=lambda s: type(s).__name__
)
@pytest.mark.parametrize("need_weights", [True, False])
def test_prepared_keys(monkeypatch: pytest.MonkeyPatch, score: Score, need_weights: bool) -> None:
    score = score.double()
    query, keys, values = random_inputs((2,), 3, 5, 3 if isinstance(score, General | Additive) else 4)
    layer = Attention(score)
    expected = layer(query, keys, values, need_weights=need_weights)
    prepared = layer.prepare(keys)
    monkeypatch.setattr(type(score), "prepare", lambda *_: pytest.fail("keys were prepared twice"))
    for out in (
        layer(query, prepared, values, need_weights=need_weights),
        attend(query, prepared, values, score=score, need_weights=need_weights),
    ):
        assert torch.equal(out.context, expected.context)


def test_prepared_keys_of_a_callable() -> None:
    query, keys, values = random_inputs((2,), 3, 5)
    layer = Attention(lambda query, keys: query @ keys.mT)
    out = layer(query, layer.prepare(keys), values)
    assert_close(out.context, attend(query, keys, values, score=Dot()).context)


WITH_HISTORY: dict[str, Callable[[], tuple[Score, Align]]] = {
    "location-aware": lambda: (LocationAware(4, 4, 5, filters=2, width=3), Softmax()),
    "monotonic, training": lambda: (ScaledDot(), Monotonic(noise=0.0)),
    "monotonic, evaluation": lambda: (ScaledDot(), Monotonic(offset=2.0).eval()),
    "shift": lambda: (ScaledDot(), Shift(0.4, (0.2, 0.3, 0.5), 1.5)),
    "local-m": lambda: (ScaledDot(), LocalMonotonic(1)),
    "local-p": lambda: (ScaledDot(), LocalPredictive(4, window=2)),
    "location-aware and monotonic": lambda: (LocationAware(4, 4, 5, filters=2, width=3), Monotonic(noise=0.0)),
    "location-aware and local-m": lambda: (LocationAware(4, 4, 5, filters=2, width=3), LocalMonotonic(2)),
}


@cases("need_weights", [True, False])
@cases("prepared", [True, False])
@cases("lead", [(), (2,), (2, 3)], ids=len)
@cases("kind", WITH_HISTORY)
def test_step_by_step_equals_one_pass(kind: str, lead: tuple[int, ...], prepared: bool, need_weights: bool) -> None:
    score, align = WITH_HISTORY[kind]()
    layer = Attention(score.double(), align.double())
    query, keys, values = random_inputs(lead, 4, 6)
    mask, bias = Mask.padding(lengths(lead, 6)) & Mask.window(3), torch.randn(4, 6, dtype=torch.float64)
    memory = layer.prepare(keys) if prepared else keys
    whole = layer(query, memory, values, mask=mask, bias=bias, need_weights=need_weights)
    previous, contexts = None, []
    allowed = mask.dense(4, 6)
    for step in range(4):
        out = layer(
            query[..., step : step + 1, :],
            memory,
            values,
            mask=allowed[..., step : step + 1, :],
            bias=bias[step : step + 1],
            previous=previous,
            step=step,
        )
        previous = out.weights[..., 0, :]
        contexts.append(out.context)
    assert_close(whole.context, torch.cat(contexts, -2), rtol=1e-12, atol=1e-12)
    assert whole.context.abs().sum() > 0
    assert (whole.weights is None) == (not need_weights)


@pytest.mark.parametrize("kind", ["location-aware", "monotonic, training", "shift"])
def test_previous_matters(kind: str) -> None:
    score, align = WITH_HISTORY[kind]()
    layer = Attention(score.double(), align.double())
    inputs = random_inputs((2,), 3, 5)
    previous = torch.zeros(2, 5, dtype=torch.float64)
    previous[:, 2] = 1.0
    assert not torch.allclose(layer(*inputs, previous=previous).context, layer(*inputs).context)


def test_sampled_alignments_hand_over_log_prob_and_entropy() -> None:
    query, keys, values = random_inputs((2,), 3, 5)
    for score in (ScaledDot(), LocationAware(4, 4, 5, filters=2, width=3).double()):  # at once, and row by row
        out = attend(query, keys, values, score=score, align=Hard("sample"))
        assert out.log_prob.shape == out.entropy.shape == (2, 3)
        assert (out.weights.sum(-1) == 1).all()
        assert attend(query, keys, values, score=score).log_prob is None


# ── shapes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mask", [None, Mask.causal(), Mask.padding([0, 0])], ids=["none", "causal", "padding"])
@pytest.mark.parametrize("options", [{}, {"need_weights": False}, {"impl": "sdpa", "need_weights": False}], ids=str)
def test_no_keys_give_no_context(options: dict, mask: Mask | None) -> None:
    out = attend(torch.randn(2, 3, 4), torch.randn(2, 0, 4), torch.randn(2, 0, 5), mask=mask, **options)
    assert torch.equal(out.context, torch.zeros(2, 3, 5))
    assert out.weights is None if options else out.weights.shape == (2, 3, 0)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize(("lead", "queries"), [((0,), 3), ((2, 0), 3), ((2,), 0)])
def test_no_sentences_or_no_queries(lead: tuple[int, ...], queries: int, need_weights: bool) -> None:
    inputs = random_inputs(lead, queries, 5)
    assert attend(*inputs, need_weights=need_weights).context.shape == (*lead, queries, 6)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("lead", [(1,), ()], ids=["one", "none"])
def test_keys_spread_over_the_batch(lead: tuple[int, ...], need_weights: bool) -> None:
    query = torch.randn(3, 2, 4, dtype=torch.float64)
    keys, values = torch.randn(*lead, 5, 4, dtype=torch.float64), torch.randn(*lead, 5, 6, dtype=torch.float64)
    mask = Mask.padding([5, 3, 1])
    out = attend(query, keys, values, mask=mask, need_weights=need_weights)
    full = attend(query, keys.expand(3, 5, 4), values.expand(3, 5, 6), mask=mask, need_weights=need_weights)
    assert_close(out.context, full.context)
    alone = attend(query[:1], keys, values, mask=mask.dense(2, 5)[:1], need_weights=need_weights)
    assert_close(alone.context, full.context[:1])


@pytest.mark.parametrize("need_weights", [True, False])
def test_one_query_and_keys_for_many_values_under_a_mask(need_weights: bool) -> None:
    query, keys, _ = random_inputs((1,), 3, 5)
    values = torch.randn(2, 5, 6, dtype=torch.float64)
    mask = Mask.padding([5, 2])
    out = attend(query, keys, values, mask=mask, need_weights=need_weights)
    full = attend(query.expand(2, 3, 4), keys.expand(2, 5, 4), values, mask=mask)
    assert_close(out.context, full.context)


@cases("need_weights", [True, False])
@cases("lead", LEADS, ids=len)
@cases("shape", [(5,), (1, 5), (3, 1)], ids=str)
def test_bias_broadcasts_alike_in_both_implementations(
    shape: tuple[int, ...], lead: tuple[int, ...], need_weights: bool
) -> None:
    inputs = random_inputs(lead, 3, 5)
    bias = torch.randn(shape, dtype=torch.float64)
    out = attend(*inputs, bias=bias, need_weights=need_weights)
    assert_close(out.context, attend(*inputs, bias=bias.expand(3, 5)).context)


def test_bias_of_keys_row_by_row() -> None:
    inputs, score = random_inputs((2,), 3, 5), LocationAware(4, 4, 5, filters=2, width=3).double()
    bias = torch.randn(5, dtype=torch.float64)
    out = attend(*inputs, score=score, bias=bias)
    assert_close(out.context, attend(*inputs, score=score, bias=bias.expand(3, 5)).context)


# ── properties ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("align", [Softmax(), Entmax(1.5), Entmax(1.3)], ids=["softmax", "entmax 1.5", "entmax 1.3"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_junk_behind_the_mask_changes_nothing(align: Align, dtype: torch.dtype) -> None:
    query, keys, values = random_inputs((2,), 3, 8, dtype=dtype)
    mask = Mask.padding([5, 3])
    before = attend(query, keys, values, align=align, mask=mask)
    junk = ~mask.dense(3, 8).mT
    keys, values = keys.masked_fill(junk, 1e4), values.masked_fill(junk, -1e4)
    after = attend(query, keys, values, align=align, mask=mask)
    assert torch.equal(before.context, after.context)  # same shapes: bit for bit
    assert torch.equal(before.weights, after.weights)


def test_padding_may_be_of_any_length() -> None:
    query, keys, values = random_inputs((2,), 3, 5)
    mask = Mask.padding([5, 3])
    short = attend(query, keys, values, mask=mask)
    more = torch.full((2, 4, 4), 1e4).double(), torch.full((2, 4, 6), 1e4).double()
    long = attend(query, torch.cat([keys, more[0]], 1), torch.cat([values, more[1]], 1), mask=mask)
    assert_close(short.context, long.context, rtol=1e-12, atol=1e-12)
    assert (long.weights[..., 5:] == 0).all()


@pytest.mark.parametrize("need_weights", [True, False])
def test_a_sentence_alone_equals_itself_in_the_batch(need_weights: bool) -> None:
    query, keys, values = random_inputs((3,), 4, 6)
    sizes = [6, 4, 1]
    batch = attend(query, keys, values, mask=Mask.padding(sizes), need_weights=need_weights).context
    for index, size in enumerate(sizes):
        alone = attend(query[index], keys[index, :size], values[index, :size], need_weights=need_weights).context
        assert_close(batch[index], alone, rtol=1e-12, atol=1e-12)


def test_order_of_keys_does_not_matter() -> None:
    query, keys, values = random_inputs((2,), 3, 5)
    order = torch.randperm(5)
    out, shuffled = attend(query, keys, values), attend(query, keys[:, order], values[:, order])
    assert_close(out.context, shuffled.context)
    assert_close(out.weights[..., order], shuffled.weights)


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 2**31), k=st.integers(1, 7), scale=st.floats(0.01, 1e4), alpha=st.sampled_from([1.0, 1.5, 2.0])
)
def test_context_lies_between_the_values(seed: int, k: int, scale: float, alpha: float) -> None:
    torch.manual_seed(seed)
    query, keys, values = random_inputs((2,), 3, k)
    mask = Mask.padding(torch.randint(1, k + 1, (2,)))
    out = attend(query * scale, keys, values, align=Softmax() if alpha == 1 else Entmax(alpha), mask=mask)
    hidden = ~mask.dense(3, k).mT
    low = values.masked_fill(hidden, math.inf).amin(-2, keepdim=True)
    high = values.masked_fill(hidden, -math.inf).amax(-2, keepdim=True)
    assert (out.context >= low - 1e-9).all()
    assert (out.context <= high + 1e-9).all()
    assert (out.weights >= 0).all()
    assert_close(out.weights.sum(-1), torch.ones(2, 3).double(), rtol=0, atol=1e-9)


# ── the module ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dropout", [-0.1, 1.0, math.nan])
def test_dropout_out_of_range(dropout: float) -> None:
    with pytest.raises(ConfigError, match="0 ≤ dropout < 1"):
        Attention(dropout=dropout)


@pytest.mark.parametrize("role", ["score", "align"])
def test_a_class_in_place_of_an_object(role: str) -> None:
    kind = {"score": ScaledDot, "align": Softmax}[role]
    with pytest.raises(ConfigError, match=rf"{role} must be an object.*write {kind.__name__}\(…\)"):
        Attention(**{role: kind})


def test_unknown_impl() -> None:
    with pytest.raises(ConfigError, match="'flash'; expected one of auto, reference, sdpa"):
        Attention(impl="flash")


def test_module_holds_its_parts() -> None:
    layer = Attention(Additive(4, 4, 5), Entmax(1.5, learned=True), dropout=0.25, impl="reference")
    assert {name.partition(".")[0] for name, _ in layer.named_parameters()} == {"score", "align"}
    assert "dropout=0.25, impl='reference'" in repr(layer)
    assert "score=<function" in repr(Attention(lambda query, keys: query @ keys.mT))
    assert isinstance(Attention().score, nn.Module)
