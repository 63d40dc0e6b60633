"""Attention over a band of keys against float64: on a GPU, or anywhere with TRITON_INTERPRET=1."""

from typing import Any

import pytest
import torch
from cases import DEVICE, INTERPRETED, ROUNDING, near
from torch import Tensor
from torch.testing import assert_close

from regard import trace
from regard.align import Softmax, Sparsemax
from regard.attention import Band, Local1D, LocalSelfAttention, Mask, MultiHead, Relative, attend
from regard.base import ConfigError, ImplementationUnavailable, ShapeError
from regard.kernels import band_tiles
from regard.kernels.banded import fused_banded
from regard.kernels.derivatives import by_key, visible_band
from regard.models import TransformerXL, TransformerXLConfig
from regard.score import Additive

pytestmark = [
    pytest.mark.filterwarnings("ignore:.* encountered in :RuntimeWarning"),  # numpy, of what is masked after
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS:UserWarning"),
]
NAMES = ("context", "query", "keys", "values", "bias")
SEEDS, SLOW = range(24), range(4, 24)
SMALL = band_tiles.Tile(16, 32, 4, 1)


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles for few rows, so that the interpreter has little to do; a GPU has the tiles of its table."""
    if INTERPRETED:
        monkeypatch.setattr(band_tiles, "TILES", dict.fromkeys(band_tiles.TILES, (SMALL, SMALL)))


def reference(tensors: list[Tensor], grad: Tensor, options: dict[str, Any], kept: Tensor | float = 1.0) -> list[Tensor]:
    """Context and gradients from the matrix of all pairs, in the type of `tensors`; `kept` multiplies the weights."""
    leaves = [x.detach().requires_grad_() for x in tensors]
    query, keys, values = leaves[:3]
    seen = visible(leaves, options)
    scores = query @ keys.mT * options.get("scale", 1.0)
    if len(leaves) > 3:
        scores = scores + by_key(leaves[3], keys.shape[-2]) * options.get("bias_scale", 1.0)
    weights = scores.masked_fill(~seen, -1e30 if scores.dtype != torch.float16 else -6e4).softmax(-1)
    context = (weights.masked_fill(~seen, 0.0) * kept).to(values.dtype) @ values
    return [context, *torch.autograd.grad(context, leaves, grad.to(context.dtype))]


def banded(tensors: list[Tensor], grad: Tensor, options: dict[str, Any]) -> list[Tensor]:
    leaves = [x.detach().requires_grad_() for x in tensors]
    context, log_sum = fused_banded(*leaves[:3], by_distance=leaves[3] if len(leaves) > 3 else None, **options)
    assert context.dtype == tensors[2].dtype
    assert not log_sum.requires_grad
    return [context, *torch.autograd.grad(context, leaves, grad)]


def check(tensors: list[Tensor], **options: Any) -> list[Tensor]:
    """Results, held to float64 and to plain PyTorch in the same type."""
    dtype = tensors[2].dtype
    grad = torch.randn(*tensors[0].shape[:-1], tensors[2].shape[-1], device=DEVICE).to(dtype)
    exact, eager = reference([x.double() for x in tensors], grad, options), reference(tensors, grad, options)
    results = banded(tensors, grad, options)
    for name, mine, *others in zip(NAMES, results, eager, exact, strict=False):
        near(name, mine, *others, ROUNDING[dtype])
    seen = visible(tensors, options).expand(*grad.shape[:-1], -1)
    for result, unseen in zip(results, (~seen.any(-1), ~seen.any(-1), ~seen.any(-2), ~seen.any(-2)), strict=False):
        assert not result[unseen].any()
    if len(tensors) > 3:
        bias = tensors[3].float().requires_grad_()
        [uses] = torch.autograd.grad((by_key(bias, seen.shape[-1]) * seen).sum(), bias)
        assert not results[4][uses == 0].any()
    return results


def visible(tensors: list[Tensor], options: dict[str, Any]) -> Tensor:
    band = {"before": None, "after": None, "block": 1, "starts": None, "lengths": None}
    band |= {name: value for name, value in options.items() if name in band}
    return visible_band(tensors[0].shape[-2], tensors[1].shape[-2], **band, device=DEVICE)


def sides(
    batch: int, heads: int, q: int, k: int, features: int, depth: int, *, width: int | None = None,
    dtype: torch.dtype = torch.float32, scale: float = 1.0,
) -> list[Tensor]:  # fmt: skip
    """Query, keys, values, and a bias of `width` distances, as views in which the heads of a row lie side by side."""
    shapes = [(batch, q, heads, features), (batch, k, heads, features), (batch, k, heads, depth)]
    tensors = [scale * torch.randn(shape, device=DEVICE).transpose(1, 2) for shape in shapes]
    if width is not None:
        tensors.append(torch.randn(heads, batch, q, width, device=DEVICE).transpose(0, 1))
    return [x.to(dtype) for x in tensors]


CASES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "one query and one key": ((1, 1, 1, 1, 16, 16), {"after": 0, "width": 1}),
    "one query": ((1, 1, 1, 40, 20, 16), {"before": 30, "after": 0, "width": 40}),
    "one key": ((1, 1, 9, 1, 16, 5), {"after": 0, "before": 3, "width": 9}),
    "heads, a narrow band": ((1, 2, 20, 36, 16, 16), {"before": 2, "after": 1, "width": 55}),
    "blocks that do not divide": ((1, 1, 40, 40, 16, 16), {"before": 9, "after": 0, "block": 12}),
    "more queries than keys": ((1, 1, 20, 6, 16, 16), {"before": 1, "after": 0, "block": 4, "width": 25}),
    "later keys": ((1, 1, 18, 33, 16, 16), {"width": 50}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("small_tiles")
def test_cases(name: str) -> None:
    sizes, options = CASES[name]
    torch.manual_seed(0)
    check(sides(*sizes, width=options.get("width")), **{k: v for k, v in options.items() if k != "width"}, scale=0.3)


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.slow] * (seed in SLOW)) for seed in SEEDS])
@pytest.mark.usefixtures("small_tiles")
def test_random_shapes(seed: int) -> None:
    """Odd lengths, several tiles, ragged last ones, all types, bounds of each item and another memory layout."""
    chance = torch.Generator().manual_seed(seed)

    def number(least: int, most: int) -> int:
        return int(torch.randint(least, most + 1, (), generator=chance))

    torch.manual_seed(seed)
    longest = 36 if INTERPRETED else 400
    batch, heads, k, features, depth = number(1, 2), number(1, 2), number(1, 2 * longest), number(1, 128), number(1, 70)
    if INTERPRETED and seed not in SLOW:
        batch, heads = 1, 1
    q = k - number(0, k - 1) if number(0, 3) else number(1, longest)
    q = min(q, longest)
    before, after = (None if number(0, 2) == 0 else number(0, longest) for _ in range(2))
    after = 0 if number(0, 1) else after
    block = number(1, longest) if number(0, 1) else 1
    width = None if number(0, 2) == 0 else k if after == 0 and q <= k else q + k - 1
    dtype = [torch.float32, torch.bfloat16, torch.float16][number(0, 2)]
    options: dict[str, Any] = {"before": before, "after": after, "block": block, "scale": 0.5, "bias_scale": 0.7}
    for name in ("starts", "lengths"):
        if number(0, 1):
            options[name] = torch.randint(0, k + 1, (batch, heads), generator=chance).to(DEVICE)
    tensors = sides(batch, heads, q, k, features, depth, width=width, dtype=dtype, scale=features**-0.5)
    if number(0, 1):
        tensors[1], tensors[2] = tensors[1].mT.contiguous().mT, tensors[2].flip(-1)[..., ::1]
    check(tensors, **options)


@pytest.mark.usefixtures("small_tiles")
def test_rows_that_see_no_key_and_keys_that_nobody_sees() -> None:
    torch.manual_seed(1)
    starts = torch.tensor([[3, 33]], device=DEVICE)
    context, *_ = check(sides(1, 2, 20, 33, 8, 8, width=33), before=4, after=0, starts=starts)
    assert context[0, 0].any()
    assert not context[0, 1].any()  # all keys are room that nothing was written to


def test_large_scores() -> None:
    torch.manual_seed(2)
    tensors = sides(1, 1, 12, 20, 16, 16, width=20, scale=30.0)
    results = banded(tensors, torch.ones(1, 1, 12, 16, device=DEVICE), {"after": 0})
    exact = reference([x.double() for x in tensors], torch.ones(1, 1, 12, 16, device=DEVICE), {"after": 0})
    assert_close(results[0].double(), exact[0], rtol=1e-3, atol=1e-3)
    tensors[3][0, 0, 5] = -torch.inf  # the whole row counts as masked
    context, *gradients = banded(tensors, torch.ones(1, 1, 12, 16, device=DEVICE), {"after": 0})
    assert not context[0, 0, 5].any()
    assert not gradients[0][0, 0, 5].any()
    assert all(x.isfinite().all() for x in (context, *gradients))


@pytest.mark.usefixtures("small_tiles")
def test_dropout_is_the_same_in_both_passes() -> None:
    torch.manual_seed(3)
    share, seed = 0.4, torch.tensor([11], device=DEVICE)
    query, keys, values, bias = sides(1, 2, 16, 40, 16, 16, width=40)
    options = {"after": 0, "scale": 0.3}
    one_hot = torch.eye(40, device=DEVICE).expand(1, 2, -1, -1)
    weights, _ = fused_banded(query, keys, one_hot, by_distance=bias, **options)
    shown, _ = fused_banded(query, keys, one_hot, by_distance=bias, **options, dropout=share, seed=seed)
    kept = torch.where(weights > 0, shown / weights, 0.0)  # 0, or 1 / (1 − p)
    assert set((kept * (1 - share)).round(decimals=4).unique().tolist()) == {0.0, 1.0}
    assert 0.54 < (kept[weights > 0] > 0).float().mean() < 0.66  # four standard deviations of 1,040 draws
    assert not torch.equal(kept[0, 0], kept[0, 1])  # heads have noise of their own
    tensors, grad = [query, keys, values, bias], torch.randn(1, 2, 16, 16, device=DEVICE)
    exact = reference([x.double() for x in tensors], grad, options, kept.double())
    for mine, right in zip(banded(tensors, grad, {**options, "dropout": share, "seed": seed}), exact, strict=True):
        assert_close(mine.double(), right, rtol=1e-4, atol=1e-4)
    nothing, _ = fused_banded(query[:, :1], keys[:, :1], values[:, :1], dropout=1.0)
    assert not nothing.any()


def test_a_second_derivative_is_that_of_plain_operations() -> None:
    torch.manual_seed(4)
    tensors = [x.requires_grad_() for x in sides(1, 1, 3, 5, 4, 4, width=5)]
    doubles = [x.detach().double().requires_grad_() for x in tensors]
    context, _ = fused_banded(*tensors[:3], by_distance=tensors[3], before=2, after=0)
    first = torch.autograd.grad(context.square().sum(), tensors, create_graph=True)
    second = torch.autograd.grad(sum(x.square().sum() for x in first), tensors)
    scores = doubles[0] @ doubles[1].mT + by_key(doubles[3], 5)
    scores = scores.masked_fill(~visible_band(3, 5, 2, 0, 1, device=DEVICE), -1e30)
    exact = torch.autograd.grad((scores.softmax(-1) @ doubles[2]).square().sum(), doubles, create_graph=True)
    expected = torch.autograd.grad(sum(x.square().sum() for x in exact), doubles)
    for mine, right in zip((*first, *second), (*exact, *expected), strict=True):
        assert_close(mine.double(), right, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_the_operation_is_known_to_torch() -> None:
    query, keys, values = (x.requires_grad_() for x in sides(1, 1, 2, 3, 4, 4))
    arguments = query, keys, values, None, None, None, None, None, 0, 1, 0.5, 1.0, 0.0
    torch.library.opcheck(torch.ops.regard.banded_forward, arguments)


@pytest.mark.skipif(INTERPRETED, reason="only a GPU captures graphs")
def test_a_captured_pass_draws_new_noise_each_time() -> None:
    torch.manual_seed(10)
    tensors = [x.requires_grad_() for x in sides(2, 2, 70, 130, 64, 64, width=130, dtype=torch.bfloat16)]

    def run() -> list[Tensor]:
        context, _ = fused_banded(*tensors[:3], by_distance=tensors[3], after=0, dropout=0.3)
        return [context, *torch.autograd.grad(context.float().square().sum(), tensors)]

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = run()
    contexts = []
    for _ in range(2):
        graph.replay()
        contexts.append(results[0].clone())
        assert all(x.isfinite().all() and x.any() for x in results)
    assert not torch.equal(*contexts)


# ── behind attention ────────────────────────────────────────────────────────────────────────────────────────────────


def results_of(module: torch.nn.Module, output: Tensor) -> list[Tensor]:
    parameters = [x for x in module.parameters() if x.requires_grad]
    gradients = torch.autograd.grad(output.square().sum(), parameters, allow_unused=True)
    return [output.detach(), *(x for x in gradients if x is not None)]


def test_transformer_xl_gives_what_the_reference_gives() -> None:
    torch.manual_seed(5)
    config = TransformerXLConfig(12, dim=12, num_heads=1, hidden_dim=8, layers=2, memory=5, dropout=0.0, init_std=0.3)
    model = TransformerXL(config).to(DEVICE)
    for name, parameter in model.named_parameters():
        if name.endswith((".content", ".place")):
            torch.nn.init.normal_(parameter)
    tokens = torch.randint(4, 12, (2, 7), device=DEVICE)
    runs = []
    for impl in ("banded", "reference"):
        for layer in model.layers:
            layer.inner.attention.impl = impl
        with torch.no_grad():
            state = model(tokens[:1, :3], model.initial_state(1)).state
        both = type(state)(*(torch.cat([x, torch.zeros_like(x)]) for x in state))  # one memory holds three, one nothing
        runs.append(results_of(model, model(tokens, both).logits))
    for mine, right in zip(*runs, strict=True):
        assert_close(mine, right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("causal", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_layer_with_relative_positions_and_its_trace(causal: bool) -> None:
    torch.manual_seed(6)
    mask = Mask.window(4, 0) if causal else Mask.padding([6, 4])
    layers = [
        MultiHead(8, num_heads=2, num_key_heads=1, position=Relative(2, 4, causal=causal), impl=impl).to(DEVICE)
        for impl in ("banded", "reference")
    ]
    layers[1].load_state_dict(layers[0].state_dict())
    x, runs, seen = torch.randn(1 if causal else 2, 6, 8, device=DEVICE), [], []
    for layer in layers:
        runs.append(results_of(layer, layer(x, mask=mask).context))
        with torch.no_grad(), trace(layer, rows=[1, 5], heads=[1]) as weights:
            layer(x, mask=mask)
        seen.append(torch.from_numpy(weights[0].weights))
    for mine, right in zip(*runs, strict=True):
        assert_close(mine, right, rtol=1e-4, atol=1e-4)  # that of keys' biases is 0, but for rounding
    assert_close(*seen, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_compiled_layer_gives_the_same() -> None:
    torch.manual_seed(11)
    layer = MultiHead(8, num_heads=1, position=Relative(1, 8, causal=True), impl="banded").to(DEVICE)
    x, runs = torch.randn(1, 5, 8, device=DEVICE), []
    for call in (layer, torch.compile(layer, backend="aot_eager", fullgraph=True)):
        runs.append(results_of(layer, call(x, mask=Mask.causal()).context))
    for mine, right in zip(*runs, strict=True):
        assert_close(mine, right, rtol=1e-5, atol=1e-5)


def test_local_blocks_are_one_band() -> None:
    torch.manual_seed(7)
    layer = LocalSelfAttention(8, num_heads=2, local=Local1D(5, 3)).to(DEVICE)
    x, runs = torch.randn(1, 17, 8, device=DEVICE), []
    for impl, by_mask in (("banded", False), ("auto", True), ("sdpa", False)):
        layer.inner.attention.impl, layer.by_mask = impl, by_mask
        runs.append(results_of(layer, layer(x)))
    for mine in runs[1:]:
        for left, right in zip(mine, runs[0], strict=True):
            assert_close(left, right, rtol=1e-4, atol=1e-5)


def test_temperature_leading_axes_and_one_query_side_for_all() -> None:
    torch.manual_seed(8)
    shapes = (2, 1, 4, 6), (1, 1, 5, 6), (1, 5, 3)
    results = []
    for impl in ("banded", "reference"):
        torch.manual_seed(9)
        tensors = [torch.randn(shape, device=DEVICE).requires_grad_() for shape in shapes]
        out = attend(*tensors, align=Softmax(0.5), mask=Band(before=1, after=1), impl=impl, need_weights=False)
        results.append([out.context, *torch.autograd.grad(out.context.square().sum(), tensors)])
    for mine, right in zip(*results, strict=True):
        assert_close(mine, right, rtol=1e-4, atol=1e-5)


def test_what_the_kernel_does_not_do() -> None:
    x = torch.randn(1, 4, 3, device=DEVICE)
    for message, call in {
        r"score=Additive is not a dot product": {"score": Additive(3, 3, 2).to(DEVICE)},
        r"align=Sparsemax is not Softmax": {"align": Sparsemax()},
        r"takes no bias but that of Relative": {"bias": torch.zeros((), device=DEVICE)},
        r"the mask is not a band of keys": {"mask": Mask.of(torch.ones(4, 4, dtype=torch.bool, device=DEVICE))},
    }.items():
        with pytest.raises(ImplementationUnavailable, match=message):
            attend(x, x, x, impl="banded", need_weights=False, **call)
    layer = MultiHead(8, num_heads=2, position=Relative(2, 4, causal=True), impl="banded").to(DEVICE)
    with pytest.raises(ImplementationUnavailable, match="the mask shows later keys, whose bias was not computed"):
        layer(torch.randn(1, 4, 8, device=DEVICE))
    with pytest.raises(ImplementationUnavailable, match=r"values are torch\.float64"):
        attend(x.double(), x.double(), x.double(), impl="banded")
    wide = torch.randn(1, 2, 129, device=DEVICE)
    with pytest.raises(ImplementationUnavailable, match="the query is 129 wide, more than 128"):
        attend(wide, wide, wide, impl="banded")
    four = x.unsqueeze(0)
    with pytest.raises(ShapeError, match="columns of the bias by distance"):
        fused_banded(four, four, four, by_distance=torch.zeros(1, 1, 4, 4, device=DEVICE))
    with pytest.raises(ConfigError, match="the band of keys"):
        fused_banded(four, four, four, before=-1)
    with pytest.raises(ImplementationUnavailable, match="transform of torch"):
        torch.func.grad(lambda y: fused_banded(y, y, y)[0].sum())(four)
