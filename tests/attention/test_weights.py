"""Weights beside a fused pass: those of the reference, by row and head, in bounded memory."""

import copy
from typing import Any

import pytest
import torch
from table import cases
from torch import Tensor
from torch.testing import assert_close

from regard.align import Softmax
from regard.attention import Attention, AttentionOutput, Mask, MultiHead, Relative, attend, trace, weights
from regard.base import ShapeError
from regard.score import Additive, Concat, Cosine, Dot, General, Prepared, Projected, ScaledDot, Score

SCORES = {
    "dot": Dot(),
    "scaled_dot": ScaledDot(),
    "general": General(6, 6),
    "cosine": Cosine(3.0),
    "projected": Projected(ScaledDot(), 6, 6, 4),
    "additive": Additive(6, 6, 5),
    "concat": Concat(6, 6, 5),
}
MASKS = {
    "none": None,
    "causal": Mask.causal(),
    "padding": Mask.padding([7, 0, 4]),
    "window and padding": Mask.window(2, 1) & Mask.padding([7, 3, 1]),
    "rows that are empty": Mask.query_padding([5, 0, 3]),
    "blocks": Mask.block(3),
    "dense": Mask.of(torch.rand(3, 1, 5, 7, generator=torch.Generator().manual_seed(0)) > 0.5),
}
every_score = pytest.mark.parametrize("score", SCORES.values(), ids=SCORES)
every_mask = cases("mask", MASKS.values(), ids=MASKS)


def example(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.randn(3, 2, 5, 6, dtype=dtype),
        torch.randn(3, 2, 7, 6, dtype=dtype),
        torch.randn(3, 2, 7, 4, dtype=dtype),
    )


@torch.no_grad()
@cases("at_once", [1, 100, 2**25])
@every_mask
@every_score
def test_they_are_those_of_the_reference(
    score: Score, mask: Mask | None, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "AT_ONCE", at_once)
    query, keys, values = example()
    bias = torch.randn(2, 5, 7, dtype=torch.float64)
    score, align = score.double(), Softmax(0.7)
    expected = attend(query, keys, values, score=score, align=align, mask=mask, bias=bias, impl="reference").weights
    assert expected is not None
    found = weights.recompute_weights(query, keys, values, score, align, mask, bias)
    assert_close(found, expected)
    prepared = score.prepare(keys)
    some = weights.recompute_weights(query, prepared, values, score, align, mask, bias, rows=[4, 0, -2], heads=[1])
    assert_close(some, expected[:, [1]][:, :, [4, 0, 3]])
    row = torch.randn(1, 1, 7, dtype=torch.float64)  # a bias of the keys alone
    expected = attend(query, keys, values, score=score, align=align, mask=mask, bias=row, impl="reference").weights
    assert expected is not None
    assert_close(
        weights.recompute_weights(query, keys, values, score, align, mask, row, rows=[2]), expected[..., [2], :]
    )
    score.float()


def plain_dot_weights(query: Tensor, keys: Tensor, **around: Any) -> Tensor:
    """What the kernel gives, from masks as it takes them."""
    q, k = query.shape[1], keys.shape[1]
    place = torch.arange(k) - torch.arange(q).unsqueeze(1) - (k - q)
    before, after = around.get("window") or (k + q, k + q)
    seen = (place >= -before) & (place <= (0 if around.get("causal") else after))
    if around.get("lengths") is not None:
        seen = seen & (torch.arange(k) < around["lengths"][:, None, None])
    if around.get("allowed") is not None:
        seen = seen & around["allowed"]
    scores = (query @ keys.mT * around["scale"]).masked_fill(~seen, -torch.inf)
    found = scores.softmax(-1).nan_to_num(0.0)
    return found if around.get("rows") is None else found[:, around["rows"]]


