import pytest
import torch
from table import cases

from regard.align import ALIGNS
from regard.base import ConfigError
from regard.nn import build_attention
from regard.score import SCORES


@cases("align", ALIGNS)
@pytest.mark.parametrize("score", [name for name in SCORES if name != "projected"])
def test_every_name_gives_an_attention_for_any_widths(score: str, align: str) -> None:
    layer = build_attention(score, align, query_dim=6, key_dim=10, hidden_dim=4, window=2, max_keys=8)
    assert align == next(name for name, kind in ALIGNS.items() if type(layer.align) is kind)
    query, keys = torch.randn(2, 3, 6, requires_grad=True), torch.randn(2, 5, 10)
    out = layer(query, keys, keys)
    assert out.weights.shape == (2, 3, 5)
    assert torch.isfinite(out.context).all()


def test_equal_widths_are_made_by_projection() -> None:
    layer = build_attention("cosine", "softmax", query_dim=6, key_dim=10, hidden_dim=4)
    assert layer.score.score.strength.item() == 8.0
    assert layer.score.to_keys.out_features == 4


@pytest.mark.parametrize(("score", "align", "text"), [
    ("aditive", "softmax", "unknown score: got 'aditive'; expected one of dot, .* Did you mean 'additive'"),
    ("dot", "spasemax", "unknown align: got 'spasemax'; .* Did you mean 'sparsemax'"),
    ("dot", "xyz", "unknown align: got 'xyz'"),
])  # fmt: skip
def test_unknown_names(score: str, align: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        build_attention(score, align, query_dim=6, key_dim=10, hidden_dim=4)
