"""Graph attention networks: the equations node by node, the dense form, PyG's layers, and what the paper claims."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard import trace
from regard.align import ALIGNS
from regard.base import ConfigError, ShapeError
from regard.models.gat import GAT, ConstantScore, GATConfig, GraphAttention, gat_citations, gat_inductive
from regard.score import Edges

TINY = GATConfig(features=5, classes=3, hidden_dim=4, heads=2)
KINDS: list[dict[str, Any]] = [
    {"score": score, "attention": attention, "output_heads": output_heads, "layers": layers, "skip": layers == 3}
    for score in ("gat", "gatv2")
    for attention in ("learned", "constant")
    for output_heads, layers in ((1, 2), (3, 3), (2, 1))
]


def made(**settings: Any) -> GAT:
    """A small model in float64 whose biases are not zero, so that tests see them."""
    model = GAT(replace(TINY, **settings)).double().eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(parameter)
    return model


def graph(nodes: int = 9, share: float = 0.3, seed: int = 0) -> tuple[Tensor, Edges]:
    """Random nodes with five features, and directed edges; some have a loop already, some nodes have no edge."""
    source = torch.Generator().manual_seed(seed)
    mask = torch.rand(nodes, nodes, generator=source) < share
    mask[-1] = False
    return torch.randn(nodes, 5, generator=source, dtype=torch.float64), Edges.from_mask(mask)


def neighbours(edges: Edges, node: int) -> list[int]:
    """The nodes that a node attends to, itself included."""
    return sorted({node, *edges.sources[edges.targets == node].tolist()})


def by_hand(model: GAT, features: Tensor, edges: Edges) -> Tensor:
    """Equations 1 to 6, node by node and head by head."""
    config = model.config
    nodes = features
    for number, layer in enumerate([*model.layers, model.output]):
        assert isinstance(layer, GraphAttention)
        rows = []
        for i in range(len(nodes)):
            heads = []
            for head in range(layer.heads):
                dim = layer.project.out_features // layer.heads
                own = slice(head * dim, (head + 1) * dim)
                weight = layer.project.weight[own]
                scores = []
                for j in neighbours(edges, i):
                    if config.attention == "constant":
                        scores.append(torch.zeros((), dtype=torch.float64))
                    elif config.score == "gat":
                        a = torch.cat(list(layer.attention.score.weight[:, head]))
                        scores.append(F.leaky_relu(a @ torch.cat([weight @ nodes[i], weight @ nodes[j]]), 0.2))
                    else:
                        assert layer.project_query is not None
                        mixed = layer.project_query.weight[own] @ nodes[i] + weight @ nodes[j]
                        scores.append(layer.attention.score.weight[head] @ F.leaky_relu(mixed, 0.2))
                shares = torch.stack(scores).softmax(0)
                heads.append(
                    sum(share * (weight @ nodes[j]) for share, j in zip(shares, neighbours(edges, i), strict=True))
                )
            rows.append(torch.stack(heads).mean(0) if layer.average else torch.cat(heads))
        attended = torch.stack(rows) + layer.bias
        if layer is model.output:
            return attended
        nodes = F.elu(attended + nodes if config.skip and number > 0 else attended)
    raise AssertionError


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_equations_by_hand(kind: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model, (features, edges) = made(**kind), graph()
    torch.testing.assert_close(model(features, edges), by_hand(model, features, edges))


@pytest.mark.parametrize("score", ["gat", "gatv2"])
def test_edges_give_what_a_mask_gives(score: str) -> None:
    """The dense form: all pairs are scored, and a softmax under a mask; outputs and gradients in float64."""
    torch.manual_seed(1)
    layer, (features, edges) = GraphAttention(5, 4, 3, replace(TINY, score=score)).double().eval(), graph(12)
    mask, wanted = edges.with_self_loops().mask(), torch.randn(12, 12, dtype=torch.float64)

    def dense(nodes: Tensor) -> Tensor:
        keys = layer._by_head(layer.project(nodes))
        query = keys if layer.project_query is None else layer._by_head(layer.project_query(nodes))
        scores = layer.attention.score(query, keys).masked_fill(~mask, -math.inf)
        return (scores.softmax(-1) @ keys).transpose(0, 1).flatten(1) + layer.bias

    results = []
    for form in (lambda nodes: layer(nodes, edges.with_self_loops()), dense):
        layer.zero_grad()
        nodes = features.clone().requires_grad_()
        output = form(nodes)
        (output * wanted).sum().backward()
        results.append([output, nodes.grad, *(parameter.grad.clone() for parameter in layer.parameters())])
    for mine, expected in zip(*results, strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-10, atol=1e-10)


def same_as(theirs: nn.Module, layer: GraphAttention, score: str) -> None:
    """Gives PyG's layer the weights of ours. Its first row of edges are sources, which our keys are."""
    named = dict(theirs.named_parameters())
    with torch.no_grad():
        if score == "gat":
            named["lin.weight"].copy_(layer.project.weight)
            named["att_dst"].copy_(layer.attention.score.weight[0][None])
            named["att_src"].copy_(layer.attention.score.weight[1][None])
        else:
            assert layer.project_query is not None
            named["lin_l.weight"].copy_(layer.project.weight)
            named["lin_r.weight"].copy_(layer.project_query.weight)
            named["att"].copy_(layer.attention.score.weight[None])
            for name in ("lin_l.bias", "lin_r.bias"):
                named[name].zero_()
        named["bias"].copy_(layer.bias)


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("score", ["gat", "gatv2"])
@pytest.mark.parametrize("seed", range(3))
def test_pyg_has_the_same_outputs_and_gradients(score: str, average: bool, seed: int) -> None:
    geometric = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(seed)
    layer = GraphAttention(5, 7, 3, replace(TINY, score=score), average=average).eval()
    nn.init.normal_(layer.bias)
    features, edges = graph(30, 0.1, seed)
    pairs = torch.stack([edges.sources, edges.targets])
    pairs = pairs[:, pairs[0] != pairs[1]]  # PyG adds all loops anew
    kind = geometric.GATConv if score == "gat" else geometric.GATv2Conv
    theirs = kind(5, 7, heads=3, concat=not average)
    same_as(theirs, layer, score)
    ours, other = (features.float().requires_grad_() for _ in range(2))
    mine, expected = layer(ours, edges.with_self_loops()), theirs(other, pairs)
    torch.testing.assert_close(mine, expected, rtol=1e-5, atol=1e-5)
    wanted = torch.randn_like(mine)
    (mine * wanted).sum().backward()
    (expected * wanted).sum().backward()
    named, half = dict(theirs.named_parameters()), layer.attention.score.weight.grad
    pairs_of_gradients = [(ours.grad, other.grad), (layer.bias.grad, named["bias"].grad)]
    if score == "gat":
        gradients = torch.stack([named["att_dst"].grad[0], named["att_src"].grad[0]])
        pairs_of_gradients += [(half, gradients), (layer.project.weight.grad, named["lin.weight"].grad)]
    else:
        assert layer.project_query is not None
        pairs_of_gradients += [
            (half, named["att"].grad[0]),
            (layer.project.weight.grad, named["lin_l.weight"].grad),
            (layer.project_query.weight.grad, named["lin_r.weight"].grad),
        ]
    for mine_gradient, their_gradient in pairs_of_gradients:
        torch.testing.assert_close(mine_gradient, their_gradient, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS[::2], ids=str)
