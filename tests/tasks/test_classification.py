"""Classification: losses by hand, errors counted right, canvases that never change, and models that learn."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.base import ConfigError, RegardError, override
from regard.data.canvas import Canvas
from regard.data.pictures import END, IGNORE, Pictures, Rows
from regard.models.classifier import Classified, Convolutional, ConvolutionalConfig
from regard.models.dram import DRAM, DRAMConfig
from regard.models.dt_ram import DTRAM, DTRAMConfig
from regard.models.ram import RAM, RAMConfig
from regard.tasks import ClassificationConfig, GlimpseSettings
from regard.tasks.classification import Classification
from regard.train import Train, train_model

NAMES = tuple("0123456789")
TINY = RAMConfig(glimpses=3, size=4, part_dim=8, glimpse_dim=8, hidden_dim=8)


def task(**settings: Any) -> Classification:
    """The grey level says the label."""
    labels = torch.arange(40) % 10
    images = (labels * 20).to(torch.uint8)[:, None, None, None].expand(-1, 1, 6, 6).contiguous()
    splits = {name: Pictures(images, labels, NAMES) for name in ("train", "valid", "test")}
    return Classification(ClassificationConfig(**{"batch_size": 8, **settings}), splits=splits)


class Oracle(nn.Module):
    """Reads the label off the grey level, and errs where it is told to."""

    def __init__(self, wrong: int = 0, **more: Tensor) -> None:
        super().__init__()
        self.wrong, self.scale = wrong, nn.Parameter(torch.ones(()))

    def forward(self, images: Tensor) -> Classified:
        label = (images[:, 0, 0, 0] * 255 / 20).round().long()
        label = torch.where(label < self.wrong, (label + 1) % 10, label)
        return Classified(F.one_hot(label, 10).unsqueeze(1) * 5.0 * self.scale)


def test_cross_entropy_is_a_sum_over_pictures() -> None:
    mine, batch = task(), Rows(torch.tensor([3, 4, 11]))
    loss = mine.loss(Oracle(wrong=2), batch)
    right, wrong = -math.log(math.exp(5) / (math.exp(5) + 9)), -math.log(1 / (math.exp(5) + 9))
    assert loss.total.item() == pytest.approx(2 * right + wrong, abs=1e-4)
    assert loss.figures["correct"].item() == 2


def test_every_picture_has_several_rollouts() -> None:
    repeated = task(rollouts=3)
    rows = Rows(torch.tensor([4, 7]))
    seen = []
    loss = repeated.loss(lambda images: seen.append(images) or Oracle()(images), rows)
    assert [round(x) for x in (seen[0][:, 0, 0, 0] * 255 / 20).tolist()] == [4, 4, 4, 7, 7, 7]
    assert loss.total.item() == pytest.approx(task().loss(Oracle(), rows).total.item())


def test_errors_are_counted() -> None:
    mine, model = task(), Oracle(wrong=3).train()
    score = mine.evaluate(model, "valid", full=True)
    assert score.figures["error"] == pytest.approx(30.0)
    assert score.figures["accuracy"] == pytest.approx(70.0)
    assert score.best == "error"
    assert not score.higher_is_better
    assert score.details["outputs"][:4] == ["1", "2", "3", "3"]
    assert score.details["count"] == 40
    assert score.details["split"] == "valid"
    assert score.details["signatures"] == {"error": "error in % of 40 pictures"}
    assert model.training
    with pytest.raises(ConfigError, match=r"unknown split: got 'vald'; .* Did you mean 'valid'\?"):
        mine.evaluate(model, "vald")


def test_whole_sequences() -> None:
    """Of two numbers one is read right; END ends what is said, and what is not there is not judged."""

    @dataclass
    class Out:
        logits: Tensor

    class Reader(nn.Linear):
        def forward(self, images: Tensor) -> Out:  # type: ignore[override]
            return Out(F.one_hot(torch.tensor([[1, 10, 3], [2, 2, 10]]), 11).float())

    images = torch.zeros(2, 1, 4, 4, dtype=torch.uint8)
    labels = torch.tensor([[1, 10, IGNORE], [2, 5, 10]])
    splits = {name: Pictures(images, labels, (*NAMES, END)) for name in ("train", "test")}
    mine = Classification(ClassificationConfig(), splits=splits)
    score = mine.evaluate(Reader(1, 1), "test", full=True)
    assert score.figures["error"] == 50
    assert score.figures["label_error"] == pytest.approx(20)
    assert score.details["outputs"] == ["1", "2 2"]
    assert [one.text for one in mine.recognise(Reader(1, 1), images, ["a", "b"])] == ["1", "22"]
    assert mine.complete(DRAMConfig()).labels == 3


def test_held_out_canvases_never_change() -> None:
    canvas = Canvas(12, clutter=2, patch=3)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first, second = (task(canvas=canvas).held_out("test") for _ in range(2))
    assert torch.get_rng_state().equal(before)
    assert first.images.equal(second.images)
    assert first.images.shape == (40, 1, 12, 12)
    assert not first.images.equal(task(canvas=canvas).held_out("valid").images)
    assert not first.images.equal(task(canvas=canvas, canvas_seed=1).held_out("test").images)
    assert first.labels.squeeze(1).equal(torch.arange(40) % 10)


def test_training_canvases_always_change() -> None:
    mine = task(canvas=Canvas(12))
    rows = torch.arange(8)
    first, labels = mine.shown(rows)
    assert labels.tolist() == [[label] for label in range(8)]
    assert not first.equal(mine.shown(rows)[0])
    assert first.max() <= 1


def test_crops_and_channels() -> None:
    mine = task(crop=4, mean=(0.5,), std=(0.25,))
    images, _ = mine.shown(torch.tensor([0, 5]))
    assert images.shape == (2, 1, 4, 4)
    assert images[1].unique().item() == pytest.approx((100 / 255 - 0.5) / 0.25, abs=1e-5)
    assert mine.held_out("test").images.shape == (40, 1, 4, 4)
    assert mine.image_size == 4
    with pytest.raises(
        ConfigError, match=r"task\.mean: got 3 numbers; expected one number, or one for each of 1 channels"
    ):
        task(mean=(0.5, 0.5, 0.5)).shown(torch.tensor([0]))


def test_a_picture_is_standardised_by_itself() -> None:
    mine = task(standardise=True)
    images = torch.rand(3, 2, 5, 5) * torch.tensor([0.1, 0.5, 1.0])[:, None, None, None] + 0.2
    seen = mine.normalised(images)
    assert seen.mean((1, 2, 3)).abs().max() < 1e-5
    assert seen.std((1, 2, 3)).min() > 0.85
    assert seen.std((1, 2, 3)).max() < 1.05
    torch.testing.assert_close(mine.normalised(images[:1]), seen[:1])  # alone or among others
    assert (mine.shown(torch.tensor([0, 5]))[0] == 0).all()  # of one colour: nothing to see, and no NaN


def test_padding_shows_at_the_border() -> None:
    images, _ = task(crop=6, pad=2, mirror=True).shown(torch.full((30,), 9))
    assert (images == 0).any()
    assert task(crop=6, pad=2).held_out("test").images.min(3).values.equal(task().held_out("test").images.min(3).values)


def test_what_is_erased_shows_the_mean() -> None:
    settings = {"mean": (0.1,), "std": (0.5,)}
    whole, _ = task(**settings).shown(torch.full((30,), 9))
    erased, _ = task(erase=3, **settings).shown(torch.full((30,), 9))
    assert (whole != 0).all()
    assert set((erased == 0).sum((1, 2, 3)).tolist()) <= {4, 6, 9}
    assert erased[erased != 0].equal(whole[erased != 0])
    held = task(erase=3, **settings).held_out("test").images
    assert held.equal(task(**settings).held_out("test").images)


@pytest.mark.parametrize("canvas", [Canvas(), Canvas(20), Canvas(20, clutter=1, patch=3)], ids=str)
def test_labels_follow_turned_pictures(canvas: Canvas) -> None:
    """The middle of a picture keeps its grey level, which says the label: 20 for each."""
    rows = torch.tensor([39, 3, 12, 7, 28, 1])  # neither in order, nor the first ones
    images, labels = task(canvas=canvas, turn=10.0, stretch=0.1).shown(rows)
    assert labels.tolist() == [[9], [3], [2], [7], [8], [1]]
    if not canvas.clutter:
        assert (images * 255).round().amax((2, 3)).equal(20.0 * labels)


@pytest.mark.parametrize("target", ["sequence", "sum", "pair"])
def test_labels_follow_turned_pairs(target: Any) -> None:
    canvas = Canvas(40, digits=2, target=target)
    mine, seen = task(canvas=canvas, turn=10.0, stretch=0.1), 0
    images, labels = mine.shown(torch.tensor([39, 3, 12, 7, 28, 1]))
    for picture, label in zip((images * 255).round().long().squeeze(1), labels.tolist(), strict=True):
        columns = picture.amax(0).nonzero().squeeze(1)
        gaps = (columns.diff() > 1).nonzero().squeeze(1) + 1
        if len(gaps) == 1:  # side by side
            first, second = (int(picture[:, part].max()) // 20 for part in columns.tensor_split(gaps.tolist()))
            pair = mine.classes.index(f"{min(first, second)}{max(first, second)}") if target == "pair" else None
            assert label == {"sequence": [first, second], "sum": [first + second], "pair": [pair]}[target]
            seen += 1
    assert seen >= 3


@pytest.mark.parametrize("canvas", [Canvas(), Canvas(12)], ids=str)
def test_turns_are_for_training_only(canvas: Canvas) -> None:
    plain, turned = task(canvas=canvas), task(canvas=canvas, turn=45.0, stretch=0.3)
    assert turned.held_out("test").images.equal(plain.held_out("test").images)
    rows = torch.arange(8)
    assert not turned.shown(rows)[0].equal(turned.shown(rows)[0])
    assert turned.splits["train"].images.equal(plain.splits["train"].images)


def test_what_the_data_decides() -> None:
    pairs = Canvas(30, digits=2, target="pair")
    filled = task(canvas=pairs).complete(ConvolutionalConfig())
    assert (filled.classes, filled.labels, filled.channels, filled.image_size) == (55, 1, 1, 30)
    assert task(canvas=replace(pairs, target="sequence")).complete(RAMConfig()).labels == 2
    assert task(canvas=replace(pairs, target="sum")).complete(DTRAMConfig()).ram.classes == 19
    assert list(task().tests) == ["test"]


def test_evaluation_is_the_same_each_time() -> None:
    """Random glimpses too: their noise has a seed of its own, and the noise of others goes on as if nothing were."""
    mine, model = task(), RAM(replace(TINY, random=True))
    torch.manual_seed(7)
    first = mine.evaluate(model, "test").figures
    after = torch.rand(3)
    torch.manual_seed(7)
    assert torch.rand(3).equal(after)
    assert mine.evaluate(model, "test").figures == first
    assert first["steps"] == 3


def test_draws() -> None:
    model = RAM(replace(TINY, sigma=1.0))
    losses = {draws: task(draws=draws).evaluate(model, "test").figures["loss"] for draws in (0, 1, 5)}
    assert len(set(losses.values())) == 3
    mean = task(draws=5).evaluate(model, "test", full=True).details["signatures"]["error"]
    assert mean == "error in % of 40 pictures, locations: mean of 5 draws"


def test_a_gaze_of_its_own() -> None:
    """What an evaluation sets, in place of what the run says."""
    model = RAM(replace(TINY, sigma=1.0))
    for draws in (0, 1, 5):
        score = task(draws=2).evaluate(model, "test", settings=GlimpseSettings(draws=draws), full=True)
        assert score.figures == task(draws=draws).evaluate(model, "test").figures
    assert score.details["signatures"]["error"].endswith("locations: mean of 5 draws")

    stopping = DTRAM(DTRAMConfig(TINY, certainty=0.25))
    with torch.no_grad():
        stopping.stop[2].weight.zero_()
        stopping.stop[2].bias.zero_()  # p is one half, in all states
    for certainty, steps, shown in ((None, 1, 0.25), (0.4, 1, 0.4), (0.6, 3, 0.6)):
        score = task().evaluate(stopping, "test", settings=GlimpseSettings(certainty=certainty), full=True)
        assert score.figures["steps"] == steps
        assert score.details["stopped"] == [100.0 if number == steps else 0.0 for number in (1, 2, 3)]
        assert score.details["signatures"]["error"].endswith(f"locations: means, stops: p > {shown}")
    drawn = task().evaluate(stopping, "test", settings=GlimpseSettings(draws=1), full=True)
    assert drawn.details["signatures"]["error"].endswith("locations: one draw")
    assert 1 < drawn.figures["steps"] < 3


class Slow(Oracle):
    """Knows the labels below 3 after the first glimpse, below 7 after the second, and all but 9 after the third."""

    def forward(self, images: Tensor) -> SimpleNamespace:
        logits = Oracle.forward(self, images).logits  # [b 1 c]
        label = logits.argmax(-1)
        every = torch.stack([torch.where(label < known, logits[:, 0], -logits[:, 0]) for known in (3, 7, 9)], 1)
        active = torch.ones(len(images), 3, dtype=torch.bool)
        return SimpleNamespace(logits=every[:, -1:], logits_per_glimpse=every, active=active)


def test_errors_after_each_glimpse() -> None:
    score = task().evaluate(Slow(), "test", full=True)
    assert score.details["by_glimpse"] == pytest.approx([70.0, 30.0, 10.0])
    assert score.figures["error"] == pytest.approx(10.0)
    for model, gazing in ((RAM(TINY), GlimpseSettings(draws=2)), (Oracle(), None)):  # a mean of rollouts, none
        assert "by_glimpse" not in task().evaluate(model, "test", settings=gazing, full=True).details
    repeated = task().evaluate(RAM(TINY), "test", full=True)
    assert "stopped" not in repeated.details
    assert repeated.details["by_glimpse"][-1] == pytest.approx(repeated.figures["error"])


def test_a_gaze_that_cannot_be() -> None:
    plain = Convolutional(ConvolutionalConfig(image_size=6, width=3, stride=3, hidden_dim=8))
    with pytest.raises(ConfigError, match="a Convolutional does not draw where to look: got draws=3"):
        task().evaluate(plain, "test", settings=GlimpseSettings(draws=3))
    with pytest.raises(ConfigError, match=r"a RAM does not decide when to stop: got certainty=0.9"):
        task().evaluate(RAM(TINY), "test", settings=GlimpseSettings(certainty=0.9))
    with pytest.raises(ConfigError, match=r"certainty: got 1.5; expected between 0 and 1"):
        task().evaluate(DTRAM(DTRAMConfig(TINY)), "test", settings=GlimpseSettings(certainty=1.5))
    with pytest.raises(ConfigError, match="draws: got -1; expected 0 or more"):
        GlimpseSettings(draws=-1)


def test_predictions() -> None:
    mine = task()
    pictures = mine.held_out("test").images[:3]
    for answer, label in zip(mine.recognise(Oracle(), pictures, ["a", "b", "c"]), "012", strict=True):
        assert answer.text == label
        assert answer.labels == [label]
        assert answer.where is None
        assert answer.probabilities.shape == (1, 10)
    model = DTRAM(DTRAMConfig(TINY, stop_dim=4))
    nn.init.constant_(model.stop[2].bias, 100.0)
    assert mine.recognise(model, pictures, ["a", "b", "c"])[0].where.shape == (1, 2)  # it stopped after one glimpse
    assert mine.recognise(RAM(TINY), pictures, ["a", "b", "c"])[0].where.shape == (3, 2)


def test_pictures_of_users() -> None:
    ink = torch.full((20, 40, 3), 250, dtype=torch.uint8)
    ink[5:15, 18:22] = 10  # black on white
    found = task().prepared(ink)
    assert found.shape == (1, 6, 6)
    assert found[0, 0].sum() == 0  # black around
    assert found[0, 2:4, 2:4].float().mean() > found[0, 2:4, 0].float().mean()
    kept = task().prepared(ink, invert=False)
    assert kept[0, 3, 0] > 200
    on_canvas = task(canvas=Canvas(60)).prepared(ink)
    assert on_canvas.shape == (1, 60, 60)
    assert (on_canvas[0] > 200).sum() == 40  # not enlarged
    assert task().prepared(torch.zeros(1, 1, 3, dtype=torch.uint8)).shape == (1, 6, 6)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {"dataset": "mnsit"},
            "task.dataset: got 'mnsit'; expected one of digits, mnist, svhn, cifar10",
        ),
        ({"smoothing": 1.0}, "task.smoothing: got 1.0"),
        ({"discount": 1.5}, "task.discount: got 1.5; expected 0 to 1"),
        ({"reward_weight": -1.0}, "task.reward_weight: got -1.0; expected 0 or more"),
        ({"rollouts": 0}, "task.rollouts: got 0; expected 1 or more"),
        ({"erase": -1}, "task.erase: got -1; expected 0 or more"),
        ({"turn": -5.0}, "task.turn: got -5.0; expected 0 to 360"),
        ({"stretch": -0.1}, "task.stretch: got -0.1; expected 0 ≤ stretch < 1"),
        ({"stretch": 1.0}, "task.stretch: got 1.0; expected 0 ≤ stretch < 1"),
        ({"canvas": Canvas(60), "mirror": True}, "a canvas is neither cropped nor mirrored"),
        ({"std": (0.0,)}, "task.std: got 0.0; expected more than 0"),
        (
            {"standardise": True, "mean": (0.5,)},
            "a picture is normalised in one way: got standardise=true, mean=(0.5,)",
        ),
    ],
)
def test_wrong_settings(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Classification(ClassificationConfig(**settings))
    assert text in str(caught.value)


def test_settings_by_name() -> None:
    config = override(ClassificationConfig(), ["canvas.size=60", "canvas.clutter=4", "mean=0.1,0.2,0.3"])
    assert config.canvas == Canvas(60, clutter=4)
    assert Classification.load(Path(), config).config == config


def test_the_sample_is_a_data_set(tmp_path: Path) -> None:
    mine = Classification(ClassificationConfig(dataset="digits"))
    assert mine.splits["train"].size == 1297
    mine.save(tmp_path)
    kept = Classification.load(tmp_path, mine.config)
    assert kept.facts == mine.facts == (tuple("0123456789"), 1, 1, 28)
    assert "splits" not in vars(kept)  # a run needs no data to recognise pictures
    (tmp_path / "pictures.json").write_text('{"classes": 3}')
    with pytest.raises(RegardError, match=r"pictures.json cannot be read: got .*\. Try: restore it, or train anew"):
        Classification.load(tmp_path, mine.config)


@pytest.mark.parametrize("kind", ["ram", "dram", "dt_ram", "conv"])
def test_models_learn(kind: str, tmp_path: Path) -> None:
    """A few steps on grey levels: the loss falls, by the trainer's own loop."""
    mine = task(batch_size=20)
    wide = replace(TINY, hidden_dim=32, glimpse_dim=32, part_dim=32, core="lstm")
    torch.manual_seed(0)
    model = {
        "ram": lambda: RAM(wide),
        "dt_ram": lambda: DTRAM(DTRAMConfig(wide)),
        "dram": lambda: DRAM(
            DRAMConfig(glimpses=2, size=4, scales=1, filters=(8, 8, 16), glimpse_dim=64, hidden_dim=64, coarse=4)
        ),
        "conv": lambda: Convolutional(ConvolutionalConfig(image_size=6, width=3, stride=3, hidden_dim=32)),
    }[kind]()
    before = mine.evaluate(model, "test").figures["loss"]
    train_model(model, mine, Train(steps=40, lr=1e-2, log_every=40, evaluate_every=40, save_every=40), tmp_path)
    assert mine.evaluate(model, "test").figures["loss"] < 0.85 * before
