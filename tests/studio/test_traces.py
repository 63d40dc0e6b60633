import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.base import RegardError
from regard.studio.traces import MOST_CELLS, Shown, Traces, of_trace, shrunk


def weights_of(answer: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(answer["weights"]), "<f4").reshape(answer["shape"])


def test_the_overview_has_every_layer_head_and_label(seen: Any) -> None:
    overview = of_trace("it", seen).overview()
    assert [layer["name"] for layer in overview["layers"]] == list(seen)
    assert overview["layers"][1]["heads"] == [0, 1, 2, 3]
    assert overview["layers"][0]["shape"] == [7, 7]
    labels = overview["labels"][overview["layers"][0]["row_labels"]]
    assert labels == ["the", "cat", "sat", "on", "the", "old", "mat"]
    steps = np.frombuffer(base64.b64decode(overview["layers"][0]["thumbnails"]), np.uint8).reshape(4, 7, 7)
    weights = seen[0].weights[0]
    np.testing.assert_allclose(steps / 255, weights / weights.max((1, 2), keepdims=True), atol=0.003)


def test_blocks_are_those_of_the_trace(seen: Any) -> None:
    shown, weights = of_trace("it", seen), seen[1].weights[0]
    name = list(seen)[1]
    np.testing.assert_allclose(weights_of(shown.rows({"layer": name, "head": 2})), weights[2])
    part = shown.rows({"layer": name, "head": 3, "rows": [2, 4], "columns": [1, 6]})
    np.testing.assert_allclose(weights_of(part), weights[3, 2:4, 1:6])
    np.testing.assert_allclose(weights_of(shown.rows({"layer": name, "head": None})), weights.mean(0), rtol=1e-6)
    assert part["largest"] == pytest.approx(weights[3, 2:4, 1:6].max())


@pytest.mark.parametrize(
    "body",
    [
        {}, {"layer": "x"}, {"layer": None}, {"head": 4}, {"head": "0"}, {"head": True}, {"rows": [0, 8]},
        {"rows": [3, 3]}, {"rows": [-1, 2]}, {"columns": [0, 2**70]}, {"columns": "all"}, {"columns": [0.5, 2]},
    ],
)  # fmt: skip
def test_other_blocks_are_refused(seen: Any, body: dict[str, Any]) -> None:
    whole = body if "layer" in body or not body else {"layer": next(iter(seen)), **body}
    with pytest.raises(RegardError):
        of_trace("it", seen).rows(whole)


def test_large_matrices_are_averaged() -> None:
    matrix = np.random.default_rng(0).random((1000, 700))
    small = shrunk(matrix, MOST_CELLS, MOST_CELLS)
    assert small.shape == (512, 512)
    assert shrunk(matrix, 10, 7)[3, 2] == pytest.approx(matrix[300:400, 200:300].mean())


def test_names_files_and_what_is_not_there(seen: Any, tmp_path: Path) -> None:
    seen.save(tmp_path / "seen.json")
    (tmp_path / "other.json").write_bytes(b"\xff\xfe")
    traces = Traces()
    assert traces.add_file(tmp_path / "seen.json") == "seen"
    assert traces.add("seen", seen) == "seen (2)"
    traces.add_file(tmp_path / "other.json")
    assert [line["name"] for line in traces.lines()] == ["seen", "other", "seen (2)"]
    assert isinstance(traces.get("seen"), Shown)
    assert traces.lines()[0]["layers"] == 2
    with pytest.raises(RegardError, match="no trace"):
        traces.get("other")
    for wrong in (str(tmp_path / "seen.json"), "../seen", None):
        with pytest.raises(RegardError, match="the studio has no such trace"):
            traces.get(wrong)
    with pytest.raises(RegardError, match="no weights to show"):
        of_trace("empty", type(seen)())