def test_relabelling_nodes_permutes_outputs(kind: dict[str, Any]) -> None:
    torch.manual_seed(2)
    model, (features, edges) = made(**kind), graph()
    order = torch.randperm(len(features))
    place = order.argsort()  # where each node is now
    moved = Edges(place[edges.targets], place[edges.sources], len(features), len(features))
    torch.testing.assert_close(model(features[order], moved), model(features, edges)[order], rtol=1e-12, atol=1e-12)


def test_only_what_is_within_as_many_hops_as_layers_changes_a_node() -> None:
    """On a chain in which node i attends to i + 1 alone, two layers see two nodes ahead and none behind."""
    torch.manual_seed(3)
    model = made(layers=2)
    chain = Edges(torch.arange(6), torch.arange(1, 7), 7, 7)
    features = torch.randn(7, 5, dtype=torch.float64)
    before = model(features, chain)
    for changed in range(7):
        other = features.clone()
        other[changed] += 1.0
        moves = (model(other, chain) != before).any(-1).nonzero().squeeze(1).tolist()
        assert moves == [node for node in (changed - 2, changed - 1, changed) if node >= 0]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_weights_sum_to_one_over_neighbours_and_a_trace_sees_heads(kind: dict[str, Any]) -> None:
    torch.manual_seed(4)
    model, (features, edges) = made(**kind), graph()
    with trace(model) as seen:
        model(features, edges)
    assert len(seen) == kind["layers"]
    records = list(seen.values())
    assert [record.weights.shape[0] for record in records] == [2] * (kind["layers"] - 1) + [kind["output_heads"]]
    for record in records:
        assert record.heads
        dense = torch.from_numpy(record.dense(0))
        torch.testing.assert_close(dense.sum(-1), torch.ones(dense.shape[:-1], dtype=dense.dtype))
        assert ((dense > 0) == edges.with_self_loops().mask()).all()


