"""The task of actions: losses and figures by hand, votes of views, clips of the user, and where queries looked."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from film import film
from torch import Tensor, nn

from regard.base import ConfigError
from regard.data import ActedClips, even_views
from regard.models import Acted, VideoAction, VideoActionConfig
from regard.tasks import ActionRecognition, ActionRecognitionConfig, ActionSettings
from regard.tasks.action_clips import ActionFacts
from regard.tasks.action_recognition import mean_precision

SCENES = ActionRecognitionConfig(frames=4, height=16, width=32, batch_size=3, held_out=5)
FILM = ActionRecognitionConfig("weizmann", several=False, frames=4, height=12, width=12, batch_size=3,
                               leave_one_out=True, smoothing=0.2)  # fmt: skip
MODEL = VideoActionConfig(trunk=(4, 4), dim=8, layers=2, heads=2, hidden_dim=8, roi_size=2, location_dim=2)


def filmed(config: ActionRecognitionConfig) -> ActionRecognition:
    task = ActionRecognition(config)
    task.__dict__["splits"] = dict.fromkeys(("train", "valid", "test"), film())
    return task


def built(task: ActionRecognition, **changes: Any) -> VideoAction:
    torch.manual_seed(0)
    return VideoAction(task.complete(VideoActionConfig(**{**vars(MODEL), **changes})))


class Reader(nn.Module):
    """A model that knows the answer of a film from where its square goes, and the number of the network it was."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.asked = nn.Parameter(torch.zeros(())), []

    def forward(self, clips: Tensor, boxes: Tensor, member: int | None = None) -> Acted:
        self.asked += [(member, len(clips))]
        bright = clips[:, 0]
        lines = torch.arange(bright.shape[-1]) + 0.5
        x = (bright.sum(2) * lines).sum(-1) / bright.sum((2, 3))
        y = (bright.sum(3) * lines).sum(-1) / bright.sum((2, 3))
        right, up = x[:, -1] - x[:, 0], y[:, 0] - y[:, -1]
        logits = torch.stack([-right, right, torch.full_like(right, 0.5), up], -1).unsqueeze(1)
        return Acted(logits * 3 + self.weight, (2, 3, 3))


def test_losses_by_hand() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 2, 5, generator=generator)
    labels = (torch.rand(3, 2, 5, generator=generator) < 0.5).float()
    counted = torch.tensor([[True, True], [True, False], [False, False]])
    acted = ActedClips(logits, logits, labels, counted)
    several, nats = ActionRecognition(SCENES).cross_entropy(logits, acted), 0.0
    for clip, person in ((0, 0), (0, 1), (1, 0)):
        for label in range(5):
            chance = 1 / (1 + math.exp(-logits[clip, person, label]))
            nats -= math.log(chance if labels[clip, person, label] else 1 - chance)
    assert several.item() == pytest.approx(nats / 15, rel=1e-5)
    one = F.one_hot(labels.sum(-1).long() % 5, 5).float()
    single = filmed(FILM).cross_entropy(logits, ActedClips(logits, logits, one, counted))
    expected = F.cross_entropy(logits[counted], one[counted].argmax(-1), label_smoothing=0.2)
    assert single.item() == pytest.approx(expected.item(), rel=1e-5)
    with torch.no_grad():  # figures are without smoothing
        plain = filmed(FILM).cross_entropy(logits, ActedClips(logits, logits, one, counted))
    assert plain.item() == pytest.approx(F.cross_entropy(logits[counted], one[counted].argmax(-1)).item(), rel=1e-5)


def test_each_network_learns_from_its_own_clips() -> None:
    task = filmed(FILM)
    model, batch = built(task), next(task.batches(seed=0))
    assert batch.count == 15  # three clips for each of five networks
    torch.manual_seed(5)
    loss = task.loss(model, batch)
    loss.total.backward()
    assert all(parameter.grad is not None for parameter in model.members.parameters())
    torch.manual_seed(5)
    each = []
    for member in range(5):
        drawn = task.draw(3, torch.device("cpu"), member)
        each.append(3 * task.cross_entropy(model(drawn.clips, drawn.boxes, member).logits, drawn))
    torch.testing.assert_close(loss.total, torch.stack(each).sum())


