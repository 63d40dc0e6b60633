"""The LSTMN in ONNX, word by word, against the whole loop of ours."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_models import TEXTS, classifier

from regard.attention import trace
from regard.export import export_model
from regard.export.run_onnx import load

pytestmark = pytest.mark.bare
SIZES = {"embed_dim": 6, "hidden_dim": 8, "align_dim": 5, "mlp_dim": 7}


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"tape": 4},  # shorter than the texts
        {"paired": True, "fusion": "deep"},
        {"paired": True, "fusion": "shallow", "layers": 2, "tape": 5},
        {"paired": True, "fusion": "none", "score": "scaled_dot"},
    ],
)
def test_texts_and_pairs_are_classified_alike(changes: dict[str, Any], tmp_path: Path) -> None:
    model = classifier("lstmn_reader", **(SIZES | changes))
    exported = load(export_model(model, "onnx", tmp_path / "out"), threads=1)
    sides = model.module.config.texts
    texts: list[Any] = [text for text in TEXTS if text] if sides == 1 else [("the cat", "un chien !"), ("le", TEXTS[4])]
    for theirs, ours in zip(exported.classify(texts), model.classify(texts), strict=True):
        assert theirs.text == ours.text
        np.testing.assert_allclose(theirs.probabilities, ours.probabilities, atol=1e-6)
    ids = torch.randint(4, 12, (4, sides, 7), generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([[7, 1], [3, 7], [1, 2], [5, 5]])[:, :sides]
    ids = ids * (torch.arange(7) < lengths.unsqueeze(-1))
    with torch.no_grad(), trace(model.module) as seen:
        logits = model.module(ids, lengths).logits.squeeze(1).numpy()
    outputs = exported.classify_ids(ids.numpy(), lengths.numpy())
    np.testing.assert_allclose(outputs["logits"], logits, atol=1e-5)
    for name, record in seen.items():  # first.0.attention, second.1.inter_attention
        text, layer, kind = name.split(".")
        weights = outputs[f"{text}.{'weights' if kind == 'attention' else 'inter'}.{layer}"]
        side = 0 if text == "first" else 1
        for row, length in enumerate(lengths[:, side].tolist()):
            ours = np.asarray(record.weights)[row, :length]
            assert weights.shape[1] == 7
            np.testing.assert_allclose(weights[row, :length, : ours.shape[1]], ours, atol=1e-5)
