import pytest
import torch
from torch import Tensor

from regard import Attention, attend
from regard.score import Additive, Cosine, Dot, LocationAware, Projected, ScaledDot, Score


@pytest.mark.parametrize(
    "inner", [Dot(), ScaledDot(), Cosine(3.0), Additive(5, 5, 2)], ids=lambda score: type(score).__name__
)
def test_is_the_score_of_projected_sides(inner: Score) -> None:
    score = Projected(inner, 6, 4, 5)
    query, keys = torch.randn(2, 3, 6), torch.randn(2, 7, 4)
    expected = inner(query @ score.to_query.weight.T, keys @ score.to_keys.weight.T)
    torch.testing.assert_close(score(query, keys), expected)
    torch.testing.assert_close(score(query, score.prepare(keys)), expected)
    assert score.is_dot == inner.is_dot


def test_a_projected_product_takes_the_fused_kernel_with_the_same_result() -> None:
    score = Projected(ScaledDot(), 6, 4, 5)
    query, keys = torch.randn(2, 3, 6), torch.randn(2, 7, 4)
    fused = attend(query, keys, keys, score=score, need_weights=False, impl="sdpa").context
    torch.testing.assert_close(fused, attend(query, keys, keys, score=score, impl="reference").context)


def test_history_reaches_the_score_inside() -> None:
    layer = Attention(Projected(LocationAware(5, 5, 4, filters=2, width=3), 6, 4, 5))
    query, keys = torch.randn(2, 3, 6), torch.randn(2, 7, 4)
    whole = layer(query, keys, keys).weights
    previous: Tensor | None = None
    for t in range(3):
        row = layer(query[:, t : t + 1], keys, keys, previous=previous).weights
        previous = row[:, 0]
        torch.testing.assert_close(row[:, 0], whole[:, t])
