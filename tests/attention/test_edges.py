"""Attention over an edge list: equal to attention under a mask, in outputs and gradients, for any graph."""

import math
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from examples_of import edge_aligns, edge_scores
from table import cases
from torch import Tensor, nn

from regard import Attention, attend, trace
from regard.align import Align, Entmax, Hard, Normalize, Softmax, Sparsemax, TopK
from regard.attention import EdgeAttention, attend_edges
from regard.score import (
    Additive,
    Cosine,
    Edges,
    GraphAdditive,
    Location,
    Score,
)

D, V = 4, 3
SCORES = edge_scores(D, cosine_learned=lambda: Cosine(4.0, learned=True), location_short=lambda: Location(D, 5))
ALIGNS = edge_aligns(D, entmax_learned=lambda: Entmax(1.3, learned=True))
MASKS = {
    "random": torch.rand(6, 7, generator=torch.Generator().manual_seed(3)) < 0.4,
    "isolated queries": (torch.rand(6, 7, generator=torch.Generator().manual_seed(4)) < 0.5)
    & torch.tensor([True, False, True, True, False, True]).unsqueeze(1),
    "one edge": torch.zeros(6, 7, dtype=torch.bool).index_put((torch.tensor(4), torch.tensor(2)), torch.tensor(True)),
    "no edges": torch.zeros(6, 7, dtype=torch.bool),
    "all edges": torch.ones(6, 7, dtype=torch.bool),
    "one query": torch.tensor([[True, False, True, True]]),
    "one key": torch.tensor([[True], [False], [True]]),
}


