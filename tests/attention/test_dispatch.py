"""Which implementation runs, and the reasons against a faster one."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from regard.align import Entmax, Softmax, Sparsemax
from regard.attention import (
    IMPLEMENTATIONS,
    Attention,
    Call,
    Local1D,
    Mask,
    MultiHead,
    attend,
    dispatch,
    fused,
    reasons_against,
    trace,
)
from regard.base import ConfigError, ImplementationUnavailable, RegardError
from regard.kernels import limits
from regard.score import Additive, Concat, Cosine, Dot, General, GraphAdditive, Projected, ScaledDot

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
        f"impl='sdpa' cannot run here: {DOT}; {ALIGN}. Try: use impl='auto' or impl='reference'."
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
    assert dispatch.choose("auto", Dot(), Softmax(), HERE, gradient=True) == "reference"


def test_a_few_pairs_are_not_worth_blocks() -> None:
    score, few, many = Additive(4, 4, 128), torch.randn(2, 1, 4), torch.randn(2, 600, 4)
    for states, expected in ((few, "reference"), (many, "blocked")):
        call = Call("cpu", states, states)
        for gradient in (False, True):  # through weights, which come from the same pass
            assert dispatch.choose("auto", score, Softmax(), call, gradient=gradient) == expected


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


HALF = torch.bfloat16


@pytest.mark.parametrize("score", [Dot(), ScaledDot(), Cosine(3.0)], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("wide", ["bias", "values", "keys", "bias of float64"])
def test_nothing_is_rounded_to_the_type_of_the_query(score: Dot, wide: str, autocast: bool) -> None:
    """A float32 bias, float32 values or keys beside a query in half precision: as exact as the reference."""
    torch.manual_seed(2)
    query, keys, values = torch.randn(2, 20, 16).to(HALF), torch.randn(2, 30, 16), torch.randn(2, 30, 8)
    bias = 50 * torch.randn(20, 30) if "bias" in wide else None
    bias = bias.double() if bias is not None and "64" in wide else bias
    keys, values = keys if wide == "keys" else keys.to(HALF), values if wide == "values" else values.to(HALF)
    given = query, keys, values
    exact = attend(
        *(x.double() for x in given), score=score, bias=None if bias is None else bias.double(), impl="reference"
    )
    with torch.autocast("cpu", HALF, enabled=autocast):
        fused = attend(*given, score=score, bias=bias, need_weights=False)
    plain = attend(*given, score=score, bias=bias, impl="reference")
    off, allowed = ((out.context.double() - exact.context).abs().max().item() for out in (fused, plain))
    assert fused.context.dtype == values.dtype
    assert off <= 2 * allowed + 1e-6, f"{off:.1e}, the reference {allowed:.1e}"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_a_temperature_does_not_round_a_bias(dtype: torch.dtype) -> None:
    torch.manual_seed(2)
    given = [torch.randn(2, 20, 16).to(dtype), torch.randn(2, 30, 16).to(dtype), torch.randn(2, 30, 8).to(dtype)]
    bias, align = (60 + torch.randn(30)).to(dtype), Softmax(0.7)
    exact = attend(*(x.double() for x in given), align=align, bias=bias.double(), impl="reference").context
    outs = (attend(*given, align=align, bias=bias, impl=impl, need_weights=False) for impl in ("sdpa", "reference"))
    off, allowed = ((out.context.double() - exact).norm().item() for out in outs)
    assert off <= 2 * allowed, f"{off:.1e}, the reference {allowed:.1e}"


def test_weights_beside_a_fused_pass_keep_wider_keys() -> None:
    torch.manual_seed(2)
    query, keys = torch.randn(1, 9, 16).to(HALF), 3 * torch.randn(1, 12, 16)
    exact = attend(query.double(), keys.double(), keys.double(), impl="reference").weights
    plain = attend(query, keys, keys, impl="reference").weights
    fused = attend(query, keys, keys, impl="sdpa").weights
    assert (fused.double() - exact).abs().max() <= 2 * (plain.double() - exact).abs().max()


def test_a_temperature_does_not_round_v() -> None:
    """v / T in bfloat16 would be another v."""
    torch.manual_seed(2)
    score = Additive(8, 8, 16).to(HALF)
    score.v.data *= 8
    given = [torch.randn(2, n, 8).to(HALF) for n in (20, 30, 30)]
    exact = attend(
        *(x.double() for x in given), score=_double(score), align=Softmax(0.7), need_weights=False, impl="reference"
    )
    cold, ways = Softmax(0.7), ("blocked", "reference")
    found, plain = (attend(*given, score=score, align=cold, need_weights=False, impl=impl).context for impl in ways)
    off, allowed = ((x.double() - exact.context).abs().mean() for x in (found, plain))
    assert off <= 1.2 * allowed


def _double(score: Additive) -> Additive:
    twin = Additive(8, 8, 16).double()
    twin.load_state_dict(score.state_dict())
    return twin


def test_auto_takes_the_reference_where_a_transform_is_active() -> None:
    big = Call("cpu", torch.empty(64, 64, 4, device="meta"), torch.empty(64, 64, 4, device="meta"))
    score, seen = Additive(4, 4, 256), []

    def look(x: Tensor) -> Tensor:
        seen.append([dispatch.choose("auto", each, Softmax(), big, gradient=False) for each in (score, Dot())])
        return x

    look(torch.zeros(1))
    torch.func.vmap(look)(torch.zeros(1))
    torch.func.jvp(look, (torch.zeros(1),), (torch.zeros(1),))
    assert seen == [["blocked", "sdpa"], ["reference", "reference"], ["reference", "reference"]]
    with pytest.raises(ImplementationUnavailable, match=r"impl='sdpa' cannot run here: a transform of torch.func"):
        torch.func.vmap(lambda x: dispatch.choose("sdpa", Dot(), Softmax(), big, gradient=False) and x)(torch.zeros(1))


def test_no_width_has_equal_weights() -> None:
    """A product of nothing is 0, so all keys weigh the same."""
    query, keys, values = torch.randn(2, 3, 0), torch.randn(2, 5, 0), torch.randn(2, 5, 4)
    for score in (Dot(), ScaledDot(), Cosine(2.0)):
        for need_weights in (True, False):
            out = attend(query, keys, values, score=score, need_weights=need_weights)
            assert_close(out.context, values.mean(1, keepdim=True).expand(2, 3, 4))
        with pytest.raises(ImplementationUnavailable, match="the query has no width"):
            attend(query, keys, values, score=score, impl="sdpa")


@pytest.mark.parametrize("impl", ["auto", "sdpa", "blocked"])
@pytest.mark.parametrize("shape", [(0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 4, 0)])
def test_nothing_is_asked_of_a_kernel_for_an_empty_result(shape: tuple[int, ...], impl: str) -> None:
    batch, queries, keys, width = shape
    score = Additive(6, 6, 4) if impl == "blocked" else Dot()
    given = torch.randn(batch, queries, 6), torch.randn(batch, keys, 6), torch.randn(batch, keys, width)
    out = attend(*given, score=score, need_weights=False, impl=impl)
    assert out.context.shape == (batch, queries, width)


def test_over_edges_the_kernel_is_for_halves_on_a_gpu() -> None:
    """Asked without a GPU: what would be chosen there is told by the reasons against it."""
    values = torch.zeros(2, 3)
    on_gpu, here = dispatch.Call("cuda", values, values), dispatch.Call("cpu", values, values)
    halves = GraphAdditive(3)
    assert dispatch.choose_over_edges("auto", halves, Softmax(), here, gradient=False) == "reference"
    assert dispatch.choose_over_edges("auto", halves, Softmax(), on_gpu, gradient=True) == "reference"
    assert dispatch.choose_over_edges("reference", halves, Softmax(), on_gpu, gradient=False) == "reference"
    against = dispatch.reasons_against_fused_edges(ScaledDot(), Sparsemax(), on_gpu._replace(bias=True))
    assert "score=ScaledDot is not a LeakyReLU of two halves" in against
    assert "align=Sparsemax is not Softmax, or has a temperature" in against
    assert "the kernel over edges takes no bias" in against
    without = [
        reason for reason in dispatch.reasons_against_fused_edges(halves, Softmax(), on_gpu) if "triton" not in reason
    ]
    assert without == []
    with pytest.raises(ConfigError, match=r"impl over edges: got 'sdpa'; expected one of auto, reference, triton"):
        dispatch.choose_over_edges("sdpa", halves, Softmax(), here, gradient=False)
    with pytest.raises(ImplementationUnavailable, match=r"cannot run over edges here: .*device is cpu, not cuda"):
        dispatch.choose_over_edges("triton", halves, Softmax(), here, gradient=False)


def test_a_band_on_a_gpu_has_a_kernel_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It fits these calls and refuses the others."""
    monkeypatch.setattr(limits, "HAS_TRITON", True)
    states, by_distance = torch.empty(2, 4, 8), torch.empty(2, 4, 4)
    call = Call("cuda", states, states, keys=states)
    dense = Mask.of(torch.ones(4, 4, dtype=torch.bool))
    for changes, fits in (
        ({"mask": Mask.causal()}, True),
        ({"mask": Mask.window(2)}, True),
        ({"mask": Mask.window(2) & Mask.padding([1, 2])}, True),
        ({"mask": Local1D(2, 2).mask()}, True),
        ({"mask": Mask.causal(), "by_distance": by_distance}, True),
        ({"by_distance": by_distance}, False),  # it has no columns for later keys
        ({"mask": dense, "by_distance": by_distance}, False),
        ({"mask": Mask.window(2), "bias": True}, False),
        ({"mask": Mask.window(2), "device": "cpu"}, False),
        ({"mask": Mask.window(2), "query": torch.empty(2, 4, 200)}, False),
        ({"mask": Mask.window(2), "values": states.double()}, False),
    ):
        changed = call._replace(**changes)
        assert (not reasons_against("banded", ScaledDot(), Softmax(), changed)) == fits, changes
        assert dispatch.choose("auto", ScaledDot(), Softmax(), changed, gradient=True) == "reference"


