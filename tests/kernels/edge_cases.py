"""Attention over edges in one pass, against the reference: on a GPU, or anywhere with TRITON_INTERPRET=1."""

import pytest
import torch
from cases import DEVICE, ROUNDING, near
from torch import Tensor

from regard import trace
from regard.align import Softmax, Sparsemax
from regard.attention import EdgeAttention, attend_edges
from regard.base import ImplementationUnavailable
from regard.kernels.edges import edge_weights, fused_edges, sort_edges
from regard.models import GAT, GATConfig
from regard.score import Concatenation, Edges, GraphAdditive, LeakyAdditive, Score

pytestmark = [
    pytest.mark.filterwarnings("ignore:.* encountered in :RuntimeWarning"),  # numpy, of what is masked after
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS:UserWarning"),  # torch, in its thread for gradients
]


def edges_of(mask: Tensor) -> Edges:
    """The edges of a mask in random order."""
    edges = Edges.from_mask(mask)
    order = torch.randperm(len(edges))
    return Edges(edges.targets[order], edges.sources[order], *mask.shape).to(DEVICE)


def random_graph(queries: int, keys: int, share: float, seed: int) -> Edges:
    torch.manual_seed(seed)
    return edges_of(torch.rand(queries, keys) < share)


def star(sources: int) -> Edges:
    """Of three targets one sees all sources, the others see none; so one segment is long and two are empty."""
    mask = torch.zeros(3, sources, dtype=torch.bool)
    mask[1] = True
    return edges_of(mask)


GRAPHS = {
    "one node": lambda: edges_of(torch.ones(1, 1, dtype=torch.bool)),
    "no edges": lambda: random_graph(3, 4, 0.0, 0),
    "empty segments": lambda: random_graph(7, 5, 0.2, 1),
    "dense": lambda: random_graph(5, 9, 0.8, 2),
    "one huge segment": lambda: star(40),
    "more targets than sources": lambda: random_graph(9, 2, 0.5, 3),
    "one segment of three blocks": lambda: star(70),
}
SHAPES = [(1, 1), (3, 8), (2, 17), (1, 5)]  # heads and width


def halves_and_values(edges: Edges, heads: int, width: int, dtype: torch.dtype, scale: float = 1.0) -> list[Tensor]:
    shapes = (heads, edges.num_queries), (heads, edges.num_keys), (heads, edges.num_keys, width)
    target, source, values = (torch.randn(shape, device=DEVICE) for shape in shapes)
    return [scale * target, scale * source, values.to(dtype)]


def reference(
    tensors: list[Tensor], edges: Edges, slope: float, grad: Tensor, kept: Tensor | None = None
) -> list[Tensor]:
    """Context, weights and gradients by a dense matrix, in the type of the tensors; `kept` is a factor of each edge."""
    target, source, values = (x.detach().requires_grad_() for x in tensors)
    sums = target.unsqueeze(-1) + source.unsqueeze(-2)
    scores = torch.where(sums > 0, sums, slope * sums).to(values.dtype if values.dtype == torch.float64 else sums.dtype)
    mask = edges.mask()
    weights = scores.masked_fill(~mask, -1e30).softmax(-1).masked_fill(~mask, 0.0)
    factor = torch.ones_like(weights)
    if kept is not None:
        factor[:, edges.targets, edges.sources] = kept.to(factor.dtype)
    context = ((weights * factor).to(values.dtype) @ values).to(values.dtype)
    gradients = torch.autograd.grad(context, (target, source, values), grad.to(context.dtype))
    return [context, weights[:, edges.targets, edges.sources], *gradients]


def check(tensors: list[Tensor], edges: Edges, slope: float) -> None:
    dtype = tensors[2].dtype
    rounding = ROUNDING[dtype]
    grad = torch.randn(len(tensors[0]), edges.num_queries, tensors[2].shape[-1], device=DEVICE).to(dtype)
    exact, eager = reference([x.double() for x in tensors], edges, slope, grad), reference(tensors, edges, slope, grad)
    leaves = [x.detach().requires_grad_() for x in tensors]
    context, highest, total = fused_edges(*leaves, edges.sorted(), slope=slope)
    weights = edge_weights(*leaves[:2], highest, total, edges.targets, edges.sources, slope=slope)
    gradients = torch.autograd.grad(context, leaves, grad)
    assert context.dtype == dtype
    near("weights", weights, eager[1], exact[1], 3e-6) if len(edges) else None
    for name, *three in zip(("context", "target", "source", "values"), (context, *gradients), (eager[0], *eager[2:]),
                            (exact[0], *exact[2:]), strict=True):  # fmt: skip
        near(name, *three, rounding)
    empty = ~edges.mask().any(1)
    assert not context[:, empty].any()
    assert not gradients[0][:, empty].any()
    unseen = ~edges.mask().any(0)
    assert not gradients[1][:, unseen].any()
    assert not gradients[2][:, unseen].any()


