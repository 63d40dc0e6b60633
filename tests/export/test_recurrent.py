"""LSTM and GRU as operators of ONNX, against torch: any batch and any length, from any state."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from regard.base import RegardError
from regard.export.graphs import record
from regard.export.recurrent import RecurrentAsOnnx


@pytest.mark.bare
def test_layers_of_both_kinds_are_those_of_torch(tmp_path: Path) -> None:
    lstm, gru = nn.LSTM(3, 4, 2, batch_first=True), nn.GRU(3, 4, 2, batch_first=True)
    both = nn.ModuleList([lstm, gru]).eval().requires_grad_(False)

    def run(x: Tensor, hidden: Tensor, cell: Tensor) -> list[Tensor]:
        first, second = hidden.transpose(0, 1), cell.transpose(0, 1)
        outputs, last = lstm(x, (first, second))
        others, end = gru(x, first)
        return [outputs, *last, others, end]

    def example(batch: int, source: int) -> dict[str, Tensor]:
        state = torch.randn(2, batch, 2, 4)
        return {"x": torch.randn(batch, source, 3), "hidden": state[0], "cell": state[1]}

    text, state = ("batch", "source", 4), (2, "batch", 4)
    axes = [("batch", "source", 3), ("batch", 2, 4), ("batch", 2, 4)]
    names, output_axes = list("abcde"), [text, state, state, text, state]
    record(both, run, example(3, 5), axes, names, output_axes, tmp_path / "graph.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "graph.onnx"))
    for batch, source in ((1, 1), (2, 9), (5, 2)):
        inputs = example(batch, source)
        theirs = session.run(None, {name: value.numpy() for name, value in inputs.items()})
        for one, other in zip(theirs, run(*inputs.values()), strict=True):
            np.testing.assert_allclose(one, other.numpy(), atol=1e-6)


def test_layers_that_are_not_in_use_here_are_refused() -> None:
    for layer in (
        nn.LSTM(3, 4, bidirectional=True, batch_first=True).eval(),
        nn.GRU(3, 4).eval(),
        nn.GRU(3, 4, batch_first=True),
    ):
        with RecurrentAsOnnx(), pytest.raises(RegardError, match="this recurrent layer cannot be exported"):
            layer(torch.zeros(2, 2, 3))