def test_auto_takes_the_kernel_over_a_band_where_it_is_quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HAS_TRITON", True)
    states, far = torch.empty(2, 4, 8, dtype=torch.bfloat16), torch.empty(2, 24, 8, dtype=torch.bfloat16)
    call, many = Call("cuda", states, states, keys=states), Call("cuda", far, far, keys=far)
    by_distance, window = torch.empty(2, 4, 4), Mask.window(2, 0)
    dense = Mask.of(torch.ones(4, 4, dtype=torch.bool))
    for each, expected in (
        (call._replace(mask=Mask.causal(), by_distance=by_distance), "banded"),
        (call._replace(mask=dense, by_distance=by_distance), "sdpa"),
        (call._replace(mask=Mask.causal()), "sdpa"),
        (call._replace(mask=window), "sdpa"),  # three of four keys are seen
        (many._replace(mask=window), "banded"),
        (many._replace(mask=Local1D(2, 2).mask()), "banded"),
        (many._replace(mask=Mask.causal()), "sdpa"),
        (many._replace(mask=window, bias=True), "sdpa"),
        (many._replace(mask=window, device="cpu"), "sdpa"),
        (many._replace(mask=window, query=far.float()), "sdpa"),  # in full float32 it was not timed
    ):
        assert dispatch.choose("auto", ScaledDot(), Softmax(), each, gradient=False) == expected, each
    wide = many._replace(mask=window, query=far.float(), values=far.float(), keys=far.float())
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        assert dispatch.choose("auto", ScaledDot(), Softmax(), wide, gradient=False) == "banded"
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def test_a_band_is_refused_with_every_reason() -> None:
    dense = Mask.of(torch.ones(4, 4, dtype=torch.bool))
    reasons = reasons_against("banded", Additive(2, 2, 2), Entmax(), Call("meta", bias=True, mask=dense))
    assert reasons[:2] == [DOT, ALIGN]
    assert reasons[-2:] == [
        "the kernel over a band takes no bias but that of Relative",
        "the mask is not a band of keys",
    ]
    later = Call("meta", torch.empty(4, 2), torch.empty(4, 2), by_distance=torch.empty(4, 4))
    assert reasons_against("banded", Dot(), Softmax(), later)[-1] == (
        "the mask shows later keys, whose bias was not computed"
    )
