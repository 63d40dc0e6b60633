"""Which implementation runs, and the reasons against a faster one."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from regard.align import Entmax, Softmax
from regard.attention import (
    IMPLEMENTATIONS,
    Attention,
    Call,
    MultiHead,
    attend,
    dispatch,
    fused,
    reasons_against,
    trace,
)
from regard.base import ConfigError, ImplementationUnavailable, RegardError
from regard.score import Additive, Concat, Cosine, Dot, General, Projected, ScaledDot

DOT = "score=Additive is not a dot product of transformed queries and keys"
TANH = "score=Dot is not additive, vᵀ tanh(q + k)"
ALIGN = "align=Entmax is not Softmax"
BIAS = "the additive kernels take no bias"
HERE = Call()


class Sharper(Softmax):
    pass


@pytest.mark.parametrize("score", [Dot(), ScaledDot(), General(2, 3), Cosine()], ids=lambda s: type(s).__name__)
def test_nothing_against_products(score: torch.nn.Module) -> None:
    assert reasons_against("sdpa", score, Softmax(0.5), HERE._replace(bias=True)) == []


@pytest.mark.parametrize("score", [Additive(2, 2, 2), Concat(2, 2, 2), Projected(Additive(2, 2, 2), 3, 3, 2)], ids=repr)
def test_nothing_against_sums_in_blocks(score: torch.nn.Module) -> None:
    assert reasons_against("blocked", score, Softmax(0.5), HERE) == []


def test_every_reason_at_once() -> None:
    additive = Additive(2, 2, 2)
    assert reasons_against("sdpa", additive, Entmax(), HERE) == [DOT, ALIGN]
    assert reasons_against("sdpa", additive, Softmax(), HERE) == [DOT]
    assert reasons_against("sdpa", Dot(), Entmax(), HERE) == [ALIGN]
    assert reasons_against("blocked", Dot(), Entmax(), HERE._replace(bias=True)) == [TANH, ALIGN, BIAS]
    found = reasons_against("triton", Dot(), Entmax(), HERE._replace(bias=True))
    assert found[:3] == [TANH, ALIGN, BIAS]
    assert any("cpu" in reason for reason in found[3:])


def test_callables_and_subclasses_are_named() -> None:
    def mine(first: Tensor, second: Tensor) -> Tensor:
        return first

    score, align = reasons_against("sdpa", mine, mine, HERE)
    assert "score=mine is" in score
    assert "align=mine is" in align
    assert reasons_against("sdpa", Dot(), Sharper(), HERE) == ["align=Sharper is not Softmax"]


def test_an_explicit_wish_is_refused_with_every_reason() -> None:
    query = torch.randn(1, 2, 4)
    layer = Attention(Additive(4, 4, 3), Entmax(), impl="sdpa")
    with pytest.raises(ImplementationUnavailable) as caught:
        layer(query, query, query)
    assert str(caught.value) == (
        f"impl='sdpa' cannot run here: {DOT}; {ALIGN}. Cure: use impl='auto' or impl='reference'."
    )
    assert isinstance(caught.value, RegardError)
    with pytest.raises(ImplementationUnavailable, match="no bias"):
        attend(query, query, query, score=Additive(4, 4, 3), bias=torch.zeros(2, 2), impl="blocked")


def test_known_names() -> None:
    assert [dispatch.check_impl(impl) for impl in IMPLEMENTATIONS] == list(IMPLEMENTATIONS)
    for impl, expected in (("auto", "sdpa"), ("sdpa", "sdpa"), ("reference", "reference")):
        assert dispatch.choose(impl, Dot(), Softmax(), HERE, gradient=False) == expected
    for impl, expected in (("auto", "blocked"), ("blocked", "blocked"), ("reference", "reference")):
        assert dispatch.choose(impl, Additive(4, 4, 3), Softmax(), HERE, gradient=False) == expected


@pytest.mark.parametrize("impl", ["", "flash", "SDPA"])
def test_unknown_names(impl: str) -> None:
    query = torch.randn(1, 2, 4)
    with pytest.raises(ConfigError, match="expected one of auto, reference, sdpa, triton, blocked"):
        attend(query, query, query, impl=impl)


def test_auto_never_refuses() -> None:
    def plain(query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.mT

    for score, align, call in (
        (plain, Softmax(), HERE),
        (Dot(), Sharper(), HERE),
        (Additive(4, 4, 3), Entmax(), HERE),
        (Additive(4, 4, 3), Softmax(), HERE._replace(bias=True)),
        (Additive(4, 4, 3), Softmax(), HERE._replace(device="meta")),
    ):
        assert dispatch.choose("auto", score, align, call, gradient=False) == "reference"
    for score in (Dot(), Additive(4, 4, 3)):
        assert dispatch.choose("auto", score, Softmax(), HERE, gradient=True) == "reference"


def test_a_few_pairs_are_not_worth_blocks() -> None:
    score, few, many = Additive(4, 4, 128), torch.randn(2, 1, 4), torch.randn(2, 600, 4)
    for states, expected in ((few, "reference"), (many, "blocked")):
        call = Call("cpu", states, states)
        assert dispatch.choose("auto", score, Softmax(), call, gradient=False) == expected


def test_a_score_that_changes_compare_is_not_its_parent() -> None:
    class Fivefold(ScaledDot):
        def compare(self, query: Tensor, keys: Tensor) -> Tensor:
            return 5 * super().compare(query, keys)

    query, keys, values = torch.randn(3, 2, 4), torch.randn(3, 5, 4), torch.randn(3, 5, 4)
    with_weights = attend(query, keys, values, score=Fivefold())
    without = attend(query, keys, values, score=Fivefold(), need_weights=False)
    assert_close(with_weights.context, without.context)


def test_leading_axes_spread() -> None:
    a, b, c = torch.zeros(2, 1, 3, 4), torch.zeros(5, 3, 4), torch.zeros(3, 4)
    assert fused.broadcast(a, a) == (2, 1)
    assert fused.broadcast(a, b, c) == (2, 5)
    assert fused.broadcast(c, c) == ()


@pytest.mark.parametrize("scale", [1.0, 60.0, 250.0])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("score", [Dot(), ScaledDot()], ids=repr)
def test_weights_do_not_cost_precision(score: Dot | ScaledDot, dtype: torch.dtype, scale: float) -> None:
    """In half precision both paths form scores in float32: none overflows, none ties, and a trace changes nothing."""
    query, keys = ((scale * torch.randn(2, 5, 64)).to(dtype) for _ in range(2))
    values = torch.randn(2, 5, 3).to(dtype)
    exact = attend(query.double(), keys.double(), values.double(), score=score).context
    for out in (
        attend(query, keys, values, score=score, impl="reference"),
        attend(query, keys, values, score=score, impl="sdpa", need_weights=False),
    ):
        assert out.context.dtype == dtype
        assert_close(out.context.double(), exact, atol=0.02, rtol=0.02)


def test_a_trace_changes_nothing_under_autocast() -> None:
    layer = MultiHead(64, num_heads=4)
    torch.nn.init.normal_(layer.to_query.weight)
    torch.nn.init.normal_(layer.to_keys.weight)
    x = torch.randn(2, 9, 64)
    with torch.autocast("cpu", torch.bfloat16):
        plain = layer(x).context
        with trace():
            seen = layer(x).context
    assert (plain - seen).abs().max() <= 0.02 * plain.abs().max()


def test_mixed_dtypes_on_both_paths() -> None:
    query, keys, values = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 6, dtype=torch.bfloat16)
    plain, kernel = (attend(query, keys, values, impl=impl).context for impl in ("reference", "sdpa"))
    assert plain.dtype == kernel.dtype == torch.bfloat16
    assert_close(plain, kernel, atol=0.02, rtol=0.02)
