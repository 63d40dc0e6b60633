"""Location scores: from the query alone, and from the earlier weights."""

import math

import pytest
import torch

from regard.align import softmax
from regard.score import Additive, Location, LocationAware, location


def test_golden_values() -> None:
    weight = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], dtype=torch.float64)
    query = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
    expected = torch.tensor([[0.186324, 0.506480, 0.307196]], dtype=torch.float64)
    torch.testing.assert_close(softmax(location(query, weight, 3)), expected, rtol=0, atol=1e-6)


def test_keys_are_not_looked_at() -> None:
    score, query = Location(4, 6), torch.randn(2, 3, 4)
    one, two = score(query, torch.randn(2, 5, 4)), score(query, 100 * torch.randn(2, 5, 9))
    torch.testing.assert_close(one, two, rtol=0, atol=0)
    torch.testing.assert_close(one, query @ score.weight[:5].mT)


def test_no_weight_beyond_the_table() -> None:
    score, query = Location(4, 3), torch.randn(2, 4)
    scores = score(query, torch.randn(5, 4))
    assert (scores[:, 3:] == -math.inf).all()
    torch.testing.assert_close(scores[:, :3], query @ score.weight.mT)
    weights = softmax(scores)
    assert (weights[:, 3:] == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2))
    weights[:, 0].sum().backward()
    assert score.weight.grad.isfinite().all()


def _loop(score: LocationAware, query: torch.Tensor, keys: torch.Tensor, previous: torch.Tensor) -> torch.Tensor:
    """e_j = vᵀ tanh(W q + U k_j + F f_j) for one query, the convolution written out."""
    filters, half = score.convolution.weight[:, 0], score.convolution.weight.shape[-1] // 2
    scores = []
    for j in range(len(keys)):
        feature = sum(
            filters[:, half + shift] * previous[j + shift]
            for shift in range(-half, half + 1)
            if 0 <= j + shift < len(keys)
        )
        hidden = score.to_query.weight @ query + score.to_keys.weight @ keys[j] + score.to_features.weight @ feature
        scores.append(score.v @ torch.tanh(hidden))
    return torch.stack(scores)


@pytest.mark.parametrize("width", [1, 3, 9])
def test_location_aware_equals_a_loop(width: int) -> None:
    score = LocationAware(3, 5, 4, filters=2, width=width)
    query, keys, previous = torch.randn(2, 1, 3), torch.randn(2, 6, 5), torch.randn(2, 6).softmax(-1)
    expected = torch.stack([_loop(score, query[b, 0], keys[b], previous[b]) for b in range(2)])
    torch.testing.assert_close(score(query, keys, previous=previous)[:, 0], expected)
    torch.testing.assert_close(score(query[0], keys[0], previous=previous[0])[0], expected[0])
    heads = score(query[None], score.prepare(keys[None]), previous=previous[None])
    torch.testing.assert_close(heads[0, :, 0], expected)


def test_location_aware_starts_from_zeros() -> None:
    score, query, keys = LocationAware(3, 5, 4), torch.randn(2, 1, 3), torch.randn(2, 6, 5)
    first = score(query, keys)
    torch.testing.assert_close(score(query, keys, previous=torch.zeros(2, 6)), first)
    plain = Additive(3, 5, 4)
    plain.load_state_dict({key: score.state_dict()[key] for key in ("to_query.weight", "to_keys.weight", "v")})
    torch.testing.assert_close(plain(query, keys), first)


def test_location_aware_trains_its_convolution_and_the_previous_weights() -> None:
    score, previous = LocationAware(3, 5, 4, width=3), torch.full((1, 6), 1 / 6, requires_grad=True)
    score(torch.randn(1, 1, 3), torch.randn(1, 6, 5), previous=previous).sum().backward()
    assert all((p.grad != 0).any() for p in score.parameters())
    assert (previous.grad != 0).all()