@torch.no_grad()
def test_every_clip_is_judged_by_the_network_that_does_not_know_it() -> None:
    task, model = filmed(FILM), Reader()
    score = task.evaluate(model, "test", ActionSettings(views=3), full=True)
    assert model.asked == [(member, 12) for member in range(5)]  # four clips of a person, three views of each
    assert score.figures["accuracy"] == 100
    assert score.figures["clip_accuracy"] == 100
    assert score.best == "accuracy"
    assert score.details["outputs"] == ["left", "right", "stays", "up"] * 5
    assert np.array(score.details["confusion"]).diagonal().tolist() == [5, 5, 5, 5]
    assert "20 persons of 20 clips" in score.details["signatures"]["accuracy"]


@torch.no_grad()
def test_views_vote_by_their_log_probabilities() -> None:
    task = filmed(FILM)
    model = built(task).eval()
    logits = task._judged(model, "test", ActionSettings(views=4), 2, None)[0]
    rows = torch.tensor(task.rows_of("test", 2))
    drawn = task._cut("test", even_views(rows, 4, stride=1.0, mirror=False))
    each = model(drawn.clips, drawn.boxes, 2).logits.log_softmax(-1).view(len(rows), 4, 1, -1)
    torch.testing.assert_close(logits, each.mean(1))


@torch.no_grad()
def test_figures_of_scenes() -> None:
    task = ActionRecognition(SCENES)
    model = built(task).eval()
    figures = task.evaluate(model, "test").figures
    drawn = task.held_out("test", torch.arange(5), 1)
    right = (model(drawn.clips, drawn.boxes).logits > 0) == drawn.labels.bool()
    assert figures["accuracy"] == pytest.approx(100 * right.float().mean().item(), rel=1e-5)
    assert figures["own"] == pytest.approx(100 * right[..., :2].float().mean().item(), rel=1e-5)
    assert figures["context"] == pytest.approx(100 * right[..., 2:].float().mean().item(), rel=1e-5)
    details = task.evaluate(model, "valid", full=True).details
    assert list(details["by_label"]) == list(task.facts.classes)
    assert len(details["outputs"]) == 5


def test_mean_precision_by_hand() -> None:
    generator = torch.Generator().manual_seed(1)
    logits, labels = torch.randn(30, 3, generator=generator), (torch.rand(30, 3, generator=generator) < 0.3).float()
    labels[:, 2] = 0  # without a true one, a label does not count
    expected = []
    for label in range(2):
        order = sorted(range(30), key=lambda row: -logits[row, label].item())
        hits = [labels[row, label].item() for row in order]
        expected.append(np.mean([sum(hits[: n + 1]) / (n + 1) for n in range(30) if hits[n]]))
    assert mean_precision(logits, labels) == pytest.approx(np.mean(expected))
    assert mean_precision(logits, torch.zeros(30, 3)) == 0


