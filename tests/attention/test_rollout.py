"""Attention rollout: the same as loops over texts, layers and places."""

import numpy as np
import pytest
import torch
from torch import nn

from regard.attention import Record, rollout, trace
from regard.base import ConfigError, ShapeError
from regard.explanation import Concepts


def by_hand(layers: list[np.ndarray], residual: float) -> np.ndarray:
    """Abnar and Zuidema (2020), number by number; the layers are [h q k]."""
    size = layers[0].shape[-1]
    mixed = [[float(i == j) for j in range(size)] for i in range(size)]
    for heads in layers:
        share = [[0.0] * size for _ in range(size)]
        for i in range(size):
            for j in range(size):
                mean = sum(float(head[i][j]) for head in heads) / len(heads)
                share[i][j] = (1 - residual) * mean + (residual if i == j else 0.0)
            total = sum(share[i])
            share[i] = [each / total for each in share[i]]
        mixed = [[sum(share[i][m] * mixed[m][j] for m in range(size)) for j in range(size)] for i in range(size)]
    return np.array(mixed)


@pytest.mark.parametrize("residual", [0.5, 0.2])
def test_rollout_of_a_traced_model(residual: float) -> None:
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 3).eval()
    with torch.no_grad(), trace(model) as seen:
        model(torch.randn(2, 5, 8))
    result = rollout(seen, residual=residual)
    assert result.shape == (2, 5, 5)
    for text in range(2):
        layers = [record.weights[text] for record in seen.values()]
        np.testing.assert_allclose(result[text], by_hand(layers, residual), atol=1e-7)
        concepts = Concepts(np.stack([each.mean(0) for each in layers]), list("abcde"))
        np.testing.assert_allclose(result[text], concepts.through_layers(residual)[-1], atol=1e-6)
    np.testing.assert_allclose(result.sum(-1), 1, atol=1e-7)
    upper = rollout(seen, "layers.[12].*", residual=residual)
    np.testing.assert_allclose(upper[0], by_hand([seen[1].weights[0], seen[2].weights[0]], residual), atol=1e-7)


def test_an_empty_row_keeps_what_it_has() -> None:
    weights = np.array([[[0.5, 0.5], [0.0, 0.0]]])
    seen = {"a": Record("a", [weights], True)}
    for residual in (0.5, 0.0):
        np.testing.assert_allclose(rollout(seen, residual=residual)[1], [0.0, 1.0])


def test_mistakes() -> None:
    square, long = np.full((2, 3, 3), 1 / 3), np.full((2, 3, 4), 1 / 4)
    seen = {"a": Record("a", [square], True), "b": Record("b", [long], True)}
    with pytest.raises(ShapeError, match=r"from all places to all places, not b: got \[3, 4\]"):
        rollout(seen)
    with pytest.raises(ConfigError, match=r"no layer has this name: got 'c'; expected a pattern for a, b"):
        rollout(seen, "c")
    with pytest.raises(ConfigError, match="all rows and heads of one pass, also of a"):
        rollout({"a": Record("a", [square], True, queries=[0, 1, 2])})
    with pytest.raises(ConfigError, match="residual of a rollout"):
        rollout(seen, "a", residual=1.0)
    smaller = Record("c", [np.full((2, 2), 0.5)])
    with pytest.raises(ShapeError, match="differ in length: got 3 and 2 places"):
        rollout({"a": seen["a"], "c": smaller})
