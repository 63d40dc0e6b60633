import json

import pytest

from regard.base import RegardError
from regard.explanation import Matrix, Tape, explanation_from_json


@pytest.mark.parametrize(
    "as_given", [lambda content: content, json.dumps, lambda content: json.dumps(content).encode()]
)
def test_the_kind_is_read(as_given):
    for explanation in (Matrix([[1.0]], ["a"], ["b"]), Tape({"read 0": [[1.0]]})):
        again = explanation_from_json(as_given(explanation.to_json()))
        assert again == explanation
        assert type(again) is type(explanation)


@pytest.mark.parametrize(("text", "message"), [
    ("[" * 100_000, "this is no JSON: got brackets nested too deeply"),
    ('{"format": "regard.explanation", "version": 1, "kind": "matrix", "rows": ' + "[" * 100_000 + "]" * 100_000 + "}",
     "this is no JSON: got brackets nested too deeply"),
    ("{", "this is no JSON"),
    (b"\xff", "this is no JSON"),
    ("[]", "this is not an explanation"),
    ('{"format": "regard.explanation", "version": 1, "kind": "matrx"}',
     "unknown kind of explanation: got 'matrx'; expected one of matrix, path, .*Did you mean 'matrix'"),
])  # fmt: skip
def test_hostile_text(text, message):
    with pytest.raises(RegardError, match=message):
        explanation_from_json(text)
