"""States as named tensors, their axes, and the recording of a graph."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from regard.base import RegardError
from regard.decode import Shared
from regard.export.graphs import StateLayout, measured_axes, record


class Nest(NamedTuple):
    """A state with all that a state may hold."""

    caches: tuple[Any, ...]
    keys: Shared
    time: int
    kind: str = "plain"


def test_a_state_becomes_named_tensors_and_a_state_again() -> None:
    caches = ({"hidden": torch.ones(2, 3)}, None)
    state = Nest(caches, Shared((torch.zeros(2, 5),)), 7)
    layout = StateLayout.of(state)
    assert [place.name for place in layout.places] == ["caches.0.hidden", "keys.0", "time"]
    tensors = layout.tensors(state)
    assert [list(tensor.shape) for tensor in tensors] == [[2, 3], [2, 5], []]
    again = layout.state([tensor + 1 for tensor in tensors])
    assert isinstance(again, Nest)
    assert (again.kind, again.caches[1], int(again.time)) == ("plain", None, 8)
    torch.testing.assert_close(again.caches[0]["hidden"], torch.full((2, 3), 2.0))
    torch.testing.assert_close(again.keys.value[0], torch.ones(2, 5))


def test_axes_are_measured_one_by_one() -> None:
    def make(batch: int, source: int, written: int) -> list[Tensor]:
        return [torch.zeros(batch, 5, source), torch.zeros(written, 2), torch.zeros(())]

    assert measured_axes(make) == [("batch", 5, "source"), ("written", 2), ()]


@pytest.mark.bare
def test_a_graph_takes_any_size_and_a_fixed_one_is_refused(tmp_path: Path) -> None:
    layer = nn.Linear(3, 2).requires_grad_(False)
    inputs, axes, path = {"x": torch.randn(4, 5, 3)}, ("batch", "source", 3), tmp_path / "graph.onnx"
    out = ("batch", "source", 2)

    def same_twice(x: Tensor) -> list[Tensor]:
        y = layer(x)
        return [y, y, x]

    recorded = record(layer, same_twice, inputs, [axes], ["y", "again", "seen"], [out, out, axes], path)
    assert [each.to_json() for each in recorded.inputs] == [
        {"name": "x", "type": "float32", "axes": ["batch", "source", 3]}
    ]
    session = onnxruntime.InferenceSession(str(path))
    for shape in ((1, 1, 3), (7, 2, 3), (0, 4, 3)):
        x = torch.randn(shape)
        for theirs, ours in zip(session.run(None, {"x": x.numpy()}), same_twice(x), strict=True):
            np.testing.assert_allclose(theirs, ours.numpy(), atol=1e-6)
    with pytest.raises(RegardError, match=r"torch.export fixed the axis 'batch': got 4"):
        record(layer, lambda x: [layer(x) * len(x)], inputs, [axes], ["y"], [out], path)

    def broken(x: Tensor) -> list[Tensor]:
        return [layer(x)] if float(x.sum()) > 0 else [x]

    with pytest.raises(RegardError, match="torch cannot export this model: got "):
        record(layer, broken, inputs, [axes], ["y"], [out], path)
