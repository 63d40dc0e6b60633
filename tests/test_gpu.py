"""On a GPU: the same promises, with the kernels that torch chooses there."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from examples_of import aligns, scores
from torch import Tensor

from regard import Attention, Mask, MultiHead, api, attend, trace
from regard.align import Align, Entmax, Hard, Identity, Normalize, Share, Softmax, Sparsemax, TopK
from regard.attention import ALiBi, Cache, EdgeAttention, Local, Local1D, Local2D, Relative, Rotary
from regard.recipes import RECIPES
from regard.score import Cosine, Dot, Edges, General, GraphAdditive, ScaledDot, Score
from regard.train import Train, World

pytestmark = [pytest.mark.gpu, pytest.mark.bare]

SCORES = [make() for make in scores(16).values()] + [GraphAdditive(16, num_heads=4)]
ALIGNS = [make() for make in aligns(16).values()] + [Entmax(1.3, learned=True), Hard("sample"), Hard("gumbel")]
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def describe(part: object) -> str:
    return str(part).partition("\n")[0]


def heads(dtype: torch.dtype, length: int = 24) -> list[Tensor]:
    return [torch.randn(2, 4, length, 16, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("align", ALIGNS, ids=describe)
@pytest.mark.parametrize("score", SCORES, ids=describe)
def test_empty_rows_are_zero(score: Score, align: Align, dtype: torch.dtype) -> None:
    layer = Attention(score, align).to("cuda", dtype)
    query, keys, values = heads(dtype)
    out = layer(query, keys, values, mask=Mask.padding([0, 20]))
    assert torch.isfinite(out.weights).all()
    assert (out.weights >= 0).all() or isinstance(align, Share | Identity)
    assert (out.weights[0] == 0).all()
    assert (out.weights[1, ..., 20:] == 0).all()
    (out.context.float().square().sum() + out.weights.float().square().sum()).backward()
    for tensor in (query, keys, values):
        assert tensor.grad is None or torch.isfinite(tensor.grad).all()
        assert tensor.grad is None or (tensor.grad[0] == 0).all()
    score.to("cpu", torch.float32)
    align.to("cpu", torch.float32)


@pytest.mark.parametrize(
    "align", [align for align in ALIGNS if align.has_edge_form and type(align) is not Hard], ids=describe
)
@pytest.mark.parametrize("score", [score for score in SCORES if score.has_edge_form], ids=describe)
def test_edges_equal_the_dense_form(score: Score, align: Align) -> None:
    """Context, weights and gradients in float64, on a random graph with queries that have no edge."""
    dense, sparse = (kind(score, align).to("cuda", torch.float64) for kind in (Attention, EdgeAttention))
    mask = (torch.rand(24, 24, device="cuda") < 0.3) & (torch.arange(24, device="cuda") % 5 > 0).unsqueeze(1)
    edges, bias = Edges.from_mask(mask), torch.rand(24, 24, device="cuda", dtype=torch.float64)  # no two scores equal
    edges = Edges.of(edges.pairs[:, torch.randperm(len(edges), device="cuda")], 24)
    inputs = heads(torch.float64)
    exact = dense(*inputs, mask=mask, bias=bias)
    out = sparse(*inputs, edges, bias=bias[edges.targets, edges.sources])
    torch.testing.assert_close(out.context, exact.context, atol=1e-10, rtol=1e-10)
    torch.testing.assert_close(out.weights, exact.weights[..., edges.targets, edges.sources], atol=1e-10, rtol=1e-10)
    grad = torch.randn_like(out.context)
    variables = [*inputs, *score.parameters(), *align.parameters()]
    ours = torch.autograd.grad(out.context, variables, grad, allow_unused=True)
    theirs = torch.autograd.grad(exact.context, variables, grad, allow_unused=True)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-8, rtol=1e-8)
    score.to("cpu", torch.float32)
    align.to("cpu", torch.float32)


@pytest.mark.parametrize("align", [Softmax(), Sparsemax(), Entmax(1.5), Normalize(), Share(), TopK(2)], ids=describe)
def test_edges_are_repeatable_to_the_last_bit(align: Align) -> None:
    """Few queries and keys with many edges each: without the deterministic mode atomic sums differ from run to run."""
    torch.use_deterministic_algorithms(True)
    try:
        edges = Edges.from_mask(torch.rand(40, 5000, device="cuda") < 0.5)
        layer = EdgeAttention(Dot(), align)  # no matrix product, which would want a setting of cuBLAS
        query, keys = (torch.randn(4, n, 16, device="cuda", requires_grad=True) for n in (40, 5000))
        grad, runs = torch.randn(4, 40, 16, device="cuda"), []
        for _ in range(3):
            out = layer(query, keys, keys, edges)
            runs.append([out.context, *torch.autograd.grad(out.context, [query, keys], grad)])
        assert all(torch.equal(one, other) for run in runs[1:] for one, other in zip(runs[0], run, strict=True))
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_edges_in_half_precision_and_compiled(dtype: torch.dtype) -> None:
    layer = EdgeAttention(GraphAdditive(16, num_heads=4)).to("cuda", dtype)
    edges, (query, keys, values) = Edges.from_mask(torch.rand(24, 24, device="cuda") < 0.3), heads(dtype)
    exact = EdgeAttention(GraphAdditive(16, num_heads=4)).to("cuda", torch.float64)
    exact.load_state_dict(layer.state_dict())
    right = exact(query.double(), keys.double(), values.double(), edges).context
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 0.05, torch.float16: 0.005}[dtype]
    for run in (layer, torch.compile(layer, fullgraph=True)):
        torch.testing.assert_close(
            run(query, keys, values, edges).context.double(), right, atol=tolerance, rtol=tolerance
        )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("mask", ["none", "causal", "padding", "both", "empty"])
@pytest.mark.parametrize("score", [Dot(), ScaledDot(), General(16, 16), Cosine(2.0)], ids=describe)
def test_fused_equals_reference(score: Score, mask: str, dtype: torch.dtype) -> None:
    masks = {
        "none": None, "causal": Mask.causal(), "padding": Mask.padding([7, 24]), "empty": Mask.padding([0, 24]),
        "both": Mask.padding([7, 24]) & Mask.causal(),
    }  # fmt: skip
    score = score.to("cuda", dtype)
    inputs = heads(dtype)
    exact = [x.detach().double().requires_grad_() for x in inputs]
    fused = attend(*inputs, score=score, mask=masks[mask], need_weights=False, impl="sdpa").context
    plain = attend(*exact, score=score.double(), mask=masks[mask], impl="reference").context
    tolerance = {torch.float64: 1e-10, torch.float32: 2e-5, torch.bfloat16: 0.1, torch.float16: 0.02}[dtype]
    torch.testing.assert_close(fused.double(), plain, atol=tolerance, rtol=tolerance)
    grad = torch.randn_like(plain)
    ours = torch.autograd.grad(fused, inputs, grad.to(dtype))
    theirs = torch.autograd.grad(plain, exact, grad)
    for mine, right in zip(ours, theirs, strict=True):
        assert torch.isfinite(mine).all()
        torch.testing.assert_close(mine.double(), right, atol=5 * tolerance, rtol=5 * tolerance)
    if mask == "empty":
        assert (fused[0] == 0).all()
        assert all((mine[0] == 0).all() for mine in ours)
    score.to("cpu", torch.float32)


@pytest.mark.parametrize("position", [None, Rotary(), ALiBi(4), Relative(4, 16)], ids=describe)
def test_cache_equals_whole_pass(position: torch.nn.Module | None) -> None:
    layer = MultiHead(64, num_heads=4, num_key_heads=2, position=position).cuda().double()
    x = torch.randn(2, 9, 64, device="cuda", dtype=torch.float64)
    cache, steps = Cache(), []
    for t in range(9):
        out = layer(x[:, t : t + 1], mask=Mask.causal(), cache=cache)
        cache = out.cache
        steps.append(out.context)
    torch.testing.assert_close(torch.cat(steps, 1), layer(x, mask=Mask.causal()).context)


def test_autocast_and_compile() -> None:
    layer = MultiHead(64, num_heads=4).cuda()
    compiled = torch.compile(layer, fullgraph=True)
    x = torch.randn(4, 33, 64, device="cuda")
    mask = Mask.padding(torch.tensor([0, 5, 20, 33])) & Mask.causal()
    with torch.autocast("cuda", torch.bfloat16):
        eager, fast = layer(x, mask=mask).context, compiled(x, mask=mask).context
    exact = layer(x, mask=mask).context
    torch.testing.assert_close(eager.float(), exact, atol=0.05, rtol=0.05)
    torch.testing.assert_close(fast.float(), exact, atol=0.05, rtol=0.05)
    with trace() as seen:
        layer(x, mask=mask)
    assert seen["multihead.0"].weights.shape == (4, 4, 33, 33)
    assert seen["multihead.0"].weights[0].sum() == 0


@pytest.mark.parametrize("cutoffs", [(), (10, 25)], ids=["softmax", "adaptive"])
def test_a_captured_training_with_a_memory_is_an_eager_one(cutoffs: tuple[int, ...], tmp_path: Path) -> None:
    recipe = RECIPES["transformer_xl/smoke"]()
    recipe = replace(recipe, model=replace(recipe.model, cutoffs=cutoffs))
    train = Train(steps=8, lr=1e-3, log_every=4, evaluate_every=8, save_every=8, keep=1)
    world = World(device=torch.device("cuda"))
    eager, captured = (
        api.train(replace(recipe, train=replace(train, capture=capture)), tmp_path / str(capture), world=world)
        for capture in (False, True)
    )
    for name, tensor in eager.module.state_dict().items():
        torch.testing.assert_close(captured.module.state_dict()[name], tensor, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["rendered", "rendered_2d", "rendered_ctc", "rendered_small", "signs"])
def test_words_are_rendered_and_read_inside_a_captured_graph(name: str, tmp_path: Path) -> None:
    """As the recipes train, in small batches: every launch is recorded, and the weights move and stay finite."""
    recipe = RECIPES[f"scene_text/{name}"]()
    task = replace(recipe.task, batch_size=32, held_out=16)
    train = replace(recipe.train, steps=6, warmup=1, log_every=3, evaluate_every=6, save_every=6)
    world = World(device=torch.device("cuda"))
    one, more = (
        api.train(replace(recipe, task=task, train=replace(train, steps=steps)), tmp_path / str(steps), world=world)
        for steps in (1, 6)
    )
    states = one.module.state_dict(), more.module.state_dict()
    assert all(torch.isfinite(tensor).all() for state in states for tensor in state.values())
    assert any(not states[0][key].equal(tensor) for key, tensor in states[1].items())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("queries", [2, 7, 64, 256])
def test_more_keys_than_queries_are_causal_without_a_mask(queries: int, dtype: torch.dtype) -> None:
    """The last query sees all keys: outputs and gradients against float64, in the types that have a kernel for it."""
    torch.manual_seed(0)
    sides = [torch.randn(6, 4, n, 64, device="cuda", dtype=dtype, requires_grad=True) for n in (queries, 512, 512)]
    grad = torch.randn(6, 4, queries, 64, device="cuda", dtype=dtype)
    exact_sides = [side.detach().double().requires_grad_() for side in sides]
    exact = attend(*exact_sides, mask=Mask.causal(), need_weights=False, impl="reference").context
    exact_grads = torch.autograd.grad(exact, exact_sides, grad.double())
    errors = {}
    for impl in ("reference", "sdpa"):
        out = attend(*sides, mask=Mask.causal(), need_weights=False, impl=impl).context
        grads = torch.autograd.grad(out, sides, grad)
        pairs = zip((out, *grads), (exact, *exact_grads), strict=True)
        errors[impl] = [(a.double() - b).norm().item() / b.norm().item() for a, b in pairs]
    for ours, eager in zip(errors["sdpa"], errors["reference"], strict=True):
        assert ours <= 2 * eager + 2 * torch.finfo(dtype).eps


@pytest.mark.parametrize("local", [Local1D(32, 32), Local1D(32, 80), Local2D((16, 24), (8, 8), (8, 4))], ids=str)
def test_local_attention_in_blocks_equals_the_mask(local: Local) -> None:
    torch.manual_seed(0)
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.bfloat16, 0.03)):
        sides = [torch.randn(2, 4, 384, 64, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3)]
        exact_sides = [side.detach().double().requires_grad_() for side in sides]
        exact = attend(*exact_sides, mask=local.mask(), need_weights=False, impl="reference").context
        out = local.attend(*sides, lambda q, k, v: attend(q, k, v, mask=Mask.causal(), need_weights=False).context)
        theirs = torch.autograd.grad(exact.square().sum(), exact_sides)
        ours = torch.autograd.grad(out.square().sum(), sides)
        for mine, other in zip((out, *ours), (exact, *theirs), strict=True):
            assert (mine.double() - other).norm() <= tolerance * other.norm()


@pytest.mark.parametrize("settings", [{}, {"output": "logistics"}, {"local": "2d", "block_size": (4, 4)}], ids=str)
def test_a_captured_training_of_pictures_is_an_eager_one(settings: dict[str, object], tmp_path: Path) -> None:
    recipe = RECIPES["image_transformer/smoke_super_resolution"]()
    recipe = replace(recipe, model=replace(recipe.model, **settings))
    train = Train(steps=8, lr=1e-3, log_every=4, evaluate_every=8, save_every=8, keep=1)
    world = World(device=torch.device("cuda"))
    eager, captured = (
        api.train(replace(recipe, train=replace(train, capture=capture)), tmp_path / str(capture), world=world)
        for capture in (False, True)
    )
    for name, tensor in eager.module.state_dict().items():
        torch.testing.assert_close(captured.module.state_dict()[name], tensor, rtol=1e-3, atol=1e-3)
    half = replace(train, capture=True, precision="pure_bfloat16")
    bits = api.train(replace(recipe, train=half), tmp_path / "half", world=world).evaluate("valid").figures["bits"]
    assert abs(bits - eager.evaluate("valid").figures["bits"]) < 0.2


def test_masks_do_not_break_a_captured_graph() -> None:
    layer = MultiHead(64, num_heads=4).cuda()
    x = torch.randn(2, 16, 64, device="cuda")
    lengths = torch.tensor([5, 16], device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side), torch.no_grad():
        expected = layer(x, mask=Mask.padding(lengths)).context
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        out = layer(x, mask=Mask.padding(lengths)).context
    graph.replay()
    torch.testing.assert_close(out, expected)