@pytest.mark.parametrize("locations", ["absolute", "relative"])
def test_a_clip_of_the_user_and_where_its_queries_looked(locations: str, tmp_path: Path) -> None:
    task = ActionRecognition(SCENES)
    model = built(task, locations=locations)
    drawn = task.held_out("test", torch.tensor([2]), 1)
    frames = (drawn.clips[0].permute(1, 2, 3, 0).numpy() * 255).round().astype(np.uint8)
    boxes = (drawn.boxes[0].double() * torch.tensor([32, 16, 32, 16])).tolist()
    np.save(tmp_path / "clip.npy", frames)
    (tmp_path / "clip.json").write_text(json.dumps({"boxes": boxes}))
    [[scene], [again]] = task.predict(model, [tmp_path / "clip.npy", {"frames": frames, "boxes": boxes}])
    assert scene.persons[1].probabilities == again.persons[1].probabilities
    logits = model.eval()(torch.from_numpy(frames).permute(3, 0, 1, 2)[None] / 255, drawn.boxes).logits[0]
    for person, row in zip(scene.persons, logits, strict=True):
        assert list(person.probabilities.values()) == pytest.approx(torch.sigmoid(row).tolist(), abs=1e-4)
        assert person.labels == tuple(name for name, share in person.probabilities.items() if share >= 0.5)
    assert scene.described.startswith("person 1: ")
    [video] = scene.explanations
    assert video.weights.shape == (2, 2, 4, 8)
    np.testing.assert_allclose(video.weights.sum((1, 2, 3)), 1, atol=1e-4)
    assert np.array_equal(video.frames()[1], frames[2]), "the frame of the second slice of the map"
    assert video.middle == 1
    layers = task.layers(model, scene)
    assert [layer.weights.shape for layer in layers] == [(4, 2, 4, 8)] * 2  # two persons × two heads
    np.testing.assert_allclose(layers[-1].weights.reshape(2, 2, 2, 4, 8).mean(1), video.weights, atol=1e-6)
    assert layers[0].labels[3].endswith("head 1")


def test_a_clip_around_one_person() -> None:
    config = ActionRecognitionConfig(**{**vars(FILM), "window": 0.5, "leave_one_out": False})
    task = ActionRecognition(config, ActionFacts(("a", "b"), 1, (), ()))
    frames = np.zeros((6, 40, 60), np.uint8)
    frames[:, 10:20, 40:50] = 255
    acted = task.own_clip({"frames": frames, "boxes": [[40, 10, 50, 20]]})
    assert acted.clips.shape == (1, 1, 4, 12, 12)
    torch.testing.assert_close(acted.boxes[0, 0], torch.tensor([0.25, 0.25, 0.75, 0.75]), atol=0.03, rtol=0)
    assert acted.clips[0, 0, 2, 4:8, 4:8].min() > 0.9
    assert acted.clips[0, 0, 2, :2].max() < 0.1
    with pytest.raises(ConfigError, match="this model looks at one person: got 2 boxes; expected 1"):
        task.own_clip({"frames": frames, "boxes": [[40, 10, 50, 20], [0, 0, 9, 9]]})


def test_examples_have_their_labels() -> None:
    task = filmed(FILM)
    model = built(task)
    numbers = task.choose("test", 4)
    assert {task.splits["test"].names[number].split()[0] for number in numbers} == {"left", "right", "stays", "up"}
    for number, example in zip(numbers, task.examples(model, "test", numbers), strict=True):
        assert example.source == task.splits["test"].names[number]
        assert example.reference == example.source.split()[0]
        assert example.prediction.member == number // 4
    scenes = ActionRecognition(SCENES)
    [example] = scenes.examples(built(scenes, head="roi"), "valid", [3])
    assert example.reference.count(";") == 1
    assert example.prediction.explanations == (), "the twin does not look anywhere"


@pytest.mark.parametrize("filmed_", [False, True])
def test_a_captured_step_can_hold_the_loss(filmed_: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first call nothing is copied from the host, and in bfloat16 gradients are finite."""
    task = filmed(FILM) if filmed_ else ActionRecognition(ActionRecognitionConfig(**{**vars(SCENES), "box_only": True}))
    model, batch = built(task, locations="relative" if filmed_ else "absolute"), next(task.batches(seed=0))
    task.loss(model, batch)

    def forbidden(*_: Any, **__: Any) -> None:
        raise AssertionError("a tensor is made from values of the host")

    for name in ("tensor", "as_tensor", "from_numpy"):
        monkeypatch.setattr(torch, name, forbidden)
    for name in ("item", "tolist", "cpu", "nonzero"):
        monkeypatch.setattr(Tensor, name, forbidden)
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        loss = task.loss(model, batch)
    loss.total.backward()
    monkeypatch.undo()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None)
