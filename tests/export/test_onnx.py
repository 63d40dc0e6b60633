"""Exports to ONNX against our own search: the same tokens, the same logits and weights, whatever the batch."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from small_models import TEXTS, captioner, classifier, translator

from regard.api import Model
from regard.base import RegardError
from regard.data import EOS
from regard.export import export_model
from regard.export.onnx import check, plain_copy
from regard.export.run_onnx import load, pad

pytestmark = pytest.mark.bare  # the shape-checking hook fixes the sizes of what torch.export records

CASES: dict[str, dict[str, Any]] = {
    "cho": {}, "sutskever": {}, "bahdanau": {}, "luong": {"reverse_source": True}, "gnmt": {}, "convs2s": {},
    "transformer": {"subwords": "bpe", "joint": True, "pre_norm": True},
}  # fmt: skip
MORE: list[tuple[str, dict[str, Any]]] = [
    ("bahdanau", {"score": "location_aware"}),
    ("bahdanau", {"score": "general", "align": "sparsemax"}),
    ("luong", {"align": "local_predictive"}),
    ("transformer", {"subwords": "unigram", "position": "learned", "max_positions": 256, "encoder_layers": 2}),
    ("transformer", {"position": "rotary", "tie": "output"}),
    ("transformer", {"position": "alibi", "decoder_layers": 2}),
    ("transformer", {"align": "entmax", "position": "relative", "score": "scaled_dot"}),
]


@pytest.mark.parametrize(
    "paper",
    [pytest.param(paper, marks=() if paper == "transformer" else pytest.mark.slow) for paper in CASES],
)
def test_a_translator_writes_what_ours_writes(paper: str, tmp_path: Path) -> None:
    model = translator(paper, **CASES[paper])
    folder = export_model(model, "onnx", tmp_path / "out")
    compare_translations(model, folder)
    compare_steps(model, folder)
    compare_description(folder)
    if paper == "transformer":
        check_without_torch(model, folder, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("paper", "changes"), MORE)
def test_other_scores_alignments_and_positions(paper: str, changes: dict[str, Any], tmp_path: Path) -> None:
    model = translator(paper, **changes)
    folder = export_model(model, "onnx", tmp_path / "out")
    compare_translations(model, folder)
    compare_steps(model, folder)


def compare_translations(model: Model, folder: Path) -> None:
    """Texts of any length, a blank one and unknown words, in batches with padding."""
    exported = load(folder, threads=1)
    for theirs, ours in zip(exported.translate(TEXTS, batch_size=3), model.translate(TEXTS, beam=1), strict=True):
        assert (theirs.text, theirs.tokens, theirs.finished) == (ours.text, ours.tokens, ours.finished)
        assert theirs.source_tokens == ours.source_tokens
        assert (theirs.weights is None) == (ours.weights is None)
        if theirs.weights is not None:
            np.testing.assert_allclose(theirs.weights, ours.weights, atol=1e-5)


@torch.no_grad()
def compare_steps(model: Model, folder: Path) -> None:
    """Five steps with given tokens against float64: batches of one and of four, sources of one word and more."""
    exported, module = load(folder, threads=1), plain_copy(model.module).double()
    carried = exported.spec["graphs"]["decoder"]["carried"]
    for lengths in ([1], [6], [3, 7, 1, 2]):
        rng = np.random.default_rng(len(lengths))
        source, sizes = pad([[*rng.integers(4, 20, length - 1), EOS] for length in lengths])
        tokens = rng.integers(3, 20, (5, len(lengths)))
        state = module.init_state(module.encode(torch.from_numpy(source), torch.from_numpy(sizes)))
        theirs = exported.call("encoder", {"source": source, "lengths": sizes})
        for words in tokens:
            step = module.step(torch.from_numpy(words), state)
            outputs = exported.call("decoder", {"tokens": words, **theirs})
            np.testing.assert_allclose(outputs["logits"], step.logits.numpy(), atol=1e-5, rtol=1e-5)
            if step.weights is not None:
                np.testing.assert_allclose(outputs["weights"], step.weights.numpy(), atol=1e-5)
            state = step.state
            theirs |= {name: outputs[after] for after, name in carried.items()}


def compare_description(folder: Path) -> None:
    """model.json says what onnxruntime finds in the files, and those name no file of this machine."""
    for graph in json.loads((folder / "model.json").read_text())["graphs"].values():
        session = onnxruntime.InferenceSession(str(folder / graph["file"]))
        content = (folder / graph["file"]).read_bytes()
        assert b".py" not in content
        assert b"stack_trace" not in content
        for described, found in (
            (graph["inputs"], session.get_inputs()),
            (graph["outputs"], session.get_outputs()),
        ):
            types = {"int64": "tensor(int64)", "float32": "tensor(float)", "bool": "tensor(bool)"}
            assert [(each["name"], types[each["type"]]) for each in described] == [(x.name, x.type) for x in found]
            for each, other in zip(described, found, strict=True):
                fixed = [axis for axis in other.shape if isinstance(axis, int)]
                assert [axis for axis in each["axes"] if isinstance(axis, int)] == fixed
                assert len(each["axes"]) == len(other.shape)


def check_without_torch(model: Model, folder: Path, tmp_path: Path) -> None:
    """run.py works where neither torch nor regard can be imported."""
    broken = tmp_path / "broken"
    broken.mkdir()
    for name in ("torch", "regard"):
        (broken / f"{name}.py").write_text("raise ImportError('not here')")
    command = [sys.executable, str(folder / "run.py"), TEXTS[0], TEXTS[2]]
    environment = {**os.environ, "PYTHONPATH": str(broken)}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [ours.text for ours in model.translate([TEXTS[0], TEXTS[2]], beam=1)]


@pytest.mark.slow
def test_a_classifier_gives_the_same_classes_and_hops(tmp_path: Path) -> None:
    compare_classes(
        classifier("self_attentive", embed_dim=6, hidden_dim=5, attention_dim=4, hops=3, mlp_dim=8), tmp_path
    )


def compare_classes(model: Model, tmp_path: Path) -> None:
    """Classes, probabilities and hops of texts, or of pairs; then logits of a padded batch."""
    exported = load(export_model(model, "onnx", tmp_path / "out"), threads=1)
    sides = model.module.config.texts
    texts: list[Any] = [text for text in TEXTS if text] if sides == 1 else [("the cat", "un chien !"), ("le", TEXTS[4])]
    for theirs, ours in zip(exported.classify(texts), model.classify(texts), strict=True):
        assert theirs.text == ours.text
        np.testing.assert_allclose(theirs.probabilities, ours.probabilities, atol=1e-6)
        for side, explanation in enumerate(ours.explanations):
            count = explanation.weights.shape[1]
            np.testing.assert_allclose(theirs.weights["weights"][side][:, :count], explanation.weights, atol=1e-6)
    ids = torch.randint(4, 12, (4, sides, 7), generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([[7, 1], [3, 7], [1, 2], [5, 5]])[:, :sides]
    ids = ids * (torch.arange(7) < lengths.unsqueeze(-1))
    with torch.no_grad():
        logits = plain_copy(model.module)(ids, lengths).logits.squeeze(1).numpy()
    for rows in (slice(0, 4), slice(2, 3)):
        theirs = exported.classify_ids(ids[rows].numpy(), lengths[rows].numpy())
        np.testing.assert_allclose(theirs["logits"], logits[rows], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"pooling": "max"}, {"paired": True, "penalty": 0.0, "hops": 2, "gate_dim": 4}])
def test_twins_and_pairs_are_classified_alike(changes: dict[str, Any], tmp_path: Path) -> None:
    sizes = {"embed_dim": 6, "hidden_dim": 5, "attention_dim": 4, "mlp_dim": 8}
    compare_classes(classifier("self_attentive", **(sizes | changes)), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"project_dim": 4, "tied": True}, {"mean_pooled": True}, {"align": "sample"}])
def test_a_captioner_writes_what_ours_writes(changes: dict[str, Any], tmp_path: Path) -> None:
    model = captioner(**changes)
    exported = load(export_model(model, "onnx", tmp_path / "out"), threads=1)
    features = torch.randn(4, 9, 5, generator=torch.Generator().manual_seed(2)) * 3
    search = model.task.settings(beam=1)
    for ours, theirs in zip(
        model.task._search(model.module, features, search), exported.caption(features), strict=True
    ):
        assert theirs.ids == ours[0].tokens
        assert theirs.finished == ours[0].finished
        assert theirs.text == " ".join(model.task.vocabulary.decode(ours[0].tokens))
        if ours[0].weights is not None:
            assert theirs.weights is not None
            np.testing.assert_allclose(theirs.weights, ours[0].weights[: len(theirs.tokens)].numpy(), atol=1e-5)


@pytest.mark.slow
def test_an_alignment_that_loops_over_the_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"torch.export fixed the axis 'source': got 5. Try: export a run"):
        export_model(translator("bahdanau", align="monotonic"), "onnx", tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_exported_is_said_with_what_can(tmp_path: Path) -> None:
    for model, words in (
        (translator("transformer", align="monotonic"), "looks at earlier weights"),
        (translator("convs2s", score="location_aware"), "looks at earlier weights"),
    ):
        with pytest.raises(RegardError, match=words):
            check(model)
    other = translator("transformer")
    object.__setattr__(other, "module", torch.nn.Linear(2, 2))
    with pytest.raises(RegardError, match="cannot be exported to onnx: got transformer; expected cho, sutskever, bah"):
        export_model(other, "onnx", tmp_path / "out")
    assert not list(tmp_path.iterdir())