@torch.no_grad()
@every_mask
@cases("name", ["dot", "general", "cosine"])
def test_the_kernel_is_told_the_same(name: str, mask: Mask | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Masks, rows and heads on their way to the kernel for a GPU, which something plain stands for here."""
    monkeypatch.setattr(weights, "reasons_against_triton", lambda *tensors: [])
    monkeypatch.setattr("regard.kernels.dot_weights.dot_weights", plain_dot_weights)
    query, keys, values = example()
    score, align = SCORES[name].double(), Softmax(0.7)
    expected = attend(query, keys, values, score=score, align=align, mask=mask, impl="reference").weights
    assert expected is not None
    assert_close(weights.recompute_weights(query, keys, values, score, align, mask, None), expected)
    some = weights.recompute_weights(query, keys, values, score, align, mask, None, rows=[4, 0, -2], heads=[1])
    assert_close(some, expected[:, [1]][:, :, [4, 0, 3]])
    score.float()


def test_nothing_and_what_is_not_there() -> None:
    query, keys, values = example()
    given = query, keys, values, Dot(), Softmax(), None, None
    assert weights.recompute_weights(*given, rows=[]).shape == (3, 2, 0, 7)
    assert weights.recompute_weights(*given, heads=[]).shape == (3, 0, 5, 7)
    with pytest.raises(ShapeError, match="a row or head is not there: got \\[5\\]; expected numbers below 5"):
        weights.recompute_weights(*given, rows=[5])


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_they_have_the_dtype_of_the_query_and_the_scores_float32(dtype: torch.dtype) -> None:
    query, keys, values = (30 * part.to(dtype) for part in example())
    found = attend(query, keys, values, impl="sdpa").weights
    assert found is not None
    assert found.dtype == dtype
    exact = attend(query.double(), keys.double(), values.double(), impl="reference").weights
    assert exact is not None
    assert_close(found.double(), exact, atol=2 * torch.finfo(dtype).eps, rtol=2 * torch.finfo(dtype).eps)


@torch.no_grad()
@every_score
def test_asking_does_not_change_the_context(score: Score) -> None:
    query, keys, values = example(torch.float32)
    layer = Attention(score, Softmax())
    plain = layer(query, keys, values, need_weights=False)
    asked = layer(query, keys, values)
    assert plain.weights is None
    assert asked.weights is not None
    assert_close(plain.context, asked.context, rtol=0, atol=0)
    with trace(layer) as seen:
        watched = layer(query, keys, values, need_weights=False)
    assert_close(plain.context, watched.context, rtol=0, atol=0)
    assert_close(torch.as_tensor(seen[0].weights), asked.weights)


# ── gradients ───────────────────────────────────────────────────────────────────────────────────────────────────────

FUSED = {name: "sdpa" if score.is_dot else "blocked" for name, score in SCORES.items()}
every_name = cases("name", SCORES)


def learnt(name: str, dtype: torch.dtype, *shapes: tuple[int, ...]) -> tuple[Score, list[Tensor]]:
    """A score, and tensors that require gradients."""
    return copy.deepcopy(SCORES[name]).to(dtype), [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]


def penalised(out: AttentionOutput, score: Score, given: list[Tensor]) -> list[tuple[str, Tensor]]:
    """Context, weights, and the gradients of a loss that uses both."""
    assert out.weights is not None
    torch.manual_seed(1)
    first, second = (torch.randn(x.shape, dtype=torch.float64).to(x.device) for x in (out.context, out.weights))
    coverage = (1 - out.weights.double().sum(-2)).square().sum()
    loss = (out.context * first).sum() + (out.weights * second).sum() + coverage
    named = {"query": given[0], "keys": given[1], "values": given[2], **dict(score.named_parameters())}
    named |= {"bias": given[3]} if len(given) > 3 else {}
    found = torch.autograd.grad(loss, list(named.values()))
    return [("context", out.context), ("weights", out.weights), *zip(named, found, strict=True)]


def same(one: list[tuple[str, Tensor]], other: list[tuple[str, Tensor]], *, atol: float = 1e-11) -> None:
    for (name, x), (_, y) in zip(one, other, strict=True):
        assert x.isfinite().all(), name
        assert_close(x, y, rtol=atol, atol=atol, msg=lambda text, name=name: f"{name}: {text}")


SHAPES = {  # query, keys, values
    "heads": ((3, 2, 5, 6), (3, 2, 7, 6), (3, 2, 7, 4)),
    "one query": ((3, 2, 1, 6), (3, 2, 7, 6), (3, 2, 7, 4)),
    "one of all": ((1, 1, 1, 6), (1, 1, 1, 6), (1, 1, 1, 1)),
    "heads share keys": ((3, 2, 5, 6), (3, 1, 7, 6), (3, 1, 7, 4)),
    "more queries than keys": ((3, 1, 9, 6), (3, 1, 4, 6), (3, 1, 4, 4)),
}


@every_mask
@every_name
def test_a_loss_of_context_and_weights_has_the_gradients_of_the_reference(name: str, mask: Mask | None) -> None:
    score, given = learnt(name, torch.float64, *SHAPES["heads"])
    if score.is_dot:
        given.append(torch.randn(2, 5, 7, dtype=torch.float64, requires_grad=True))
    bias = given[3] if score.is_dot else None
    ways = (FUSED[name], "reference")
    found = [
        penalised(attend(*given[:3], score=score, align=Softmax(0.7), mask=mask, bias=bias, impl=way), score, given)
        for way in ways
    ]
    same(*found)


@cases("shape", SHAPES)
@every_name
def test_of_any_shape(name: str, shape: str) -> None:
    score, given = learnt(name, torch.float64, *SHAPES[shape])
    mask = Mask.padding([SHAPES[shape][1][-2], 0, 3][: SHAPES[shape][0][0]])
    same(
        *(
            penalised(attend(*given, score=score, mask=mask, impl=way), score, given)
            for way in (FUSED[name], "reference")
        )
    )


@every_mask
@every_name
def test_rows_and_heads_that_were_asked_for_alone(name: str, mask: Mask | None) -> None:
    score, given = learnt(name, torch.float64, *SHAPES["heads"])
    query, keys, values = given
    inputs = [query, keys, *score.parameters()]
    outer = torch.randn(3, 1, 2, 7, dtype=torch.float64)
    around = score, Softmax(0.7), mask, None
    some = weights.recompute_weights(query, keys, values, *around, rows=[-1, 0], heads=[1])
    every = attend(query, keys, values, score=score, align=Softmax(0.7), mask=mask, impl="reference").weights
    assert every is not None
    expected = every[:, [1]][:, :, [4, 0]]
    assert_close(some, expected)
    for one, other in zip(*(torch.autograd.grad(x, inputs, outer) for x in (some, expected)), strict=True):
        assert_close(one, other)


@pytest.mark.parametrize("used", ["context", "weights"])
@every_name
def test_a_loss_may_use_one_of_them_alone(name: str, used: str) -> None:
    score, given = learnt(name, torch.float64, *SHAPES["heads"])
    inputs = [*given, *score.parameters()]
    found = []
    for way in (FUSED[name], "reference"):
        out = attend(*given, score=score, mask=Mask.causal(), impl=way)
        part = getattr(out, used)
        outer = torch.arange(part.numel(), dtype=torch.float64).view_as(part)
        found.append(torch.autograd.grad(part, inputs, outer, allow_unused=True, materialize_grads=True))
    for one, other in zip(*found, strict=True):
        assert_close(one, other, atol=1e-10, rtol=1e-10)


@every_name
def test_a_penalty_that_asks_for_an_infinite_gradient_of_a_zero(name: str) -> None:
    """The entropy of weights has the logarithm of those that are masked, and an empty row has nothing else."""
    score, given = learnt(name, torch.float64, *SHAPES["heads"])
    mask = Mask.padding([7, 0, 4])
    out = attend(*given, score=score, mask=mask, impl=FUSED[name])
    assert out.weights is not None
    entropy = -torch.where(out.weights > 0, out.weights * out.weights.log(), 0.0).sum()
    naive = torch.autograd.grad(out.weights.log().sum(), given[0], retain_graph=True)[0]  # 1/0 where it is masked
    assert naive.isfinite().all()
    assert naive[1].count_nonzero() == 0
    wild = torch.autograd.grad(entropy, [*given[:2], *score.parameters()], retain_graph=True)
    assert all(x[1].count_nonzero() == 0 for x in wild[:2])
    broken = torch.full_like(out.weights, torch.nan).masked_fill(out.weights > 0, 1.0)
    for found in torch.autograd.grad(out.weights, [given[0], *score.parameters()], broken):
        assert_close(found, torch.zeros_like(found), atol=1e-12, rtol=0)  # the same for every weight of a row


@pytest.mark.parametrize("name", ["scaled_dot", "additive"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("autocast", [False, True])
def test_as_exact_as_the_reference(name: str, dtype: torch.dtype, autocast: bool) -> None:
    """Large scores in half precision: the gradients are no further from the truth than twice the reference's."""
    score, given = learnt(name, dtype, *SHAPES["heads"])
    given = [(x.detach() * factor).requires_grad_() for x, factor in zip(given, (4, 4, 1), strict=True)]
    wide = [x.detach().double().requires_grad_() for x in given]
    exact = copy.deepcopy(score).double()
    truth = penalised(attend(*wide, score=exact, mask=Mask.causal(), impl="reference"), exact, wide)

    def off(way: str) -> list[float]:
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            out = attend(*given, score=score, mask=Mask.causal(), impl=way)
        found = penalised(out, score, given)
        return [(x.double() - y).norm().item() / y.norm().item() for (_, x), (_, y) in zip(found, truth, strict=True)]

    floor = 4e-6 if dtype == torch.float32 and not autocast else 2e-3 if dtype == torch.float16 else 2e-2
    for found, allowed in zip(off(FUSED[name]), off("reference"), strict=True):
        assert found <= 2 * allowed + floor


@pytest.mark.parametrize("axes", [(7,), (5, 7), (2, 1, 7), (1, 5, 1), (3, 2, 5, 7)], ids=str)
def test_the_gradient_of_a_bias(axes: tuple[int, ...]) -> None:
    """Whatever axes it has, and where it is infinite: −∞ masks, +∞ takes the row, and neither has a gradient."""
    score, given = learnt("scaled_dot", torch.float64, *SHAPES["heads"])
    bias = torch.randn(axes, dtype=torch.float64)
    bias.view(-1)[0], bias.view(-1)[-1] = (-torch.inf, torch.inf) if axes[-1] == 7 else (0.0, 0.0)
    given.append(bias.requires_grad_())
    ways = "sdpa", "reference"
    same(*(penalised(attend(*given[:3], score=score, bias=bias, impl=way), score, given) for way in ways))


@pytest.mark.parametrize("name", ["scaled_dot", "additive"])
@pytest.mark.parametrize("how", ["expanded", "transposed", "huge", "v is zero"])
def test_odd_tensors(name: str, how: str) -> None:
    score, given = learnt(name, torch.float64, *SHAPES["heads"])
    query, keys, values = (x.detach() for x in given)
    if how == "expanded":
        query, keys, values = (x[:1, :, :1].expand(x.shape) for x in (query, keys, values))
    elif how == "transposed":
        query, keys, values = (x.mT.contiguous().mT for x in (query, keys, values))
    elif how == "huge":
        query, keys = 300 * query, 300 * keys
    elif isinstance(score, Additive):
        score.v.data[1:] = 0.0
    given = [x.requires_grad_() for x in (query, keys, values)]
    ways = FUSED[name], "reference"
    same(
        *(penalised(attend(*given, score=score, mask=Mask.causal(), impl=way), score, given) for way in ways), atol=1e-9
    )


@pytest.mark.parametrize("name", ["scaled_dot", "additive"])
def test_dropout_stands_between_weights_and_context(name: str) -> None:
    """Weights are those before it, and so is their gradient; of these values the context shows the noise."""
    score, (query, keys) = learnt(name, torch.float64, *SHAPES["heads"][:2])
    inputs = [query, keys, *score.parameters()]
    eye = torch.eye(7, dtype=torch.float64).expand(3, 2, 7, 7)
    first, second = torch.randn(2, 3, 2, 5, 7, dtype=torch.float64)
    out = attend(query, keys, eye, score=score, dropout=0.5, impl=FUSED[name])
    plain = attend(query, keys, eye, score=score, impl="reference").weights
    assert out.weights is not None
    assert plain is not None
    assert_close(out.weights, plain)
    factors = (out.context / plain).detach()
    assert 0 < (factors > 1).double().mean() < 1
    found = torch.autograd.grad((out.context * first).sum() + (out.weights * second).sum(), inputs)
    expected = torch.autograd.grad((plain * (factors * first + second)).sum(), inputs)
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other)