def test_a_node_that_has_no_edge_but_its_own_is_projected() -> None:
    torch.manual_seed(5)
    model, (features, edges) = made(), graph()
    layer = model.layers[0]
    assert isinstance(layer, GraphAttention)
    assert neighbours(edges, 8) == [8]
    alone = layer(features, edges.with_self_loops())[8]
    torch.testing.assert_close(alone, layer.project.weight @ features[8] + layer.bias)


def test_all_nodes_of_a_complete_graph_rank_their_neighbours_alike_but_not_in_gatv2() -> None:
    """Brody et al. 2022: a shift of the query's half before the LeakyReLU cannot change an order."""
    torch.manual_seed(6)
    features, complete = torch.randn(12, 5), Edges.from_mask(torch.ones(12, 12, dtype=torch.bool))
    orders = {}
    for score in ("gat", "gatv2"):
        layer = GraphAttention(5, 16, 4, replace(TINY, score=score)).eval()
        keys = layer._by_head(layer.project(features))
        query = keys if layer.project_query is None else layer._by_head(layer.project_query(features))
        orders[score] = layer.attention.score.on_edges(query, keys, complete).view(4, 12, 12).argsort(-1)
    assert (orders["gat"] == orders["gat"][:, :1]).all()
    assert (orders["gatv2"] != orders["gatv2"][:, :1]).any()


def test_a_shift_of_the_query_changes_weights_only_with_the_sign_of_a_sum() -> None:
    """LeakyReLU comes after the sum: it is linear where no sign changes, and there a constant falls out."""
    halves = torch.tensor([3.0, 4.0, 5.0], dtype=torch.float64)
    keys, edges = halves.unsqueeze(-1), Edges.of(torch.tensor([[0, 0, 0], [0, 1, 2]]), num_queries=1, num_keys=3)
    layer = GraphAttention(1, 1, 1, replace(TINY)).double().eval()
    with torch.no_grad():
        layer.attention.score.weight.fill_(1.0)
    weights = [
        layer.attention(torch.full((1, 1, 1), shift, dtype=torch.float64), keys[None], keys[None], edges).weights
        for shift in (0.0, 10.0, -4.5)
    ]
    torch.testing.assert_close(weights[0], weights[1])
    assert not torch.allclose(weights[0], weights[2])


def test_the_softmax_is_over_the_sources_of_a_target() -> None:
    """A node with many sources shares its weight among them; the same edges turned round give other results."""
    torch.manual_seed(7)
    model, (features, edges) = made(), graph()
    turned = Edges(edges.sources, edges.targets, len(features), len(features))
    assert not torch.allclose(model(features, edges), model(features, turned))


def test_the_twin_weighs_all_neighbours_alike() -> None:
    torch.manual_seed(8)
    features, edges = graph()
    with trace(model := made(attention="constant")) as seen:
        model(features, edges)
    degrees = torch.tensor([len(neighbours(edges, node)) for node in range(9)], dtype=torch.float64)
    for record in seen.values():
        expected = edges.with_self_loops().mask() / degrees[:, None]
        torch.testing.assert_close(
            torch.from_numpy(record.dense(0)).double(), expected.expand(len(record.weights), -1, -1)
        )
    ones = ConstantScore()
    assert torch.equal(ones(torch.zeros(2, 3, 4), torch.zeros(2, 5, 4)), torch.ones(2, 3, 5))
    assert sum(parameter.numel() for parameter in made().parameters()) - 2 * (2 * 4 + 3) == sum(
        parameter.numel() for parameter in model.parameters()
    )