@pytest.mark.parametrize(
    "shape", [pytest.param(shape, marks=[pytest.mark.slow] * (i != 1)) for i, shape in enumerate(SHAPES)], ids=str
)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if "three blocks" in name else ()) for name in GRAPHS]
)
def test_graphs_heads_and_widths(name: str, shape: tuple[int, int]) -> None:
    edges = GRAPHS[name]()
    torch.manual_seed(4)
    check(halves_and_values(edges, *shape, torch.float32), edges, 0.2)


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.slow] * (seed > 1)) for seed in range(6)])
def test_random_shapes(seed: int) -> None:
    source = torch.Generator().manual_seed(seed)
    queries, keys, heads, width = (int(torch.randint(1, most, (), generator=source)) for most in (12, 12, 4, 40))
    edges = random_graph(queries, keys, float(torch.rand((), generator=source)), seed)
    dtype = [torch.float32, torch.bfloat16, torch.float16][seed % 3]
    check(halves_and_values(edges, heads, width, dtype, scale=[1.0, 20.0][seed % 2]), edges, [0.2, 0.0, 1.0][seed % 3])


def test_all_results_repeat_bit_by_bit() -> None:
    edges = GRAPHS["dense"]()
    tensors = [x.requires_grad_() for x in halves_and_values(edges, 2, 6, torch.float32)]
    results = []
    for _ in range(2):
        context, _, _ = fused_edges(*tensors, edges.sorted(), slope=0.2)
        results.append([context, *torch.autograd.grad(context.sum(), tensors)])
    assert all(torch.equal(first, second) for first, second in zip(*results, strict=True))


def test_dropout_is_the_same_noise_forward_and_backward() -> None:
    """Which edges are dropped is read off a context with one-hot values; then all must agree with the dense form."""
    torch.manual_seed(5)
    edges, share, seed = GRAPHS["dense"](), 0.4, torch.tensor([11], device=DEVICE)
    target, source, values = halves_and_values(edges, 2, edges.num_keys, torch.float32)
    one_hot = torch.eye(edges.num_keys, device=DEVICE).expand(2, -1, -1).contiguous()
    shown, highest, total = fused_edges(target, source, one_hot, edges.sorted(), slope=0.2, dropout=share, seed=seed)
    weights = edge_weights(target, source, highest, total, edges.targets, edges.sources, slope=0.2)
    kept = shown[:, edges.targets, edges.sources] / weights  # 0, or 1 / (1 − p)
    assert set((kept * (1 - share)).round(decimals=4).unique().tolist()) == {0.0, 1.0}
    assert 0.3 < (kept > 0).float().mean() < 0.9
    assert not torch.equal(kept[0], kept[1])  # heads have noise of their own
    grad = torch.randn(2, edges.num_queries, edges.num_keys, device=DEVICE)
    exact = reference([x.double() for x in (target, source, values)], edges, 0.2, grad, kept)
    leaves = [x.detach().requires_grad_() for x in (target, source, values)]
    context, _, _ = fused_edges(*leaves, edges.sorted(), slope=0.2, dropout=share, seed=seed)
    results = [context, *torch.autograd.grad(context, leaves, grad)]
    for mine, expected in zip(results, [exact[0], *exact[2:]], strict=True):
        torch.testing.assert_close(mine.double(), expected, rtol=1e-5, atol=1e-5)


def test_large_scores_and_scores_at_infinity() -> None:
    edges = GRAPHS["dense"]()
    target, source, values = halves_and_values(edges, 1, 4, torch.float32, scale=1e4)
    check([target, source, values], edges, 0.2)
    source[0, 2] = -torch.inf  # counts as masked
    context, highest, total = fused_edges(target, source, values, edges.sorted(), slope=0.2)
    weights = edge_weights(target, source, highest, total, edges.targets, edges.sources, slope=0.2)
    assert context.isfinite().all()
    assert not weights[:, edges.sources == 2].any()


def test_a_second_derivative_is_that_of_plain_operations() -> None:
    edges = random_graph(4, 4, 0.7, 6)
    tensors = [x.requires_grad_() for x in halves_and_values(edges, 1, 3, torch.float32)]
    doubles = [x.detach().double().requires_grad_() for x in tensors]
    context, _, _ = fused_edges(*tensors, edges.sorted(), slope=0.2)
    first = torch.autograd.grad(context.square().sum(), tensors, create_graph=True)
    second = torch.autograd.grad(sum(x.square().sum() for x in first), tensors)
    mask = edges.mask()
    sums = doubles[0].unsqueeze(-1) + doubles[1].unsqueeze(-2)
    scores = torch.where(sums > 0, sums, 0.2 * sums).masked_fill(~mask, -1e30)
    dense = scores.softmax(-1).masked_fill(~mask, 0.0) @ doubles[2]
    exact = torch.autograd.grad(dense.square().sum(), doubles, create_graph=True)
    expected = torch.autograd.grad(sum(x.square().sum() for x in exact), doubles)
    for mine, right in zip((*first, *second), (*exact, *expected), strict=True):
        torch.testing.assert_close(mine.double(), right, rtol=1e-4, atol=1e-4)