@pytest.mark.parametrize("name", ["general", "additive"])
def test_derivatives_by_finite_differences_twice(name: str) -> None:
    score, _ = learnt(name, torch.float64)
    given = [torch.randn(1, n, 6, dtype=torch.float64, requires_grad=True) for n in (2, 3, 3)]
    mask = Mask.padding([2])

    def both(*parts: Tensor) -> tuple[Tensor, Tensor]:
        out = attend(*parts, score=score, mask=mask, impl=FUSED[name])
        assert out.weights is not None
        return out.context, out.weights

    assert torch.autograd.gradcheck(both, given)
    assert torch.autograd.gradgradcheck(both, given)


def test_heads_with_relative_positions() -> None:
    """Weights and context through torch's kernel, with a bias that depends on the query and on learnt vectors."""
    layer = MultiHead(8, num_heads=2, position=Relative(2, 4), attention=Attention(impl="sdpa")).double()
    x = torch.randn(2, 5, 8, dtype=torch.float64, requires_grad=True)
    wanted = [x, *layer.parameters()]
    found = []
    for impl in ("sdpa", "reference"):
        layer.attention.impl = impl
        out = layer(x, mask=Mask.causal(), need_weights=True)
        assert out.weights is not None
        loss = out.context.sum() + out.weights.square().sum()
        found.append(torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True))
    for one, other in zip(*found, strict=True):
        assert_close(one, other)


