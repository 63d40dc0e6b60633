"""Algorithmic sequences as a task: costs, figures, what users type, and a small run from training to report."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard import api
from regard.base import ConfigError, RegardError
from regard.data.algorithms import PROBLEMS, Sequences
from regard.data.pictures import Rows
from regard.explanation import Tape
from regard.models.ntm import Emitted
from regard.recipes import RECIPES, change
from regard.tasks import Algorithmic, AlgorithmicConfig
from regard.tasks.algorithmic import AlgorithmicSettings, answer_figures, costs, length_points

SIZES: dict[str, dict[str, Any]] = {
    "copy": {"longest": 5},
    "repeat_copy": {"longest": 3, "repeats": 3},
    "recall": {"bits": 6, "shortest": 2, "longest": 4},
    "ngrams": {"bits": 1, "shortest": 30, "longest": 30, "tested": ()},
    "sort": {"longest": 5, "kept": 4},
}


def task_of(problem: str = "copy", **settings: Any) -> Algorithmic:
    sizes = {"tested": (2, 7), "held_out": 40, "batch_size": 6} | SIZES[problem] | settings
    return Algorithmic(AlgorithmicConfig(problem, **sizes))


class Constant(nn.Module):
    """A model that says the same logit for every bit."""

    def __init__(self, outputs: int, logit: float = 0.0) -> None:
        super().__init__()
        self.outputs, self.logit = outputs, nn.Parameter(torch.tensor(logit))

    def forward(self, inputs: Tensor) -> Emitted:
        return Emitted(self.logit.expand(*inputs.shape[:2], self.outputs))


class Knowing(nn.Module):
    """A model that knows the answers of some sequences."""

    def __init__(self, sequences: Sequences, certainty: float = 20.0) -> None:
        super().__init__()
        self.answers = {
            tuple(i.flatten().tolist()): t for i, t in zip(sequences.inputs, sequences.targets, strict=True)
        }
        self.certainty = nn.Parameter(torch.tensor(certainty))

    def forward(self, inputs: Tensor) -> Emitted:
        found = torch.stack([self.answers[tuple(row.flatten().tolist())] for row in inputs])
        return Emitted((2 * found - 1) * self.certainty)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_guessing_costs_a_bit_for_each_bit(problem: str) -> None:
    task = task_of(problem)
    model = Constant(task.problem.outputs)
    figures = task.evaluate(model, "test").figures
    asked = task.splits["test"].scored.sum(1).double().mean().item() * task.problem.outputs
    assert figures["bits"] == pytest.approx(asked)
    assert 25 < figures["wrong"] < 60
    torch.manual_seed(0)
    drawn = task.problem.draw(6)
    torch.manual_seed(0)
    loss = task.loss(model, next(task.batches(seed=0)))
    assert loss.total.item() == pytest.approx(drawn.scored.sum().item() * task.problem.outputs, rel=1e-5)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_knowing_costs_nothing(problem: str) -> None:
    task = task_of(problem)
    figures = task.evaluate(Knowing(task.splits["test"]), "test").figures
    assert figures["bits"] < 1e-4
    assert (figures["wrong"], figures["right"]) == (0.0, 100.0)
    assert task.evaluate(Knowing(task.splits["test"], -20.0), "test").figures["wrong"] == 100.0


def test_only_the_steps_of_the_answer_count() -> None:
    sequences = task_of().splits["test"]
    logits = torch.randn(sequences.targets.shape)
    expected = []
    for row in range(len(logits)):
        kept = sequences.scored[row]
        nats = F.binary_cross_entropy_with_logits(logits[row][kept], sequences.targets[row][kept], reduction="sum")
        expected.append(nats.item() / math.log(2))
    assert costs(logits, sequences).tolist() == pytest.approx(expected, rel=1e-5)
    other = torch.where(sequences.scored.unsqueeze(-1), logits, torch.randn_like(logits) * 9)
    torch.testing.assert_close(costs(other, sequences), costs(logits, sequences))
    assert answer_figures(other, sequences) == answer_figures(logits, sequences)


def test_the_best_estimator_stands_beside() -> None:
    figures = task_of("ngrams").evaluate(Constant(1), "valid").figures
    assert 0 < figures["optimal"] < figures["bits"]
    assert figures["bits"] == pytest.approx(25, rel=1e-6)


def test_the_step_decides_what_is_drawn() -> None:
    task = task_of()
    model = Knowing(task.splits["test"])
    seen: list[Tensor] = []
    model.forward = lambda inputs: (seen.append(inputs), Emitted(torch.zeros(*inputs.shape[:2], 8)))[1]  # type: ignore
    for seed in (1, 2, 1):
        torch.manual_seed(seed)
        task.loss(model, Rows(torch.arange(6)))
    assert torch.equal(seen[0], seen[2])
    assert not torch.equal(seen[0], seen[1])
    assert seen[0].shape == (6, 11, 9)


def test_batches_have_a_position() -> None:
    batches = task_of().batches(seed=3)
    assert next(batches).count == 6
    state = batches.state_dict()
    again = task_of().batches(seed=3)
    again.load_state_dict(state)
    assert torch.equal(next(again).rows, next(batches).rows)


def test_a_full_evaluation_looks_at_each_length() -> None:
    task = task_of()
    evaluation = task.evaluate(Constant(8), "test", AlgorithmicSettings(sequences=9), full=True)
    assert evaluation.figures["wrong_7"] == pytest.approx(50, abs=10)
    points = length_points(evaluation.details, key="bits_by_length")
    assert [(point.label, point.value, point.size) for point in points] == [("2", 16.0, 9), ("7", 56.0, 9)]
    json.dumps(evaluation.details)
    other = task.evaluate(Constant(8), "test", AlgorithmicSettings(lengths=(3,), sequences=2), full=True)
    assert [point.label for point in length_points(other.details, key="right_by_length")] == ["3"]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_typed_and_random_sequences(problem: str) -> None:
    task = task_of(problem)
    model = Constant(task.problem.outputs, 5.0)
    [[typed], [drawn]] = task.predict(model, [task.problem.example, "seed=4"])
    assert set(typed.text) <= set("1 ")
    assert typed.wrong == typed.reference.count("0")
    assert len(typed.text) == len(typed.reference)
    assert typed.explanations == ()  # a model without heads
    assert f"{typed.wrong} wrong bits" in typed.described
    assert task.predict(model, ["seed=4"])[0][0].reference == drawn.reference
    assert task.predict(model, ["seed=5"])[0][0].reference != drawn.reference


def test_a_random_sequence_has_the_length_that_is_asked_for() -> None:
    [[drawn]] = task_of().predict(Constant(8), ["seed=4 length=33"])
    assert len(drawn.reference.split()) == 33


@pytest.mark.parametrize("text", ["seed=x", "length=4", "seed=1 size=2", "seed=1 length=0", "seed=1 length=1001", "01"])
def test_wrong_inputs_are_refused(text: str) -> None:
    with pytest.raises(RegardError):
        task_of().predict(Constant(8), [text])


@pytest.mark.parametrize("settings", [
    {"shortest": 9, "longest": 3}, {"problem": "recall", "shortest": 1}, {"problem": "ngrams"}, {"problem": "sorting"},
])  # fmt: skip
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        AlgorithmicConfig(**settings)


def test_there_is_no_training_split() -> None:
    with pytest.raises(ConfigError, match="no split 'train'"):
        task_of().split("train")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> api.Model:
    """A run of three steps, with two read heads and one that writes."""
    settings = ["train.steps=3", "train.evaluate_every=3", "task.held_out=8", "model.read_heads=2"]
    return api.train(change(RECIPES["ntm/smoke"](), settings), tmp_path_factory.mktemp("runs") / "ntm")


def test_the_tape_shows_what_the_heads_did(trained: api.Model) -> None:
    answer = trained.predict("011 110")
    [tape] = answer.explanations
    assert isinstance(tape, Tape)
    assert [*tape.weights] == ["inputs", "adds", "write 0", "outputs", "reads", "read 0", "read 1"]
    assert tape.length == 5
    assert tape.weights["inputs"].T.tolist() == [[0, 1, 0, 0, 0], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0, 1, 0, 0]]
    for head in ("write 0", "read 0", "read 1"):
        assert tape.weights[head].shape == (5, 12)
        assert tape.weights[head].sum(1) == pytest.approx([1.0] * 5, abs=1e-5)
    assert tape.weights["adds"].shape == (5, 6)
    assert tape.weights["reads"].shape == (5, 12)


def test_examples_drawings_and_report(trained: api.Model, tmp_path: Path) -> None:
    numbers = api.chosen(trained, "test", 3)
    assert len({int(trained.task.split("test").lengths[number]) for number in numbers}) == 3
    [first, *_] = api.examples(trained, "test", numbers)
    assert "bits)" in first.output
    assert {path.suffix for path in api.draw_examples(trained, "test", tmp_path)} == {".png"}
    page = api.report([trained], samples=2)
    assert "Wrong bits by length" in page
    assert "bits a sequence" in page


def test_resuming_gives_the_same_weights(tmp_path: Path) -> None:
    settings = ["train.save_every=2", "train.evaluate_every=4", "task.held_out=8", "train.schedule=constant"]
    whole = api.train(change(RECIPES["ntm/smoke"](), [*settings, "train.steps=4"]), tmp_path / "whole")
    api.train(change(RECIPES["ntm/smoke"](), [*settings, "train.steps=2"]), tmp_path / "parts")
    parts = api.train(change(RECIPES["ntm/smoke"](), [*settings, "train.steps=4"]), tmp_path / "parts", resume=True)
    for one, other in zip(whole.module.parameters(), parts.module.parameters(), strict=True):
        assert torch.equal(one, other)
