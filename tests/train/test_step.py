"""One update: by hand, in parts, in each precision; on a GPU also recorded."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import toy
from torch import nn

from regard.datasets.agreement import agreement
from regard.kernels import limits
from regard.models import LSTMNConfig, LSTMNLanguageModel, Transformer, TransformerConfig
from regard.tasks import LanguageModelling, LanguageModellingConfig, Loss, Translation
from regard.train import RunningMean, Train, World, build_optimiser
from regard.train.mixed_precision import Masters
from regard.train.step import Stepper, carried


def stepper(model: nn.Module, task: Any = None, **options: Any) -> Stepper:
    settings = Train(**{"optimiser": "sgd", "momentum": 0.0, "clip": None, **options})
    masters = Masters(model, half=settings.precision == "pure_bfloat16")
    mean = None if settings.ema is None else RunningMean(model, settings.ema)
    masters.start()
    return Stepper(masters, task or toy.Regression(), build_optimiser(masters.full, settings), settings, World(), mean)


def points(*sizes: int) -> list[toy.Points]:
    """Batches of these sizes."""
    torch.manual_seed(3)
    return [toy.Points(torch.randn(size, 2), torch.randn(size)) for size in sizes]


def test_by_hand() -> None:
    model, batch = nn.Linear(2, 1), points(4)[0]
    error = batch.x @ model.weight.detach().mT + model.bias.detach() - batch.y.unsqueeze(1)
    expected = model.weight.detach() - 0.1 * (2 * error * batch.x).sum(0) / 4  # the mean over what is counted
    step = stepper(model)
    step.update([batch], 4, 0.1, 1)
    torch.testing.assert_close(model.weight.detach(), expected.reshape(1, 2))
    assert all(parameter.grad is None for parameter in model.parameters())
    found = step.figures()
    assert found == pytest.approx({"loss": error.square().mean().item(), "distance": error.abs().mean().item()})
    assert step.figures() == {"loss": 0.0, "distance": 0.0}  # a new window


def test_parts_are_weighed_by_their_counts() -> None:
    one, other = nn.Linear(2, 1), nn.Linear(2, 1)
    other.load_state_dict(one.state_dict())
    parts = points(1, 6, 3)
    whole = toy.Points(torch.cat([part.x for part in parts]), torch.cat([part.y for part in parts]))
    first, second = stepper(one, clip=0.5), stepper(other, clip=0.5)
    first.update(parts, 10, 0.1, 1)
    second.update([whole], 10, 0.1, 1)
    torch.testing.assert_close(one.weight, other.weight)
    assert first.figures() == pytest.approx(second.figures())


def test_clipping() -> None:
    model = nn.Linear(2, 1)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    stepper(model, clip=0.01).update(points(4), 4, 1.0, 1)
    moved = [(parameter.detach() - old).flatten() for parameter, old in zip(model.parameters(), before, strict=True)]
    assert torch.cat(moved).norm().item() == pytest.approx(0.01, rel=1e-4)


@pytest.mark.parametrize(
    ("precision", "types"),
    [
        ("float32", (torch.float32, torch.float32)),
        ("tf32", (torch.float32, torch.float32)),
        ("bfloat16", (torch.float32, torch.bfloat16)),
        ("pure_bfloat16", (torch.bfloat16, torch.bfloat16)),
    ],
)
def test_precisions(precision: str, types: tuple[torch.dtype, torch.dtype]) -> None:
    seen = []

    class Task(toy.Regression):
        def loss(self, model: Callable[..., Any], batch: toy.Points) -> Loss:
            batch = toy.Points(batch.x.to(network[0].weight.dtype), batch.y)
            seen.append((network[0].weight.dtype, model(batch.x).dtype))
            return super().loss(model, batch)

    network = nn.Sequential(nn.Linear(2, 1))
    start = network[0].weight.detach().clone()
    step = stepper(network, Task(), precision=precision, ema=0.5)
    step.update(points(4), 4, 1e-3, 1)
    assert seen == [types]
    assert step.masters.full[0].dtype == torch.float32
    assert 0 < (step.masters.full[0] - start).abs().max() < 0.02
    assert torch.isfinite(torch.tensor(step.figures()["loss"]))


class Watched(toy.Regression):
    """Says which products were allowed, forward and backward; breaks off where it is told to."""

    def __init__(self, broken: bool = False) -> None:
        super().__init__()
        self.broken, self.allowed = broken, []

    def loss(self, model: Callable[..., Any], batch: toy.Points) -> Loss:
        self.note(None)
        found = super().loss(model, batch)
        found.total.register_hook(self.note)
        if self.broken:
            raise toy.Stop
        return found

    def note(self, gradient: object) -> None:
        self.allowed.append(torch.backends.cuda.matmul.allow_tf32)


@pytest.fixture(params=[False, True], ids=["full", "short"])
def before(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Which products the user had allowed."""
    kept = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = request.param
    yield request.param
    torch.backends.cuda.matmul.allow_tf32 = kept


