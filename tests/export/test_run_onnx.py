"""The greedy search in numpy, with graphs that are functions; and the small parts around it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.data import SubwordCodec, WordCodec, tokenizing
from regard.export import run_onnx
from regard.export.run_onnx import Exported, OnnxClassifier, Units, greedy, pad, shortened


class Countdown(Exported):
    """From 9 − number of the row, each token is the one before less one; 2 ends; the state counts the steps."""

    def __init__(self, min_steps: int = 0) -> None:
        search = {"bos": 1, "eos": 2, "forbidden": [0, 1], "min_steps": min_steps}
        outputs = [{"name": "left", "axes": ["batch"]}, {"name": "steps", "axes": []}]
        graphs = {"encoder": {"outputs": outputs}, "decoder": {"carried": {"next.left": "left", "next.steps": "steps"}}}
        self.spec = {"search": search, "graphs": graphs}
        self.sizes: list[int] = []

    def call(self, graph: str, inputs: dict[str, Any]) -> dict[str, Any]:
        if graph == "encoder":
            return {"left": inputs["start"], "steps": np.zeros((), np.int64)}
        self.sizes.append(len(inputs["tokens"]))
        assert (inputs["tokens"] == (1 if inputs["steps"] == 0 else inputs["left"] + 1)).all()
        logits = np.eye(10)[inputs["left"]] + np.eye(10)[1] * 5 + np.eye(10)[[3]] / 2  # <bos> is best, but forbidden
        return {
            "logits": logits,
            "weights": logits[:, :4],
            "next.left": inputs["left"] - 1,
            "next.steps": inputs["steps"] + 1,
        }


def test_rows_end_by_themselves_and_leave_the_batch() -> None:
    model = Countdown()
    results = greedy(model, {"start": np.array([4, 9, 2])}, np.array([9, 3, 9]))
    assert [(ids, finished) for ids, _, finished in results] == [([4, 3], True), ([9, 8, 7], False), ([], True)]
    assert [len(weights) for _, weights, _ in results if weights is not None] == [3, 3, 1]
    assert model.sizes == [3, 2, 2]


def test_the_end_is_not_taken_before_the_least_number_of_steps() -> None:
    results = greedy(Countdown(min_steps=2), {"start": np.array([2])}, np.array([1]))
    assert [(ids, finished) for ids, _, finished in results] == [([3], False)]


def test_units_are_ours(tmp_path: Path) -> None:
    lines = ["The cat's milk isn't here.", "L'homme aime le chat\u202f!", "<eos> <unk>"]
    words = WordCodec.train(lines, lower=True)
    (tmp_path / "words.json").write_text(json.dumps(words.vocabulary.tokens[4:]))
    pieces = SubwordCodec.train(lines, size=40)
    (tmp_path / "pieces.model").write_bytes(pieces.to_bytes())
    for codec, spec in (
        (words, {"kind": "words", "file": "words.json", "lower": True}),
        (pieces, {"kind": "subwords", "file": "pieces.model", "lower": False}),
    ):
        units = Units(tmp_path, spec)
        for text in (*lines, "", "a new cat", "\u200bthe  cat\t"):
            ids = codec.encode_text(text)
            assert units.encode(text) == ids
            assert units.tokens(text) == codec.tokens(text)
            assert units.decode(ids) == (codec.decode_text(ids), codec.decode_tokens(ids))
    plain = Units(tmp_path, {"kind": "words", "file": "words.json", "lower": True, "plain": True})
    assert plain.decode(words.encode_text("the milk."))[0] == "the milk ."


def test_texts_are_padded_and_shortened() -> None:
    padded, lengths = pad([[5], [6, 7, 8]])
    assert (padded.tolist(), lengths.tolist()) == ([[5, 0, 0], [6, 7, 8]], [1, 3])
    for kept, ids in (("start", [1, 2, 3]), ("end", [3, 4, 5]), ("ends", [1, 4, 5])):
        assert shortened([1, 2, 3, 4, 5], {"limit": 3, "kept": kept}) == ids
    assert shortened([1, 2], {"limit": None, "kept": "start"}) == [1, 2]


def test_a_classifier_says_how_many_texts_it_wants() -> None:
    model = object.__new__(OnnxClassifier)
    model.units, model.spec = {"source": None}, {"texts": 2, "classes": ["a"], "shorten": {"limit": None}}  # type: ignore[assignment,dict-item]
    model.units["source"] = type("Letters", (), {"encode": lambda self, text: [4] * len(text)})()  # type: ignore[assignment]
    for example in ("one", ("one", ""), ("a", "b", "c")):
        with pytest.raises(ValueError, match="expected 2 texts with words"):
            model.classify([example])


def test_the_copies_in_a_folder_import_nothing_of_this_package() -> None:
    for module, allowed in ((run_onnx, 1), (tokenizing, 0)):
        lines = Path(module.__file__).read_text().splitlines()
        assert sum("import" in line and "regard" in line for line in lines) == allowed  # the line that is rewritten