# ── behind the three lines ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("score", [GraphAdditive(4, num_heads=2), GraphAdditive(4), Concatenation(4)], ids=str)
@pytest.mark.parametrize("lead", [(2,), (3, 2)], ids=str)
def test_attend_edges_gives_what_the_reference_gives(score: Score, lead: tuple[int, ...]) -> None:
    torch.manual_seed(7)
    score, edges = score.to(DEVICE), random_graph(5, 6, 0.5, 8)
    query, keys, values = (torch.randn(*lead, size, 4, device=DEVICE) for size in (5, 6, 6))
    results = []
    for impl in ("triton", "reference"):
        tensors = [x.clone().requires_grad_() for x in (query, keys, values)]
        out = attend_edges(*tensors, edges, score=score, impl=impl)
        weight = score.weight
        gradients = torch.autograd.grad(out.context.square().sum(), [*tensors, weight])
        results.append([out.context, out.weights, *gradients])
    assert not results[0][1].requires_grad
    for mine, expected in zip(*results, strict=True):
        torch.testing.assert_close(mine, expected, rtol=2e-5, atol=2e-5)


def test_a_model_and_its_trace() -> None:
    torch.manual_seed(9)
    model = GAT(GATConfig(features=5, classes=3, hidden_dim=4, heads=2)).to(DEVICE).eval()
    edges, features = random_graph(8, 8, 0.3, 10), torch.randn(8, 5, device=DEVICE)
    seen, outputs = [], []
    for impl in ("triton", "reference"):
        for layer in (*model.layers, model.output):
            layer.attention.impl = impl
        with trace(model) as weights:
            outputs.append(model(features, edges))
        seen.append([torch.from_numpy(record.weights) for record in weights.values()])
    torch.testing.assert_close(*outputs, rtol=1e-5, atol=1e-5)
    for mine, expected in zip(*seen, strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-5, atol=1e-6)
    model.train()
    for layer in (*model.layers, model.output):
        layer.attention.impl = "triton"
    model(features, edges).sum().backward()  # with dropout
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_what_the_kernel_does_not_do() -> None:
    edges, x = random_graph(4, 4, 0.5, 11), torch.randn(4, 3, device=DEVICE)
    score = GraphAdditive(3).to(DEVICE)
    for message, call in {
        r"score=LeakyAdditive is not a LeakyReLU of two halves": {"score": LeakyAdditive(3).to(DEVICE)},
        r"align=Sparsemax is not Softmax": {"score": score, "align": Sparsemax()},
        r"align=Softmax is not Softmax, or has a temperature": {"score": score, "align": Softmax(0.5)},
        r"takes no bias": {"score": score, "bias": torch.zeros((), device=DEVICE)},
    }.items():
        with pytest.raises(ImplementationUnavailable, match=message):
            attend_edges(x, x, x, edges, impl="triton", **call)
    with pytest.raises(ImplementationUnavailable, match=r"values are torch\.float64"):
        attend_edges(
            x.double(), x.double(), x.double(), edges, impl="triton", score=GraphAdditive(3).double().to(DEVICE)
        )
    layer = EdgeAttention(score, impl="triton")
    with pytest.raises(ImplementationUnavailable, match="transform of torch"):
        torch.func.grad(lambda y: layer(y, y, y, edges).context.sum())(x)
    with pytest.raises(ImplementationUnavailable, match="transform of torch"):
        torch.func.grad(lambda y: fused_edges(y, y, y.unsqueeze(-1), edges.sorted(), slope=0.2)[0].sum())(x.mT)


def test_tables_of_the_two_orders() -> None:
    table = sort_edges(torch.tensor([2, 0, 2, 0]), torch.tensor([1, 1, 0, 2]), 4, 3)
    assert [x.tolist() for x in table] == [
        [1, 3, 0, 2], [1, 2, 1, 0], [0, 2, 2, 4, 4],
        [2, 0, 1, 3], [2, 2, 0, 0], [0, 1, 3, 4],
    ]  # fmt: skip
    assert {x.dtype for x in table} == {torch.int32}
    edges = Edges.of(torch.tensor([[0], [1]]), num_queries=2)
    assert edges.sorted() is edges.sorted()
