"""Weights beside a fused pass: those of the reference, by row and head, in bounded memory."""

from typing import Any

import pytest
import torch
from table import cases
from torch import Tensor
from torch.testing import assert_close

from regard.align import Softmax
from regard.attention import Attention, Mask, MultiHead, attend, trace, weights
from regard.base import RegardError, ShapeError
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


def test_gradients_go_through_weights_on_the_reference_and_are_refused_beside_a_fused_pass() -> None:
    query, keys, values = example()
    query.requires_grad_()
    out = attend(query, keys, values)  # auto: somebody may differentiate the weights
    assert out.weights is not None
    out.weights.square().sum().backward()
    assert query.grad is not None
    assert query.grad.any()
    fused = attend(query, keys, values, impl="sdpa")
    assert fused.weights is not None
    fused.context.sum().backward()  # the context has its gradient
    with pytest.raises(RegardError, match=r"no gradient goes through the weights of a fused pass.*impl='reference'"):
        fused.weights.sum().backward()
    fused.weights.detach().sum()


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