def test_no_keys_and_no_gradient_wanted() -> None:
    score, given = learnt("additive", torch.float64, (3, 5, 6), (3, 0, 6), (3, 0, 4))
    out = attend(*given, score=score, impl="blocked")
    assert out.weights is not None
    assert out.weights.shape == (3, 5, 0)
    with torch.no_grad():
        plain = attend(*(torch.randn(3, 4, 6) for _ in range(3)), score=SCORES["additive"].float(), impl="blocked")
    assert plain.weights is not None
    assert not plain.weights.requires_grad


@pytest.mark.bare
@pytest.mark.parametrize("name", ["scaled_dot", "additive"])
def test_a_graph_of_both(name: str) -> None:
    """torch.compile of a loss of context and weights, forward and backward."""
    torch.compiler.reset()
    score, given = learnt(name, torch.float64, *SHAPES["heads"])
    layer = Attention(score, Softmax(), impl=FUSED[name])
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    same(*(penalised(run(*given, mask=Mask.causal()), score, given) for run in (compiled, layer)))


def test_a_trace_carries_no_graph() -> None:
    score, given = learnt("additive", torch.float32, *SHAPES["heads"])
    layer = Attention(score, Softmax(), impl="blocked")
    with trace(layer, rows=[-1]) as seen:
        layer(*given, need_weights=False)
    assert seen[0].weights.shape == (3, 2, 1, 7)


