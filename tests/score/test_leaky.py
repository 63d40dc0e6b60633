"""The score of GATv2: its formula pair by pair, heads, edges, and that its ranking depends on who asks."""

import math

import pytest
import torch
import torch.nn.functional as F

from regard.base import ConfigError, ShapeError
from regard.score import Edges, LeakyAdditive, Projected, leaky_additive


def test_by_hand() -> None:
    torch.manual_seed(0)
    score = LeakyAdditive(3, slope=0.3)
    query, keys = torch.randn(2, 5, 3), torch.randn(2, 4, 3)
    expected = torch.empty(2, 5, 4)
    for place in torch.cartesian_prod(torch.arange(2), torch.arange(5), torch.arange(4)).tolist():
        batch, i, j = place
        expected[batch, i, j] = score.weight @ F.leaky_relu(query[batch, i] + keys[batch, j], 0.3)
    torch.testing.assert_close(score(query, keys), expected)
    torch.testing.assert_close(leaky_additive(query, keys, score.weight, slope=0.3), expected)
    assert repr(score) == "LeakyAdditive(dim=3, slope=0.3)"


def test_each_head_has_its_own_vector() -> None:
    torch.manual_seed(1)
    score = LeakyAdditive(3, num_heads=2)
    query, keys = torch.randn(4, 2, 5, 3), torch.randn(4, 2, 6, 3)
    edges = Edges.from_mask(torch.rand(5, 6) < 0.6)
    scores, on_edges = score(query, keys), score.on_edges(query, keys, edges)
    for head in range(2):
        alone = LeakyAdditive(3)
        alone.load_state_dict({"weight": score.weight[head]})
        torch.testing.assert_close(scores[:, head], alone(query[:, head], keys[:, head]))
        torch.testing.assert_close(on_edges[:, head], alone.on_edges(query[:, head], keys[:, head], edges))
    assert repr(score) == "LeakyAdditive(dim=3, slope=0.2, num_heads=2)"
    with pytest.raises(ShapeError, match=r"a vector for each head of the keys: got \[4, 3, 6, 3\]; expected \[..., 2"):
        score(query, torch.randn(4, 3, 6, 3))


def test_edges_and_matrix_agree_to_the_last_bit() -> None:
    torch.manual_seed(2)
    score, query, keys = LeakyAdditive(8), torch.randn(3, 40, 8), torch.randn(3, 50, 8)
    edges = Edges.from_mask(torch.rand(40, 50) < 0.2)
    assert torch.equal(score.on_edges(query, keys, edges), score(query, keys)[..., edges.targets, edges.sources])


def test_the_ranking_of_neighbours_depends_on_the_query() -> None:
    """Brody et al. 2022: what `GraphAdditive` cannot do."""
    score = LeakyAdditive(1)
    with torch.no_grad():
        score.weight.fill_(-1.0)  # the smallest sum is the best key, whoever asks …
    two = LeakyAdditive(2, slope=0.0)
    with torch.no_grad():
        two.weight.fill_(-1.0)  # −|q − k| for queries (q, −q) and keys (−k, k): the nearest key is the best one
    places = torch.tensor([[0.0], [1.0], [2.0]])
    nearest = two(torch.cat([places, -places], -1), torch.cat([-places, places], -1)).argmax(-1)
    assert nearest.tolist() == [0, 1, 2]
    assert score(places, places).argmax(-1).tolist() == [0, 0, 0]


def test_the_first_vector_is_drawn_as_glorot_says() -> None:
    torch.manual_seed(0)
    weight = LeakyAdditive(1000).weight
    assert weight.abs().max() <= math.sqrt(6 / 1001)
    assert weight.std().item() == pytest.approx(math.sqrt(2 / 1001), rel=0.05)


def test_wrong_widths_and_types() -> None:
    with pytest.raises(ShapeError, match=r"keys has the wrong width: got 5; expected 4. Try: write LeakyAdditive\(dim"):
        LeakyAdditive(4)(torch.zeros(2, 4), torch.zeros(3, 5))
    with pytest.raises(ShapeError, match="query has the wrong width: got 5; expected 4"):
        LeakyAdditive(4)(torch.zeros(2, 5), torch.zeros(3, 4))
    with pytest.raises(ConfigError, match=r"query has the wrong type: got torch.float64; expected torch.float32"):
        LeakyAdditive(4)(torch.zeros(2, 4).double(), torch.zeros(3, 4))
    for sizes in ({"dim": 0}, {"dim": 4, "num_heads": 0}):
        with pytest.raises(ConfigError, match=r"LeakyAdditive (dim|num_heads): got 0; expected more than 0"):
            LeakyAdditive(**sizes)
    assert isinstance(LeakyAdditive.for_widths(3, 5, hidden_dim=4, max_keys=9), Projected)
