from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.base import ConfigError, RegardError
from regard.studio.calls import CalledLayer, Calls, read_calls
from regard.studio.calls import recording as record


@pytest.fixture
def encoder() -> Any:
    return torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2).eval()


@torch.no_grad()
def test_rows_are_those_of_a_trace(encoder: Any, tmp_path: Path) -> None:
    x, words = torch.randn(1, 9, 16), [f"w{number}" for number in range(9)]
    with regard.trace(encoder) as seen:
        encoder(x)
    with record(encoder, labels=words) as calls:
        encoder(x)
    shown = read_calls("it", calls.save(tmp_path / "it.safetensors"))
    assert [layer.name for layer in shown.layers] == list(seen)
    for layer, name in zip(shown.layers, seen, strict=True):
        weights = seen[name].weights[0]
        np.testing.assert_allclose(layer.block(3, slice(2, 7), slice(1, 9)), weights[3, 2:7, 1:9], atol=1e-6)
        np.testing.assert_allclose(layer.block(None, slice(0, 9), slice(0, 9)), weights.mean(0), atol=1e-6)
        np.testing.assert_allclose(layer.thumbnails(), weights, atol=1e-3)
        assert layer.row_labels == words
    assert shown.overview()["layers"][0]["rows"] == 9


def test_a_causal_layer_with_shared_keys() -> None:
    query, keys = torch.randn(4, 6, 8), torch.randn(2, 6, 8)
    layer = CalledLayer("it", query, keys, 0, 0.3, None)
    scores = 0.3 * query @ keys.repeat_interleave(2, 0).transpose(1, 2)
    expected = scores.masked_fill(~torch.ones(6, 6).tril().bool(), -torch.inf).softmax(-1)
    for head in range(4):
        np.testing.assert_allclose(layer.block(head, slice(0, 6), slice(0, 6)), expected[head], atol=1e-6)


def test_of_a_large_block_some_rows_are_computed() -> None:
    layer = CalledLayer("it", torch.randn(2, 2000, 4), torch.randn(2, 2000, 4), None, 1.0, None)
    assert layer.block(0, slice(0, 2000), slice(0, 2000)).shape == (1024, 2000)
    assert layer.block(None, slice(0, 2000), slice(0, 10)).shape == (512, 10)
    row = layer.block(1, slice(1500, 1501), slice(0, 2000))
    np.testing.assert_allclose(row.sum(), 1, atol=1e-5)


def test_what_cannot_be_kept_is_said(encoder: Any, tmp_path: Path) -> None:
    with record(encoder) as calls:
        encoder(torch.randn(1, 4, 16), mask=torch.zeros(4, 4))
    assert calls.layers == []
    assert "its masks differ" in calls.left_out[0]
    with pytest.raises(RegardError, match="no call of fused attention was seen"), record(torch.nn.Linear(2, 2)) as _:
        pass
    with pytest.raises(ConfigError, match=r"ends in \.safetensors"):
        Calls().save(tmp_path / "x.json")
    for content in (b"", b"x" * 100):
        (tmp_path / "x.safetensors").write_bytes(content)
        with pytest.raises(RegardError, match="holds no calls"):
            read_calls("x", tmp_path / "x.safetensors")