@pytest.mark.parametrize("align", [name for name, kind in ALIGNS.items() if kind.has_edge_form])
def test_any_alignment_over_edges(align: str) -> None:
    torch.manual_seed(9)
    model, (features, edges) = made(align=align), graph()
    output = model(features, edges)
    output.sum().backward()
    assert output.isfinite().all()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


def test_an_alignment_without_an_edge_form_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"model\.align: got 'local_monotonic'; expected one of softmax, "):
        replace(TINY, align="local_monotonic")


@pytest.mark.parametrize("name", ["input_dropout", "weight_dropout", "feature_dropout"])
def test_each_dropout_acts_by_itself_and_in_training_alone(name: str) -> None:
    torch.manual_seed(10)
    off = {"input_dropout": 0.0, "weight_dropout": 0.0, "feature_dropout": 0.0}
    model, (features, edges) = made(**off | {name: 0.5}), graph()
    expected = made(**off)
    expected.load_state_dict(model.state_dict())
    torch.testing.assert_close(model(features, edges), expected(features, edges))
    model.train()
    assert not torch.allclose(model(features, edges), model(features, edges))
    expected.train()
    torch.testing.assert_close(expected(features, edges), expected.eval()(features, edges))


def test_dropout_keeps_the_mean() -> None:
    """Of one layer without a nonlinearity: each of the three masks has the mean 1, and they are independent."""
    torch.manual_seed(11)
    features, edges = graph(6)
    layer = GraphAttention(5, 4, 2, replace(TINY, attention="constant", input_dropout=0.3)).double()
    expected = layer.eval()(features, edges.with_self_loops())
    copies, nodes = 6000, len(features)  # of the graph, side by side: each has chance of its own
    first = torch.arange(copies).repeat_interleave(len(edges.targets)) * nodes
    many = Edges(edges.targets.repeat(copies) + first, edges.sources.repeat(copies) + first, *[copies * nodes] * 2)
    with torch.no_grad():
        drawn = layer.train()(features.repeat(copies, 1), many.with_self_loops())
    torch.testing.assert_close(drawn.view(copies, nodes, -1).mean(0), expected, rtol=0.1, atol=0.12)


def test_sizes_of_the_paper() -> None:
    """Cora without biases of the scores: 92,373 weights; PPI has three layers, 4 × 256, 4 × 256 and 6 heads."""
    cora = GAT(replace(gat_citations(), features=1433, classes=7))
    assert sum(parameter.numel() for parameter in cora.parameters()) == 92_373
    with torch.device("meta"):
        ppi = GAT(replace(gat_inductive(), features=50, classes=121))
    shapes = [layer.project.weight.shape for layer in [*ppi.layers, ppi.output]]  # type: ignore[union-attr]
    assert shapes == [(1024, 50), (1024, 1024), (726, 1024)]
    assert ppi.config.skip
    assert ppi.config.input_dropout == ppi.config.weight_dropout == ppi.config.feature_dropout == 0


def test_weights_begin_as_glorot_says() -> None:
    torch.manual_seed(12)
    layer = GraphAttention(300, 20, 4, TINY)
    assert layer.project.weight.abs().max() <= math.sqrt(6 / 320)
    assert layer.project.weight.std().item() == pytest.approx(math.sqrt(2 / 320), rel=0.05)
    assert not layer.bias.any()


def test_several_graphs_side_by_side_do_not_see_each_other() -> None:
    torch.manual_seed(13)
    model, graphs = made(), [graph(5, seed=1), graph(7, seed=2)]
    joined = model(torch.cat([features for features, _ in graphs]), Edges.join([edges for _, edges in graphs]))
    torch.testing.assert_close(joined, torch.cat([model(features, edges) for features, edges in graphs]))


def test_wrong_features() -> None:
    with pytest.raises(ShapeError, match="features of nodes: got 4; expected 5"):
        made()(torch.zeros(3, 4, dtype=torch.float64), Edges.of(torch.zeros(2, 0, dtype=torch.long), num_queries=3))


@pytest.mark.parametrize("build", [lambda: made(), lambda: made(score="gatv2"), lambda: made(layers=3, skip=True)])
def test_gradients_by_finite_differences(build: Callable[[], GAT]) -> None:
    torch.manual_seed(14)
    model, (features, edges) = build(), graph(5)
    assert torch.autograd.gradcheck(lambda nodes: model(nodes, edges), features.requires_grad_())
