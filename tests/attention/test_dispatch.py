"""Which implementation runs, and the reasons against a faster one."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from regard.align import Entmax, Softmax
from regard.attention import IMPLEMENTATIONS, Attention, MultiHead, attend, dispatch, reasons_against_sdpa, trace
from regard.base import ConfigError, ImplementationUnavailable, RegardError
from regard.score import Additive, Cosine, Dot, General, ScaledDot

WEIGHTS = "weights were asked for (by need_weights=True or a trace), and this kernel has none"
SCORE = "score=Additive is not a dot product of transformed queries and keys"
ALIGN = "align=Entmax is not Softmax"


class Sharper(Softmax):
    pass


@pytest.mark.parametrize("score", [Dot(), ScaledDot(), General(2, 3), Cosine()], ids=lambda s: type(s).__name__)
def test_nothing_against_products(score: torch.nn.Module) -> None:
    assert reasons_against_sdpa(score, Softmax(0.5), need_weights=False) == []


def test_every_reason_at_once() -> None:
    additive = Additive(2, 2, 2)
    assert reasons_against_sdpa(additive, Entmax(), need_weights=True) == [SCORE, ALIGN, WEIGHTS]
    assert reasons_against_sdpa(additive, Softmax(), need_weights=False) == [SCORE]
    assert reasons_against_sdpa(Dot(), Entmax(), need_weights=False) == [ALIGN]
    assert reasons_against_sdpa(Dot(), Softmax(), need_weights=True) == [WEIGHTS]


def test_callables_and_subclasses_are_named() -> None:
    def mine(first: Tensor, second: Tensor) -> Tensor:
        return first

    score, align = reasons_against_sdpa(mine, mine, need_weights=False)
    assert "score=mine is" in score
    assert "align=mine is" in align
    assert reasons_against_sdpa(Dot(), Sharper(), need_weights=False) == ["align=Sharper is not Softmax"]


def test_an_explicit_wish_is_refused_with_every_reason() -> None:
    query = torch.randn(1, 2, 4)
    layer = Attention(Additive(4, 4, 3), Entmax(), impl="sdpa")
    with pytest.raises(ImplementationUnavailable) as caught:
        layer(query, query, query)
    assert str(caught.value) == (
        f"impl='sdpa' cannot run here: {SCORE}; {ALIGN}; {WEIGHTS}. Cure: use impl='auto' or impl='reference'."
    )
    assert isinstance(caught.value, RegardError)
    with pytest.raises(ImplementationUnavailable, match="weights were asked for"):
        attend(query, query, query, impl="sdpa")


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_known_names(impl: str) -> None:
    assert dispatch.check_impl(impl) == impl
    expected = "reference" if impl == "reference" else "sdpa"
    assert dispatch.choose(impl, Dot(), Softmax(), need_weights=False) == expected


@pytest.mark.parametrize("impl", ["", "flash", "SDPA"])
def test_unknown_names(impl: str) -> None:
    query = torch.randn(1, 2, 4)
    with pytest.raises(ConfigError, match="expected one of auto, reference, sdpa"):
        attend(query, query, query, impl=impl)


@pytest.mark.parametrize("score", [Additive(4, 4, 3), lambda query, keys: query @ keys.mT], ids=["additive", "lambda"])
def test_auto_never_refuses(score: object) -> None:
    assert dispatch.choose("auto", score, Softmax(), need_weights=False) == "reference"
    assert dispatch.choose("auto", Dot(), Sharper(), need_weights=False) == "reference"
    assert dispatch.choose("auto", Dot(), Softmax(), need_weights=True) == "reference"


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
    assert dispatch.broadcast(a, a) == (2, 1)
    assert dispatch.broadcast(a, b, c) == (2, 5)
    assert dispatch.broadcast(c, c) == ()


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
    plain, fused = (attend(query, keys, values, need_weights=weights).context for weights in (True, False))
    assert plain.dtype == fused.dtype == torch.bfloat16
    assert_close(plain, fused, atol=0.02, rtol=0.02)