@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
def test_short_products_are_for_the_update_only(precision: str, before: bool) -> None:
    whole, broken = Watched(), Watched(broken=True)
    stepper(nn.Linear(2, 1), whole, precision=precision).update(points(4, 3), 7, 0.1, 1)
    assert whole.allowed == [precision == "tf32" or before] * 4  # two batches, forward and backward
    assert torch.backends.cuda.matmul.allow_tf32 is before
    with pytest.raises(toy.Stop):
        stepper(nn.Linear(2, 1), broken, precision=precision).update(points(4), 4, 0.1, 1)
    assert broken.allowed == [precision == "tf32" or before]
    assert torch.backends.cuda.matmul.allow_tf32 is before


def test_a_cpu_has_no_short_products() -> None:
    weights = []
    for precision in ("float32", "tf32"):
        network = toy.network(0.0)
        step = stepper(network, precision=precision, optimiser="adam", clip=0.5)
        for number, batch in enumerate(points(40, 30, 20)):
            step.update([batch], batch.count, 0.1, number + 1)
        weights.append(torch.cat([parameter.detach().flatten() for parameter in network.parameters()]))
    assert weights[0].equal(weights[1])
    assert not weights[0].equal(
        torch.cat([parameter.detach().flatten() for parameter in toy.network(0.0).parameters()])
    )


def test_the_window_comes_back() -> None:
    batches = points(3, 4, 5)
    whole, broken, resumed = (stepper(toy.network(0.0)) for _ in range(3))
    for batch in batches:
        whole.update([batch], batch.count, 0.0, 1)
    for batch in batches[:2]:
        broken.update([batch], batch.count, 0.0, 1)
    resumed.load_state(broken.state())
    assert broken.state() == broken.state()  # asking changes nothing
    resumed.update([batches[2]], 5, 0.0, 1)
    assert resumed.counted == 12
    assert resumed.figures() == whole.figures()


# ── on a GPU ────────────────────────────────────────────────────────────────────────────────────────────────────────


