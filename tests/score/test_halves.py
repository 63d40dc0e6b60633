"""Scores in two halves: the formulas with pairs laid side by side, heads, and what is known about graph attention."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard import Attention
from regard.base import ConfigError, ShapeError
from regard.score import Concatenation, Edges, GraphAdditive, Projected, graph_additive


def side_by_side(query: Tensor, keys: Tensor) -> Tensor:
    """[q_i, k_j] for every pair: [*b q k 2d]."""
    shape = (*query.shape[:-1], keys.shape[-2], query.shape[-1])
    return torch.cat([query.unsqueeze(-2).expand(shape), keys.unsqueeze(-3).expand(shape)], -1)


def test_graph_additive_by_hand() -> None:
    score = GraphAdditive(3, slope=0.3)
    query, keys = torch.randn(2, 5, 3), torch.randn(2, 4, 3)
    expected = F.leaky_relu(side_by_side(query, keys) @ score.weight.flatten(), 0.3)
    assert (expected < 0).any()
    torch.testing.assert_close(score(query, keys), expected)
    torch.testing.assert_close(graph_additive(query, keys, score.weight, slope=0.3), expected)
    assert score.prepare(keys).keys.shape == (2, 4, 1)
    assert repr(score) == "GraphAdditive(dim=3, slope=0.3)"


def test_each_head_has_its_own_vector() -> None:
    score = GraphAdditive(3, num_heads=2)
    query, keys = torch.randn(4, 2, 5, 3), torch.randn(4, 2, 6, 3)
    edges = Edges.from_mask(torch.rand(5, 6) < 0.6)
    scores, on_edges = score(query, keys), score.on_edges(query, keys, edges)
    for head in range(2):
        alone = GraphAdditive(3)
        alone.load_state_dict({"weight": score.weight[:, head]})
        torch.testing.assert_close(scores[:, head], alone(query[:, head], keys[:, head]))
        torch.testing.assert_close(on_edges[:, head], alone.on_edges(query[:, head], keys[:, head], edges))
    torch.testing.assert_close(graph_additive(query, keys, score.weight), scores)
    assert repr(score) == "GraphAdditive(dim=3, slope=0.2, num_heads=2)"
    with pytest.raises(ShapeError, match=r"a vector for each head of the keys: got \[4, 3, 6, 3\]; expected \[..., 2"):
        score(query, torch.randn(4, 3, 6, 3))


@pytest.mark.parametrize("score", [GraphAdditive(8), Concatenation(8)], ids=str)
def test_edges_and_matrix_agree_to_the_last_bit(score: GraphAdditive | Concatenation) -> None:
    query, keys = torch.randn(3, 40, 8), torch.randn(3, 50, 8)
    edges = Edges.from_mask(torch.rand(40, 50) < 0.2)
    assert torch.equal(score.on_edges(query, keys, edges), score(query, keys)[..., edges.targets, edges.sources])


def test_the_ranking_of_neighbours_is_the_same_for_every_query() -> None:
    """Brody et al. 2022: graph attention is static, as the half of a key does not know who asks."""
    scores = GraphAdditive(4)(torch.randn(20, 4), torch.randn(9, 4))
    order = scores.argsort(-1)
    assert (order == order[0]).all()


def test_the_first_vector_is_drawn_as_glorot_says() -> None:
    torch.manual_seed(0)
    weight = GraphAdditive(500).weight
    assert weight.abs().max() <= math.sqrt(6 / 1001)
    assert weight.std().item() == pytest.approx(math.sqrt(2 / 1001), rel=0.05)


def test_concatenation_lays_no_pairs() -> None:
    score = Concatenation(3)
    query, keys = torch.randn(2, 5, 3), torch.randn(2, 4, 3)
    torch.testing.assert_close(score(query, keys), F.relu(side_by_side(query, keys) @ score.weight.flatten()))
    assert score.prepare(keys).keys.shape == (2, 4, 1)
    assert repr(score) == "Concatenation(dim=3)"


def test_wrong_widths_and_types() -> None:
    for kind in (GraphAdditive, Concatenation):
        with pytest.raises(
            ShapeError, match=rf"keys has the wrong width: got 5; expected 4. Try: write {kind.__name__}\(dim"
        ):
            kind(4)(torch.zeros(2, 4), torch.zeros(3, 5))
        with pytest.raises(ShapeError, match="query has the wrong width: got 5; expected 4"):
            kind(4)(torch.zeros(2, 5), torch.zeros(3, 4))
        with pytest.raises(ConfigError, match=r"query has the wrong type: got torch.float64; expected torch.float32"):
            kind(4)(torch.zeros(2, 4).double(), torch.zeros(3, 4))
        with pytest.raises(ConfigError, match=f"{kind.__name__} dim: got 0; expected more than 0"):
            kind(0)
    with pytest.raises(ConfigError, match="GraphAdditive num_heads: got 0"):
        GraphAdditive(4, num_heads=0)


def test_a_graph_attention_head_is_a_shared_projection_before_the_score() -> None:
    """LeakyReLU(aᵀ [W h_i, W h_j]) with one W for both sides, by the paper's formula."""
    layer = Attention(Projected(GraphAdditive(3), 5, 5, 3))
    layer.score.to_keys.weight = layer.score.to_query.weight
    nodes = torch.randn(6, 5)
    projected = nodes @ layer.score.to_query.weight.T
    scores = F.leaky_relu(side_by_side(projected, projected) @ layer.score.score.weight.flatten(), 0.2)
    torch.testing.assert_close(layer(nodes, nodes, projected).weights, scores.softmax(-1))


@pytest.mark.parametrize(
    "score", [GraphAdditive(3, slope=0.3), Concatenation(3), GraphAdditive(3, num_heads=2)], ids=str
)
def test_the_form_that_the_kernel_over_edges_takes(score: GraphAdditive | Concatenation) -> None:
    query, keys = torch.randn(2, 5, 3), torch.randn(2, 4, 3)
    form = score.as_halves(query, score.prepare(keys).keys)
    sums = form.query.unsqueeze(-1) + form.keys.unsqueeze(-2)
    torch.testing.assert_close(torch.where(sums > 0, sums, form.slope * sums), score(query, keys))
    assert score.is_halves
    assert not Projected(score, 3, 3, 3).is_halves
    with pytest.raises(NotImplementedError, match="Projected is not a sum of two halves"):
        Projected(score, 3, 3, 3).as_halves(query, keys)
