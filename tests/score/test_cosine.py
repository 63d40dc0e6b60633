"""Cosine with key strength."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.align import softmax
from regard.score import Cosine, cosine

QUERY = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
KEYS = torch.tensor([[3.0, 4.0], [-1.0, 0.5], [0.0, 1.0]], dtype=torch.float64)


@pytest.mark.parametrize("score", [cosine, Cosine()])
def test_golden_values(score: object) -> None:
    scores = score(QUERY, KEYS)
    expected = torch.tensor([[0.983870, 0.0, 0.894427]], dtype=torch.float64)
    weights = torch.tensor([[0.437005, 0.163379, 0.399615]], dtype=torch.float64)
    torch.testing.assert_close(scores, expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(softmax(scores), weights, rtol=0, atol=1e-6)


def test_largest_attainable_weight() -> None:
    bound = math.e / (math.e + 9 / math.e)
    assert bound == pytest.approx(0.451, abs=5e-4)
    query = torch.randn(1, 6, dtype=torch.float64)
    worst = torch.cat([query, -query.expand(9, 6)])
    assert softmax(cosine(query, worst))[0, 0].item() == pytest.approx(bound)
    weights = softmax(cosine(torch.randn(500, 10, 6), torch.randn(500, 10, 6)))
    assert weights.max() <= bound


@settings(deadline=None, max_examples=25)
@given(st.floats(1e-3, 1e3), st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=3))
def test_positive_rescaling_changes_nothing(of_query: float, of_keys: list[float]) -> None:
    scaled = cosine(of_query * QUERY, torch.tensor(of_keys, dtype=torch.float64).unsqueeze(-1) * KEYS)
    torch.testing.assert_close(scaled, cosine(QUERY, KEYS))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("score", [cosine, Cosine()])
def test_zero_vectors_score_zero_with_finite_gradients(score: object, dtype: torch.dtype) -> None:
    query = torch.tensor([[0.0, 0.0], [1.0, 2.0]], dtype=dtype, requires_grad=True)
    keys = torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, 1.0]], dtype=dtype, requires_grad=True)
    scores = score(query, keys)
    scores.sum().backward()
    assert (scores[0] == 0).all()
    assert (scores[:, 1] == 0).all()
    assert query.grad.isfinite().all()
    assert keys.grad.isfinite().all()


def test_key_strength_multiplies_and_sharpens() -> None:
    query, keys = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    torch.testing.assert_close(Cosine(7.0)(query, keys), 7 * cosine(query, keys))
    torch.testing.assert_close(softmax(Cosine(0.0)(query, keys)), torch.full((2, 3, 5), 0.2))
    sharp = softmax(Cosine(1e4)(query, keys))
    torch.testing.assert_close(sharp.argmax(-1), cosine(query, keys).argmax(-1))
    assert sharp.amax(-1).min() > 0.99


def test_key_strength_may_be_a_tensor_per_query() -> None:
    query, keys, strength = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.rand(2, 3, 1, requires_grad=True)
    scores = Cosine(strength)(query, keys)
    torch.testing.assert_close(scores, strength * cosine(query, keys))
    torch.testing.assert_close(cosine(query, keys, strength), scores)
    scores.sum().backward()
    torch.testing.assert_close(strength.grad, cosine(query, keys).sum(-1, keepdim=True))
    assert list(Cosine(strength).parameters()) == []


@pytest.mark.parametrize("score", [cosine, lambda query, keys, strength: Cosine(strength)(query, keys)])
def test_key_strength_of_another_dtype(score: object) -> None:
    query, keys = torch.randn(3, 4, dtype=torch.bfloat16), torch.randn(5, 4, dtype=torch.bfloat16)
    torch.testing.assert_close(score(query, keys, torch.full((3, 1), 2.0)), score(query, keys, 2.0))


def test_learned_strength_gets_its_gradient() -> None:
    score, query, keys = Cosine(2.0, learned=True), torch.randn(3, 4), torch.randn(5, 4)
    score(query, keys).sum().backward()
    torch.testing.assert_close(score.strength.grad, cosine(query, keys).sum())
    assert score.state_dict()["strength"] == 2


def test_repr_shows_the_strength() -> None:
    assert repr(Cosine(2.0)) == "Cosine(strength=2.0)"
    assert repr(Cosine(learned=True)) == "Cosine(strength=tensor)"