def small_transformer(task: Translation) -> nn.Module:
    torch.manual_seed(5)
    sizes = {"dim": 16, "hidden_dim": 32, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    return Transformer(TransformerConfig(*task.vocabularies, **sizes, dropout=0.0, tie="output"))


def small_bahdanau(task: Translation) -> nn.Module:
    return toy.translator(task, dropout=0.0)


@pytest.mark.gpu
@pytest.mark.bare
@pytest.mark.parametrize("build", [small_bahdanau, small_transformer])
@pytest.mark.parametrize(
    "settings", [{}, {"optimiser": "adadelta", "lr": 1.0}, {"ema": 0.9, "schedule": "cosine"}], ids=str
)
def test_captured_is_eager(tmp_path: Path, build: Callable[[Translation], nn.Module], settings: dict[str, Any]) -> None:
    task, world = toy.translation(fit=4), World(0, 1, torch.device("cuda", 0))
    for name, capture in {"eager": False, "captured": True}.items():
        options = {"steps": 20, "log_every": 3, "evaluate_every": 10, **settings}
        toy.run(tmp_path / name, task=task, model=build(task), world=world, capture=capture, **options)
    eager, captured = toy.losses(tmp_path / "eager"), toy.losses(tmp_path / "captured")
    assert captured == pytest.approx(eager, rel=1e-4)
    assert eager[-1] < eager[0]


@pytest.mark.gpu
@pytest.mark.bare
@pytest.mark.filterwarnings("ignore:RNN module weights:UserWarning")  # torch 2.11 joins weights of other types alone
@pytest.mark.parametrize("precision", ["float32", "pure_bfloat16"])
def test_a_captured_run_resumes(tmp_path: Path, precision: str) -> None:
    """With dropout: graphs are recorded at other steps after resuming, and the noise must not know."""
    world = World(0, 1, torch.device("cuda", 0))
    options = {"world": world, "capture": True, "precision": precision, "ema": 0.9, "steps": 12, "save_every": 5}
    toy.run(tmp_path / "whole", task=toy.translation(fit=4), **options)
    with pytest.raises(toy.Stop):
        toy.run(tmp_path / "broken", task=toy.translation(fit=4), watch=toy.stop_at(7), **options)
    toy.run(tmp_path / "broken", task=toy.translation(fit=4), resume=True, **options)
    assert toy.losses(tmp_path / "broken") == pytest.approx(toy.losses(tmp_path / "whole"), rel=1e-4)


@pytest.mark.gpu
@pytest.mark.bare
def test_a_captured_run_with_kernels_for_small_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It learns what one without them learns, and resumes with the same noise."""
    world = World(0, 1, torch.device("cuda", 0))
    options = {"world": world, "capture": True, "precision": "pure_bfloat16", "ema": 0.9, "steps": 12, "save_every": 5}

    def run(name: str, dropout: float, **more: Any) -> None:
        task = toy.translation(fit=4)
        model = small_transformer(task)
        for part in model.modules():
            if isinstance(part, nn.Dropout):
                part.p = dropout
        toy.run(tmp_path / name, task=task, model=model, **options, **more)

    monkeypatch.setattr(limits, "CHOSEN_ON_A_GPU", frozenset())
    run("plain", 0.0)
    monkeypatch.setattr(limits, "CHOSEN_ON_A_GPU", limits.SMALL)
    run("fused", 0.0)
    assert toy.losses(tmp_path / "fused") == pytest.approx(toy.losses(tmp_path / "plain"), rel=2e-2)
    run("whole", 0.3)
    with pytest.raises(toy.Stop):
        run("broken", 0.3, watch=toy.stop_at(7))
    run("broken", 0.3, resume=True)
    assert toy.losses(tmp_path / "broken") == toy.losses(tmp_path / "whole")


def text(context: Any) -> tuple[LanguageModelling, nn.Module]:
    config = LanguageModellingConfig(context=context, batch_size=8, length=6, fit=4)
    task = LanguageModelling(config, splits=agreement((40, 4, 4)))
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"embed_dim": 8, "hidden_dim": 8, "align_dim": 8, "tape": 9}
    return task, LSTMNLanguageModel(task.complete(LSTMNConfig(**sizes)))


def test_what_a_task_carries() -> None:
    task, model = text("stream")
    assert carried(toy.Regression()) == carried(task) == {}
    step, batches = stepper(model, task), task.batches(seed=0)
    step.update([next(batches)], 48, 0.1, 1)
    first = {name: tensor.clone() for name, tensor in carried(task).items()}
    assert len(first) == 4
    places = {name: tensor.data_ptr() for name, tensor in carried(task).items()}
    step.update([next(batches)], 48, 0.1, 2)
    assert {name: tensor.data_ptr() for name, tensor in carried(task).items()} == places
    assert any(not torch.equal(tensor, first[name]) for name, tensor in carried(task).items())


@pytest.mark.gpu
@pytest.mark.bare
@pytest.mark.parametrize("context", ["sentence", "stream"])
def test_captured_text_is_eager_and_resumes(tmp_path: Path, context: str) -> None:
    """The state of streams is in fixed places: recording a graph must not move it on."""
    world = World(0, 1, torch.device("cuda", 0))
    options = {"world": world, "steps": 12, "log_every": 1, "evaluate_every": 12, "save_every": 5}

    def run(name: str, **more: Any) -> None:
        task, model = text(context)
        toy.run(tmp_path / name, task=task, model=model, **options, **more)

    run("eager")
    run("captured", capture=True)
    with pytest.raises(toy.Stop):
        run("broken", capture=True, watch=toy.stop_at(7))
    run("broken", capture=True, resume=True)
    expected = toy.losses(tmp_path / "captured")
    assert toy.losses(tmp_path / "broken") == pytest.approx(expected, rel=1e-4)
    assert expected == pytest.approx(toy.losses(tmp_path / "eager"), rel=1e-4)