def inputs(mask: Tensor, *lead: int) -> list[Tensor]:
    num_queries, num_keys = mask.shape
    shapes = ((num_queries, D), (num_keys, D), (num_keys, V))
    return [torch.randn(*lead, *shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def shuffled(mask: Tensor) -> Edges:
    pairs = Edges.from_mask(mask).pairs
    return Edges.of(pairs[:, torch.randperm(pairs.shape[1])], *mask.shape)


def check_equal(score: Score, align: Align, mask: Tensor, *lead: int) -> None:
    """Context, weights and every gradient are those of the dense form."""
    score, align, edges, leaves = score.double(), align.double(), shuffled(mask), inputs(mask, *lead)
    bias = torch.rand(*mask.shape, dtype=torch.float64, requires_grad=True)  # and no two scores are equal
    dense = attend(*leaves, score=score, align=align, mask=mask, bias=bias, impl="reference")
    sparse = attend_edges(*leaves, edges, score=score, align=align, bias=bias[edges.targets, edges.sources])
    assert sparse.weights.shape == (*lead, len(edges))
    torch.testing.assert_close(sparse.context, dense.context, atol=1e-11, rtol=1e-11)
    torch.testing.assert_close(sparse.weights, dense.weights[..., edges.targets, edges.sources], atol=1e-11, rtol=1e-11)
    variables = [*leaves, bias, *score.parameters(), *align.parameters()]
    grad, grad_of_weights = torch.randn_like(dense.context), torch.randn_like(dense.weights)

    def loss(context: Tensor, weights: Tensor, weight: Tensor) -> Tensor:
        return (context * grad).sum() + (weights * weight).sum()

    dense_loss = loss(dense.context, dense.weights, grad_of_weights * mask)
    sparse_loss = loss(sparse.context, sparse.weights, grad_of_weights[..., edges.targets, edges.sources])
    theirs = torch.autograd.grad(dense_loss, variables, allow_unused=True)
    ours = torch.autograd.grad(sparse_loss, variables, allow_unused=True)
    for variable, mine, other in zip(variables, ours, theirs, strict=True):
        zero = torch.zeros_like(variable)
        mine, other = zero if mine is None else mine, zero if other is None else other
        torch.testing.assert_close(mine, other, atol=1e-9, rtol=1e-9)


@cases("align", ALIGNS)
@pytest.mark.parametrize("score", SCORES)
def test_every_score_with_every_alignment_equals_the_dense_form(score: str, align: str) -> None:
    check_equal(SCORES[score](), ALIGNS[align](), MASKS["isolated queries"], 2)


@cases("lead", [(), (3,), (2, 3)], ids=str)
@cases("mask", MASKS)
@cases("align", ["softmax", "sparsemax", "entmax", "share"])
def test_every_graph_equals_the_dense_form(align: str, mask: str, lead: tuple[int, ...]) -> None:
    check_equal(GraphAdditive(D), ALIGNS[align](), MASKS[mask], *lead)


@pytest.mark.parametrize("seed", range(8))
def test_random_graphs_equal_the_dense_form(seed: int) -> None:
    torch.manual_seed(seed)
    size = torch.randint(1, 30, (2,)).tolist()
    mask = torch.rand(*size) < torch.rand(())
    check_equal(GraphAdditive(D, num_heads=2), Softmax(), mask, 3, 2)
    check_equal(Additive(D, D, 5), Entmax(1.5, learned=True, num_heads=2), mask, 2)


def takes_long(score: str, align: str, order: int) -> bool:
    """Whether a case is left to `make test-all`: of many weights second derivatives take long."""
    return score == "scaled_dot" or (order == 2 and score == "additive" and align != "softmax")


@pytest.mark.parametrize(
    ("score", "align", "order"),
    [
        pytest.param(*case, marks=pytest.mark.slow if takes_long(*case) else ())
        for case in product(
            ["scaled_dot", "additive", "graph_additive", "distance_gaussian"],
            ["softmax", "entmax", "normalize", "share", "sigmoid"],
            [1, 2],
        )
    ],
)
def test_gradients_agree_with_finite_differences(score: str, align: str, order: int) -> None:
    layer, mask = EdgeAttention(SCORES[score](), ALIGNS[align]()).double(), MASKS["isolated queries"][:3, :4]
    edges = shuffled(mask)
    names, parameters = zip(*layer.named_parameters(), strict=True) if list(layer.parameters()) else ((), ())

    def call(query: Tensor, keys: Tensor, values: Tensor, *weights: Tensor) -> Tensor:
        state = dict(zip(names, weights, strict=True))
        return torch.func.functional_call(layer, state, (query, keys, values, edges)).context

    check = torch.autograd.gradcheck if order == 1 else torch.autograd.gradgradcheck
    assert check(call, (*inputs(mask), *parameters))


def graph_attention_by_hand(nodes: Tensor, neighbours: list[list[int]], weight: Tensor, vector: Tensor) -> Tensor:
    """The layer of Veličković 2018, eqs. 1 to 4, one node and one neighbour at a time; `weight` [h f d]."""
    heads = []
    for one_weight, one_vector in zip(weight, vector, strict=True):
        rows = []
        for i, around in enumerate(neighbours):
            exponentials = [
                math.exp(F.leaky_relu(one_vector @ torch.cat([one_weight @ nodes[i], one_weight @ nodes[j]]), 0.2))
                for j in around
            ]
            parts = [number * (one_weight @ nodes[j]) for number, j in zip(exponentials, around, strict=True)]
            rows.append(sum(parts, torch.zeros(len(one_weight), dtype=nodes.dtype)) / sum(exponentials))
        heads.append(torch.stack(rows))
    return torch.cat(heads, -1)


def test_a_layer_of_graph_attention_by_hand() -> None:
    torch.manual_seed(5)
    mask = (torch.rand(9, 9) < 0.3) & ~torch.eye(9, dtype=torch.bool)
    mask[4] = False  # only itself
    edges = shuffled(mask).with_self_loops()
    nodes, weight = torch.randn(9, 5, dtype=torch.float64), torch.randn(2, 3, 5, dtype=torch.float64)
    score = GraphAdditive(3, num_heads=2).double()
    projected = nodes @ weight.mT  # [h n f]: one projection for queries, keys and values
    out = attend_edges(projected, projected, projected, edges, score=score)
    neighbours = [edges.sources[edges.targets == i].tolist() for i in range(9)]
    expected = graph_attention_by_hand(nodes, neighbours, weight, score.weight.detach().transpose(0, 1).flatten(1))
    torch.testing.assert_close(out.context.transpose(0, 1).flatten(1), expected)
    torch.testing.assert_close(out.context[:, 4], projected[:, 4])


def test_weights_are_taken_over_the_keys_of_a_query_not_over_the_queries_of_a_key() -> None:
    edges = Edges.of(torch.tensor([[0, 1, 1], [0, 0, 1]]), 2)
    out = attend_edges(torch.zeros(2, 1), torch.zeros(2, 1), torch.eye(2), edges)
    assert out.weights.tolist() == [1.0, 0.5, 0.5]
    assert out.context.tolist() == [[1.0, 0.0], [0.5, 0.5]]


def test_the_names_of_nodes_do_not_matter() -> None:
    mask, order = torch.rand(8, 8) < 0.4, torch.randperm(8)
    edges, x = shuffled(mask), torch.randn(2, 8, D, dtype=torch.float64)
    place = order.argsort()  # node order[n] is now called n
    renamed = Edges.of(place[edges.pairs], 8)
    score = GraphAdditive(D).double()
    plain, moved = attend_edges(x, x, x, edges, score=score), attend_edges(*[x[:, order]] * 3, renamed, score=score)
    torch.testing.assert_close(moved.context, plain.context[:, order])
    torch.testing.assert_close(moved.weights, plain.weights)


def test_joined_graphs_do_not_see_each_other() -> None:
    graphs = [shuffled(torch.rand(n, n) < 0.5) for n in (4, 1, 6)]
    nodes = [torch.randn(n, D, dtype=torch.float64) for n in (4, 1, 6)]
    joined = attend_edges(*[torch.cat(nodes)] * 3, Edges.join(graphs))
    alone = [attend_edges(x, x, x, graph) for x, graph in zip(nodes, graphs, strict=True)]
    torch.testing.assert_close(joined.context, torch.cat([out.context for out in alone]))
    torch.testing.assert_close(joined.weights, torch.cat([out.weights for out in alone]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("score", ["scaled_dot", "additive", "graph_additive", "cosine"])
def test_half_precision_is_as_good_as_the_dense_form(score: str, dtype: torch.dtype) -> None:
    mask, made = torch.rand(50, 60) < 0.5, SCORES[score]().to(dtype)
    edges, given = shuffled(mask), [x.detach().to(dtype) for x in inputs(mask)]
    out = attend_edges(*given, edges, score=made)
    exact = attend(*(x.double() for x in given), score=made.double(), mask=mask)
    assert out.context.dtype == out.weights.dtype == dtype
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 0.02, torch.float16: 0.003}[dtype]
    torch.testing.assert_close(out.context.double(), exact.context, atol=tolerance, rtol=tolerance)


def test_leading_axes_broadcast_and_prepared_keys() -> None:
    mask = MASKS["random"]
    edges, score = shuffled(mask), Additive(D, D, 5).double()
    query = torch.randn(3, 2, 6, D, dtype=torch.float64)
    keys, values = torch.randn(7, D, dtype=torch.float64), torch.randn(2, 7, V, dtype=torch.float64)
    out = attend_edges(query, score.prepare(keys), values, edges, score=score)
    expected = attend(query, keys, values, score=score, mask=mask)
    torch.testing.assert_close(out.context, expected.context)
    torch.testing.assert_close(out.weights, expected.weights[..., edges.targets, edges.sources])


def test_values_alone_may_have_the_batch_axes() -> None:
    mask = MASKS["random"]
    edges, query, keys = shuffled(mask), torch.randn(1, 6, D), torch.randn(1, 7, D)
    values = torch.randn(2, 7, V)
    out = attend_edges(query, keys, values, edges)
    torch.testing.assert_close(out.context, attend(query, keys, values, mask=mask).context)
    assert out.weights.shape == (2, len(edges))


def test_a_sample_has_its_log_probability_for_each_query() -> None:
    mask = MASKS["isolated queries"]
    edges, leaves = shuffled(mask), inputs(mask, 2)
    out = attend_edges(*leaves, edges, align=Hard("sample"))
    assert out.log_prob.shape == out.entropy.shape == (2, 6)
    soft = attend(*leaves, mask=mask)
    dense = torch.zeros(2, 6, 7, dtype=torch.float64)
    dense[..., edges.targets, edges.sources] = out.weights
    log_prob = (dense * soft.weights.clamp(min=1e-300).log()).sum(-1)
    torch.testing.assert_close(out.log_prob, log_prob)
    assert (out.log_prob[:, [1, 4]] == 0).all()


def test_dropout_acts_on_the_weights_in_training_only() -> None:
    layer, mask = EdgeAttention(dropout=0.5), torch.ones(30, 40, dtype=torch.bool)
    edges, x = Edges.from_mask(mask), torch.zeros(30, 2)
    keys, values = torch.zeros(40, 2), torch.eye(40)
    trained = layer(x, keys, values, edges)
    assert torch.equal(trained.weights, torch.full((1200,), 1 / 40))
    torch.testing.assert_close(trained.context.unique(), torch.tensor([0.0, 2 / 40]))
    assert trained.context.sum().item() == pytest.approx(30, rel=0.1)
    layer.eval()
    torch.testing.assert_close(layer(x, keys, values, edges).context, torch.full((30, 40), 1 / 40))
    assert layer(x, keys, values, edges, need_weights=False).weights is None
    assert attend_edges(x, keys, values, edges, need_weights=False).weights is None


def test_a_layer_shares_its_weights_with_the_dense_one() -> None:
    dense = Attention(Additive(D, D, 5), Entmax(1.4, learned=True)).double()
    layer = EdgeAttention(Additive(D, D, 5), Entmax(1.4, learned=True)).double()
    layer.load_state_dict(dense.state_dict())
    mask = MASKS["random"]
    edges, leaves = shuffled(mask), inputs(mask)
    expected = dense(*leaves, mask=mask).context
    torch.testing.assert_close(layer(*leaves, edges).context, expected)
    torch.testing.assert_close(layer(leaves[0], layer.prepare(leaves[1]), leaves[2], edges).context, expected)
    assert "dropout=0.0" in repr(layer)


def test_transforms_of_functions() -> None:
    """vmap over a batch, forward mode, and a Jacobian of both modes."""
    mask = MASKS["isolated queries"]
    edges, (query, keys, values) = shuffled(mask), [x.detach() for x in inputs(mask, 3)]
    score = GraphAdditive(D).double()
    for align in (Softmax(), Sparsemax(), Entmax(), TopK(2), Normalize()):

        def context(query: Tensor, keys: Tensor, values: Tensor, align: Align = align) -> Tensor:
            return attend_edges(query, keys, values, edges, score=score, align=align).context

        mapped = torch.func.vmap(context)(query, keys, values)
        torch.testing.assert_close(mapped, context(query, keys, values))
        one = query[0], keys[0], values[0]
        forward = torch.func.jacfwd(context, (0, 1, 2))(*one)
        reverse = torch.func.jacrev(context, (0, 1, 2))(*one)
        torch.testing.assert_close(forward, reverse)


def test_autocast() -> None:
    mask = MASKS["random"]
    layer, edges, leaves = EdgeAttention(Additive(D, D, 5)), shuffled(mask), [x.detach().float() for x in inputs(mask)]
    exact = layer(*leaves, edges)
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(*leaves, edges)
    torch.testing.assert_close(out.context, exact.context, atol=0.05, rtol=0.05)


# ── the trace ───────────────────────────────────────────────────────────────────────────────────────────────────────


class TwoLayers(nn.Module):
    """Graph attention twice, with two heads."""

    def __init__(self) -> None:
        super().__init__()
        self.first = EdgeAttention(GraphAdditive(D, num_heads=2), heads=True)
        self.second = EdgeAttention(GraphAdditive(D, num_heads=2), heads=True)

    def forward(self, x: Tensor, edges: Edges) -> Tensor:
        x = self.first(x, x, x, edges).context
        return self.second(x, x, x, edges, need_weights=False).context


def test_a_trace_has_the_weights_and_their_edges() -> None:
    mask, model, x = torch.rand(5, 5) < 0.5, TwoLayers(), torch.randn(3, 2, 5, D)
    edges = shuffled(mask)
    with trace(model, rows=list("abcde"), columns=list("abcde")) as seen:
        model(x, edges)
    assert list(seen) == ["first", "second"]
    record = seen["first"]
    assert record.axes == ("b", "h", "e")
    weights = model.first(x, x, x, edges).weights
    torch.testing.assert_close(torch.from_numpy(record.weights), weights.detach())
    assert record.edges[0].pairs.tolist() == edges.pairs.tolist()
    assert record.edges[0].sizes == (5, 5)
    dense = attend(x, x, x, score=model.first.score, mask=mask).weights
    torch.testing.assert_close(torch.from_numpy(record.dense()), dense.detach())
    item = record.item(1)
    assert item.axes == ("h", "e")
    assert item.rows == list("abcde")
    torch.testing.assert_close(torch.from_numpy(item.dense()), dense[1].detach())


def test_a_trace_of_some_queries_and_heads() -> None:
    mask, model, x = torch.rand(5, 5) < 0.7, TwoLayers(), torch.randn(3, 2, 5, D)
    edges = shuffled(mask)
    with trace(model, layers="first") as whole:
        model(x, edges)
    with trace(model, layers="first", rows=[3, -5], heads=[1]) as some:
        model(x, edges)
    assert list(some) == ["first"]
    record = some["first"]
    assert set(record.edges[0].pairs[0].tolist()) <= {0, 3}
    assert record.weights.shape == (3, 1, int(mask[[0, 3]].sum()))
    expected = whole["first"].dense()[:, [1]][..., [3, 0], :]
    torch.testing.assert_close(torch.from_numpy(record.dense()), torch.from_numpy(expected))


def test_functions_are_seen_under_their_names() -> None:
    x = torch.randn(4, D)
    edges = Edges.from_mask(torch.ones(4, 4, dtype=torch.bool))
    with trace() as seen:
        attend(x, x, x)
        attend_edges(x, x, x, edges)
    assert list(seen) == ["attend", "attend_edges"]
    torch.testing.assert_close(torch.from_numpy(seen["attend_edges"].dense()), torch.from_numpy(seen["attend"].weights))
    with trace(layers="attend_*") as some:
        attend(x, x, x)
        attend_edges(x, x, x, edges)
    assert list(some) == ["attend_edges"]