def test_parameters_of_the_score_count_as_somebody() -> None:
    query, keys, values = example(torch.float32)
    score = General(6, 6)
    out = attend(query, keys, values, score=score)
    assert out.weights is not None
    out.weights.square().sum().backward()
    assert score.weight.grad is not None
    assert score.weight.grad.any()


def test_dropout_does_not_touch_them() -> None:
    query, keys, values = example(torch.float32)
    clean = attend(query, keys, values, impl="reference").weights
    assert clean is not None
    for impl in ("sdpa", "reference"):
        dropped = attend(query, keys, values, dropout=0.5, impl=impl).weights
        assert dropped is not None
        assert_close(dropped, clean)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the rows that are asked for, no block is larger than it may be."""
    largest = 0
    compare = Additive.compare

    def spy(self: Additive, query: Tensor, keys: Tensor) -> Tensor:
        nonlocal largest
        largest = max(largest, query.shape[:-1].numel() * keys.shape[-2] * keys.shape[-1])
        return compare(self, query, keys)

    monkeypatch.setattr(Additive, "compare", spy)
    monkeypatch.setattr(weights, "AT_ONCE", 2000)
    query, keys, values = example(torch.float32)
    with torch.no_grad():
        found = weights.recompute_weights(query, keys, values, Additive(6, 6, 5), Softmax(), None, None)
    assert found.shape == (3, 2, 5, 7)
    assert 0 < largest <= 2000


def test_prepared_memory_of_heads() -> None:
    layer, x = MultiHead(8, num_heads=2).eval(), torch.randn(2, 5, 8)
    memory = layer.prepare(torch.randn(2, 7, 8))
    with torch.no_grad():
        expected = layer(x, memory, mask=Mask.padding([7, 3]), need_weights=True).weights
        with trace(layer, rows=[1], heads=[1]) as seen:
            layer(x, memory, mask=Mask.padding([7, 3]))
    assert expected is not None
    assert seen[0].weights.shape == (2, 1, 1, 7)
    assert_close(torch.as_tensor(seen[0].weights), expected[:, [1]][:, :, [1]])
    assert isinstance(memory.keys, Prepared)


@pytest.mark.gpu
@every_mask
@cases("name", SCORES)
def test_gradients_on_a_gpu(name: str, mask: Mask | None) -> None:
    score, given = learnt(name, torch.float32, *SHAPES["heads"])
    impl, score = "sdpa" if score.is_dot else "triton", score.cuda()
    given = [x.detach().cuda().requires_grad_() for x in given]
    wide, exact = [x.detach().double().requires_grad_() for x in given], copy.deepcopy(score).double()
    for rows in (slice(None), slice(4, 5)):
        some, truth = [given[0][:, :, rows], *given[1:]], [wide[0][:, :, rows], *wide[1:]]
        if mask is not None and rows != slice(None):
            mask = Mask.causal()
        found = penalised(attend(*some, score=score, mask=mask, impl=impl), score, some)
        expected = penalised(attend(*truth, score=exact, mask=mask, impl="reference"), exact, truth)
        for (label, x), (_, y) in zip(found, expected, strict=True):
            assert_close(x.double(), y, rtol=1e-4, atol=1e-4, msg=lambda text, label=label: f"{label}: {text}")


@pytest.mark.gpu
@pytest.mark.parametrize("lead", [(), (2,), (2, 3)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_on_a_gpu(dtype: torch.dtype, lead: tuple[int, ...]) -> None:
    query, keys, values = (torch.randn(*lead, n, 6, device="cuda").to(dtype) for n in (5, 7, 7))
    found = attend(query, keys, values, mask=Mask.causal(), impl="sdpa").weights
    exact = attend(query.double(), keys.double(), values.double(), mask=Mask.causal(), impl="reference").weights
    assert found is not None
    assert exact is not None
    assert found.dtype == dtype
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}[dtype]
    assert_close(found.double(), exact, atol=tolerance, rtol=tolerance)
