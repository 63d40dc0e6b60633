import json

import numpy as np
import pytest
from examples_of import mirror_of

from regard.base import RegardError, ShapeError, parse_json
from regard.explanation import EXPLANATIONS, EdgeWeights, Gates, Hops, Matrix, Path, Places, Shading, Tape

IMAGE = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
WHOLE = {
    "matrix": Matrix([[0.25, 0.75]], ["la"], ["the", "house"], layer="decoder.0", title="t"),
    "path": Path(IMAGE, [[0.0, -1.0]], size=2, scales=1, label="7"),
    "places": Places(IMAGE, np.full((1, 2, 2), 0.25), ["a"], (0, 0, 2, 2), [[1, 1]], (1, 1)),
    "gates": Gates({"stages.0": [[0.5, 1.0]]}, [0], ["cat"]),
    "edges": EdgeWeights([0.5, 0.5], [0, 1], [1, 1], ["a", "b"]),
    "hops": Hops([[0.5, 0.5]], ["a", "b"], marked=[1], question="q", answer="a"),
    "tape": Tape({"read 0": [[0.5, 0.5]]}, steps=["x"]),
    "shading": Shading([[0.5, 0.5]], ["a", "b"], answer="x"),
}
WHOLE |= {kind: mirror_of(kind).EXAMPLE for kind in EXPLANATIONS if kind not in WHOLE}


@pytest.mark.parametrize("seed", range(40))
def test_every_kind_survives_json(seed, random_explanations):
    for kind, explanation in random_explanations(seed).items():
        text = json.dumps(explanation.to_json(), allow_nan=False)
        again = type(explanation).from_json(parse_json(text))
        assert again == explanation, kind
        assert json.dumps(again.to_json()) == text, "what was read is written alike"


@pytest.mark.parametrize("seed", range(5))
def test_json_keeps_numbers_shapes_and_pixels(seed, random_explanations):
    for explanation in random_explanations(seed).values():
        again = type(explanation).from_json(json.loads(json.dumps(explanation.to_json())))
        for name in explanation.__dataclass_fields__:
            before, after = getattr(explanation, name), getattr(again, name)
            if isinstance(before, np.ndarray):
                assert before.shape == after.shape
                assert before.dtype == after.dtype
                assert np.allclose(before, after, rtol=5.01e-6, atol=0), "six digits that count"
            elif isinstance(before, dict):
                assert list(before) == list(after)
                assert all(before[key].shape == after[key].shape for key in before)
            else:
                assert before == after


def test_there_is_one_of_each_kind():
    assert set(WHOLE) == set(EXPLANATIONS)
    for kind, explanation in WHOLE.items():
        assert type(explanation) is EXPLANATIONS[kind]
        assert explanation.kind == kind
        content = explanation.to_json()
        assert (content["format"], content["version"], content["kind"]) == ("regard.explanation", 1, kind)


def test_equal_by_content():
    matrix = WHOLE["matrix"]
    assert matrix == Matrix(np.array([[0.25, 0.75]]), ("la",), ("the", "house"), "decoder.0", "t")
    assert matrix != Matrix([[0.25, 0.75]], ["la"], ["the", "house"], layer="decoder.1", title="t")
    assert matrix != Matrix([[0.250001, 0.75]], ["la"], ["the", "house"], layer="decoder.0", title="t")
    assert matrix == Matrix([[0.25 + 1e-9, 0.75]], ["la"], ["the", "house"], layer="decoder.0", title="t")
    assert matrix != WHOLE["tape"]
    assert matrix != "matrix"
    with pytest.raises(TypeError, match="unhashable"):
        hash(matrix)


def test_an_explanation_cannot_change():
    matrix = WHOLE["matrix"]
    with pytest.raises(AttributeError):
        matrix.title = "other"
    with pytest.raises(ValueError, match="read-only"):
        matrix.weights[0, 0] = 1.0
    weights = np.ones((1, 1))
    given = Matrix(weights, ["a"], ["b"])
    weights[0, 0] = 5.0
    assert given.weights[0, 0] == 1.0, "the caller's array is not shared"


HOSTILE = [None, True, 5, -1, 1e400, float("nan"), "0.5", "", [], [[]], [["a"]], [[1.0], [1.0, 2.0]], [[[[[1.0]]]]], {},
           {"shape": [1, 1], "values": [["0.5"]]}, {"shape": [1, 1], "values": [[None]]}, {"shape": "x", "values": []},
           {"shape": [1, 1], "values": [[float("nan")]]}, {"shape": [1, 1], "values": [[float("inf")]]},
           {"shape": [1, 1], "values": [[10**400]]}, {"shape": [-1, 1], "values": [[1.0]]}, {"shape": [0, 10**30]},
           {"shape": [2, 2], "values": [[1.0]]}, {"shape": [1, 1], "values": {"a": 1}}, {"png": "!"}, {"png": 7},
           {"png": ""}, {"png": "iVBORw0KGgo="}, [{"name": "a"}], [{"name": "a", "shape": [1], "values": [1.0]}],
           [{"name": "a"}, {"name": "a"}], [{"name": 5, "shape": [1, 1], "values": [[9.0]]}]]  # fmt: skip


@pytest.mark.parametrize("kind", EXPLANATIONS)
def test_hostile_values_are_refused_or_harmless(kind):
    """Nothing but our own errors comes out, and what is accepted is a whole explanation."""
    good = WHOLE[kind].to_json()
    refused = 0
    for name in good:
        for value in HOSTILE:
            try:
                again = EXPLANATIONS[kind].from_json({**good, name: value})
            except RegardError:
                refused += 1
            else:
                assert again == EXPLANATIONS[kind].from_json(again.to_json())
                assert name not in ("format", "version", "kind")
    assert refused > 0.8 * len(good) * len(HOSTILE)


@pytest.mark.parametrize("kind", EXPLANATIONS)
def test_missing_and_unknown_fields_are_refused(kind):
    good = WHOLE[kind].to_json()
    for name in set(good) - EXPLANATIONS[kind].added:
        with pytest.raises(RegardError):
            EXPLANATIONS[kind].from_json({key: value for key, value in good.items() if key != name})
    with pytest.raises(RegardError, match=f"this {kind} is damaged: got 'more'; expected "):
        EXPLANATIONS[kind].from_json({**good, "more": 1})


@pytest.mark.parametrize(("content", "message"), [
    ([], "this is not an explanation: got <class 'list'>; expected values by name"),
    ({}, "this is not an explanation: got format None, kind None; expected format 'regard.explanation' and a kind"),
    ({"format": "regard.explanation", "kind": "matrix", "version": 2},
     "unknown version of an explanation: got 2; expected 1. Try: update regard"),
    ({"format": "regard.explanation", "kind": "tape", "version": 1},
     "this explanation is of another kind: got 'tape'; expected 'matrix'"),
    ({"format": "regard.explanation", "kind": "matrix", "version": 1, "rows": []},
     "this matrix is damaged: got no 'columns', no 'layer', no 'title', no 'weights'; expected "),
])  # fmt: skip
def test_what_is_no_explanation(content, message):
    with pytest.raises(RegardError, match=message.replace("[", r"\[")):
        Matrix.from_json(content)


def test_deep_lists_are_refused():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    good = WHOLE["matrix"].to_json()
    with pytest.raises(ShapeError, match="do not have their shape"):
        Matrix.from_json({**good, "weights": {"shape": [1, 1], "values": deep}})
    while deep:  # Python cannot free it at once without a deep stack
        deep = deep[0]
