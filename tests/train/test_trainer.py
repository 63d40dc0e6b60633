"""The loop: it resumes exactly whatever ended it, stops when it should, and keeps what it should."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import killed
import pytest
import torch
import toy
from torch import Tensor, nn

from regard.align import Hard
from regard.base import ConfigError, RegardError
from regard.tasks import Evaluation, Loss, Task
from regard.train import CheckpointError, Train, World, checkpoints, load_checkpoint, load_tensors, train_model, weights
from regard.train.averaging import mean_of
from regard.train.checkpoint import _seal
from regard.train.trainer import STATE

SAVED = {"steps": 10, "save_every": 3, "evaluate_every": 4, "log_every": 2, "keep": 9}
VARIANTS: dict[str, dict[str, Any]] = {
    "float32": {},
    "bfloat16": {"precision": "bfloat16"},
    "pure_bfloat16": {"precision": "pure_bfloat16"},
    "ema": {"ema": 0.9, "average": 2},
    "pure ema": {"ema": 0.9, "precision": "pure_bfloat16"},
    "accumulate": {"accumulate": 2},
    "adamw": {"optimiser": "adamw", "weight_decay": 0.1, "schedule": "cosine", "warmup": 3},
    "undecayed": {"optimiser": "adamw", "weight_decay": 0.1, "undecayed": ("bias",)},
    "sgd": {"optimiser": "sgd", "momentum": 0.9, "schedule": "linear"},
    "nag": {"optimiser": "nag", "momentum": 0.9, "clip": 0.1, "schedule": "plateau"},
    "adadelta": {"optimiser": "adadelta", "lr": 1.0, "eps": 1e-6, "schedule": "halving"},
}


def same_files(one: Path, other: Path) -> bool:
    """Whether two runs have the same records and, to the bit, the same weights in the same checkpoints."""
    names = ["best.safetensors", "model.safetensors"]
    for folder in checkpoints(one / "checkpoints"):
        names += [f"checkpoints/{folder.name}/{path.name}" for path in folder.glob("*.safetensors")]
    kept = [[path.name for path in checkpoints(folder / "checkpoints")] for folder in (one, other)]
    equal = all((one / name).read_bytes() == (other / name).read_bytes() for name in names)
    return equal and kept[0] == kept[1] and toy.records(one) == toy.records(other)


# ── resuming ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("variant", VARIANTS)
def test_resuming_is_exact(tmp_path: Path, variant: str) -> None:
    settings = {**SAVED, **VARIANTS[variant]}
    toy.run(tmp_path / "whole", **settings)
    for stop in (5, 8):  # from step 3, in the middle of a window of the log, and from step 6, at the end of one
        with pytest.raises(toy.Stop):
            toy.run(tmp_path / "broken", watch=toy.stop_at(stop), resume=stop > 5, **settings)
    toy.run(tmp_path / "broken", resume=True, **settings)
    assert [record["step"] for record in toy.records(tmp_path / "broken", "train")] == [2, 4, 6, 8, 10]
    assert [record["step"] for record in toy.records(tmp_path / "broken", "valid")] == [4, 8, 10]
    assert same_files(tmp_path / "whole", tmp_path / "broken")


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "pure_bfloat16"])
def test_resuming_a_translator_is_exact(tmp_path: Path, precision: str) -> None:
    settings = {"steps": 6, "save_every": 2, "log_every": 3, "precision": precision, "seed": 3}
    options = {"smoothing": 0.1, "batch_size": 20}  # three batches an epoch
    toy.run(tmp_path / "whole", task=toy.translation(**options), **settings)
    with pytest.raises(toy.Stop):
        toy.run(tmp_path / "broken", task=toy.translation(**options), watch=toy.stop_at(5), **settings)
    toy.run(tmp_path / "broken", task=toy.translation(**options), resume=True, **settings)
    assert same_files(tmp_path / "whole", tmp_path / "broken")


def test_noise_and_data_depend_on_the_seed(tmp_path: Path) -> None:
    for name, settings in {"one": {}, "again": {}, "seeded": {"seed": 1}, "large": {"seed": 10**15}}.items():
        toy.run(tmp_path / name, steps=3, **settings)
    one, again, seeded, large = (toy.losses(tmp_path / name) for name in ("one", "again", "seeded", "large"))
    assert one == again
    assert len({tuple(one), tuple(seeded), tuple(large)}) == 3
    toy.run(tmp_path / "quiet", steps=3, model=toy.network(0.0))
    assert toy.losses(tmp_path / "quiet") != one


def test_killed_and_resumed_is_uninterrupted(tmp_path: Path) -> None:
    """Real processes, ended by SIGKILL: at every touch of the disk in turn, and at random moments."""
    script = [sys.executable, str(Path(killed.__file__)), str(tmp_path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(script, capture_output=True, text=True, env=environment, timeout=1500)
    assert done.returncode == 0, done.stderr
    ends = json.loads(done.stdout)
    assert ends["points"][:-1] == [-signal.SIGKILL] * (len(ends["points"]) - 1)
    assert len(ends["points"]) > 20  # a checkpoint alone touches the disk a dozen times
    assert ends["points"][-1] == 0
    toy.run(tmp_path / "whole points", **killed.POINTS)
    assert same_files(tmp_path / "whole points", tmp_path / "points")
    assert list(tmp_path.glob("points/**/*.part")) == []

    assert -signal.SIGKILL in ends["moments"]
    toy.run(tmp_path / "moments", task=toy.translation(), resume=True, **killed.MOMENTS)
    toy.run(tmp_path / "whole moments", task=toy.translation(), **killed.MOMENTS)
    assert same_files(tmp_path / "whole moments", tmp_path / "moments")
    assert list(tmp_path.glob("moments/**/*.part")) == []


def test_a_folder_with_a_run_is_refused(tmp_path: Path) -> None:
    toy.run(tmp_path, steps=2)
    kept = (tmp_path / "metrics.jsonl").read_bytes()
    with pytest.raises(ConfigError, match=r"holds a run already: got step_00000002. Try: go on with it by --resume"):
        toy.run(tmp_path, steps=4)
    assert (tmp_path / "metrics.jsonl").read_bytes() == kept


def test_resuming_where_there_is_nothing_starts(tmp_path: Path) -> None:
    toy.run(tmp_path / "new", resume=True, steps=3)
    with pytest.raises(toy.Stop):
        toy.run(tmp_path / "early", steps=3, watch=toy.stop_at(2))  # logged, not saved
    toy.run(tmp_path / "early", resume=True, steps=3)
    assert same_files(tmp_path / "new", tmp_path / "early")


def test_resuming_what_is_done_changes_nothing(tmp_path: Path) -> None:
    settings = {"steps": 5, "evaluate_every": 2, "save_every": 2, "keep": 1, "ema": 0.5}
    toy.run(tmp_path, **settings)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.safetensors")}
    records, seen = toy.records(tmp_path), []
    toy.run(tmp_path, resume=True, watch=lambda kind, facts: seen.append(kind), **settings)
    assert seen == ["end"]  # it neither judges nor saves again
    assert toy.records(tmp_path) == records
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.safetensors")} == before


def test_a_run_goes_on_beyond_its_end(tmp_path: Path) -> None:
    toy.run(tmp_path / "whole", steps=9)
    toy.run(tmp_path / "longer", steps=4)
    toy.run(tmp_path / "longer", steps=9, resume=True)
    assert toy.losses(tmp_path / "longer") == toy.losses(tmp_path / "whole")
    assert [record["step"] for record in toy.records(tmp_path / "longer", "end")] == [9]


def test_half_a_line_is_forgotten(tmp_path: Path) -> None:
    toy.run(tmp_path / "whole", steps=6, save_every=3)
    with pytest.raises(toy.Stop):
        toy.run(tmp_path / "broken", steps=6, save_every=3, watch=toy.stop_at(5))
    with open(tmp_path / "broken" / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write('{"kind": "train", "step": 5, "lo')
    toy.run(tmp_path / "broken", steps=6, save_every=3, resume=True)
    assert same_files(tmp_path / "whole", tmp_path / "broken")


def test_resuming_with_other_settings_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(toy.Stop):
        toy.run(tmp_path, save_every=2, watch=toy.stop_at(3))
    with pytest.raises(CheckpointError, match=r"has no running mean. Try: resume with the settings of the run"):
        toy.run(tmp_path, ema=0.9, resume=True)
    with pytest.raises(
        RegardError, match=r"another optimiser: got exp_avg, exp_avg_sq, step; expected momentum_buffer"
    ):
        toy.run(tmp_path, optimiser="sgd", resume=True)
    with pytest.raises(CheckpointError, match="these weights are of another model"):
        toy.run(tmp_path, model=nn.Linear(2, 1), resume=True)


# ── stopping ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_patience(tmp_path: Path) -> None:
    task = toy.Regression([1.0, 3.0, 3.0, 2.0, 9.0])
    model = toy.run(tmp_path / "patient", task=task, steps=100, evaluate_every=2, patience=2)
    assert toy.records(tmp_path / "patient")[-1] == {"kind": "end", "step": 8}  # an equal figure is no better
    assert task.seen == 4
    best = toy.run(tmp_path / "best", task=toy.Regression([1.0, 3.0]), steps=4, evaluate_every=2)
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), best.parameters(), strict=True))
    toy.run(tmp_path / "patient", task=task, steps=100, evaluate_every=2, patience=2, resume=True)
    assert toy.records(tmp_path / "patient")[-1] == {"kind": "end", "step": 8}  # it knows that it was done
    assert task.seen == 4


def test_lower_may_be_better(tmp_path: Path) -> None:
    class Rising(toy.Regression):
        def evaluate(self, model: nn.Module, split: str) -> Evaluation:
            self.seen += 1
            return Evaluation({"loss": float(self.seen)}, best="loss", higher_is_better=False)

    toy.run(tmp_path, task=Rising(), steps=100, evaluate_every=1, patience=3)
    assert toy.records(tmp_path)[-1]["step"] == 4


def test_two_figures_decide_what_is_kept_and_when_to_stop(tmp_path: Path) -> None:
    """(2, .8) is kept; (3, .9) and (1, .7) are records in one figure alone; then nothing, three times. Also resumed."""
    course = [(1.0, 0.9), (2.0, 0.8), (3.0, 0.9), (1.0, 0.7), (2.0, 0.75), (2.5, 0.8), (0.0, 0.9), (9.0, 0.1)]

    class Both(toy.Regression):
        def evaluate(self, model: nn.Module, split: str) -> Evaluation:
            accuracy, loss = course[self.seen]
            self.seen += 1
            return Evaluation({"accuracy": accuracy, "loss": loss}, best="accuracy", beside="loss")

    model = toy.run(tmp_path / "whole", task=Both(), steps=100, evaluate_every=1, patience=3)
    assert toy.records(tmp_path / "whole")[-1]["step"] == 7
    kept = toy.run(tmp_path / "kept", task=Both(), steps=2, evaluate_every=1)
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), kept.parameters(), strict=True))
    task = Both()
    with pytest.raises(toy.Stop):
        toy.run(
            tmp_path / "cut", task=task, steps=100, evaluate_every=1, patience=3, save_every=4, watch=toy.stop_at(5)
        )
    resumed = toy.run(tmp_path / "cut", task=task, steps=100, evaluate_every=1, patience=3, save_every=4, resume=True)
    assert toy.records(tmp_path / "cut")[-1]["step"] == 7
    assert all(torch.equal(one, other) for one, other in zip(resumed.parameters(), kept.parameters(), strict=True))


def test_plateau(tmp_path: Path) -> None:
    task = toy.Regression([5.0, 5.0, 4.0, 6.0, 5.0])
    toy.run(tmp_path, task=task, steps=10, evaluate_every=2, lr=0.8, schedule="plateau", factor=0.5)
    rates = [record["lr"] for record in toy.records(tmp_path, "train")]
    assert rates == [0.8] * 4 + [0.4] * 2 + [0.2] * 4


class Slow(toy.Regression):
    """A step takes a second, an evaluation an hour."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def loss(self, model: Callable[..., Any], batch: toy.Points) -> Loss:
        self.now += 1
        return super().loss(model, batch)

    def evaluate(self, model: nn.Module, split: str) -> Evaluation:
        self.now += 3600
        return super().evaluate(model, split)


def test_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = Slow()
    monkeypatch.setattr("regard.train.clock.time", SimpleNamespace(perf_counter=lambda: task.now))
    settings = {"steps": 1000, "seconds": 5.0, "schedule": "linear", "lr": 1e-3, "evaluate_every": 2, "save_every": 2}
    with pytest.raises(toy.Stop):
        toy.run(tmp_path, task=task, watch=toy.stop_at(4), **settings)
    task.now += 5000  # between the processes
    toy.run(tmp_path, task=task, resume=True, **settings)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    logged = [line for line in lines if line["kind"] == "train"]
    assert (lines[-1]["kind"], lines[-1]["step"]) == ("end", 5)
    assert lines[-1]["seconds"] == pytest.approx(10 - 5)
    assert [line["seconds"] for line in logged] == pytest.approx([1, 2, 3, 4, 5])
    assert [line["per_second"] for line in logged] == pytest.approx([7] * 5)
    assert [line["lr"] for line in logged] == pytest.approx([0.999e-3, 0.8e-3, 0.6e-3, 0.4e-3, 0.2e-3])


def test_time_can_be_over_before_it_begins(tmp_path: Path) -> None:
    model = toy.run(tmp_path, seconds=1e-9)
    assert toy.records(tmp_path)[-1] == {"kind": "end", "step": 0}
    assert torch.equal(model[4].weight, toy.network()[4].weight)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_step_and_saves(tmp_path: Path, number: signal.Signals) -> None:
    handler = signal.getsignal(number)

    def watch(kind: str, facts: Mapping[str, Any]) -> None:
        if kind == "step" and facts["step"] == 5:
            os.kill(os.getpid(), number)

    toy.run(tmp_path / "whole", log_every=3)
    with pytest.raises(KeyboardInterrupt):
        toy.run(tmp_path / "broken", log_every=3, watch=watch)
    assert signal.getsignal(number) is handler
    assert [path.name for path in checkpoints(tmp_path / "broken" / "checkpoints")] == ["step_00000005"]
    toy.run(tmp_path / "broken", log_every=3, resume=True)
    assert toy.records(tmp_path / "broken") == toy.records(tmp_path / "whole")


def test_an_interrupt_is_told(tmp_path: Path) -> None:
    told: list[int] = []

    def watch(kind: str, facts: Mapping[str, Any]) -> None:
        if kind == "step" and facts["step"] == 5:
            signal.raise_signal(signal.SIGINT)
        if kind == "stopping":
            told.append(facts["step"])

    with pytest.raises(KeyboardInterrupt):
        toy.run(tmp_path, watch=watch)
    assert told == [5]


def test_an_interrupt_while_the_last_step_is_saved(tmp_path: Path) -> None:
    """It has stopped then, and does not go on to judge what it has learnt."""

    def watch(kind: str, facts: Mapping[str, Any]) -> None:
        if kind == "saved" and facts["step"] == 4:
            signal.raise_signal(signal.SIGINT)

    task = toy.Regression()
    with pytest.raises(KeyboardInterrupt):
        toy.run(tmp_path, task=task, steps=4, save_every=2, watch=watch)
    assert task.seen == 0
    assert [path.name for path in checkpoints(tmp_path / "checkpoints")][-1] == "step_00000004"


@pytest.mark.parametrize("how", ["deleted", "emptied", "moved", "replaced"])
@pytest.mark.parametrize("step", [1, 3, 5, 6])  # before a log, an evaluation, a checkpoint, the end
def test_a_folder_that_goes_away_ends_the_run(tmp_path: Path, how: str, step: int) -> None:
    """Nothing is announced: no end, and no folder that looks like a run."""
    folder, told = tmp_path / "run", []

    def watch(kind: str, facts: Mapping[str, Any]) -> None:
        told.append(kind)
        if kind == "step" and facts["step"] == step:
            if how == "emptied":
                for path in folder.iterdir():
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            elif how == "moved":
                folder.rename(tmp_path / "moved")
            else:
                shutil.rmtree(folder)
            if how == "replaced":
                folder.mkdir()

    with pytest.raises(RegardError, match=r"run is gone: it was deleted or moved while the run was training: .* Try"):
        toy.run(folder, steps=6, log_every=2, evaluate_every=4, save_every=5, watch=watch)
    assert "end" not in told
    assert not (folder / "model.safetensors").exists()
    assert not list(folder.glob("checkpoints/step_*"))


def test_a_folder_that_goes_away_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def save(path: Path, tensors: Mapping[str, Tensor]) -> None:
        shutil.rmtree(tmp_path / "run")
        raise OSError("no such file or directory")

    monkeypatch.setattr("regard.train.trainer.save_tensors", save)
    with pytest.raises(RegardError, match="run is gone"):
        toy.run(tmp_path / "run", steps=2)
    monkeypatch.undo()
    monkeypatch.setattr("regard.train.trainer.save_tensors", lambda path, tensors: path.mkdir(parents=True))
    with pytest.raises(FileExistsError):  # another reason stays another reason
        toy.run(tmp_path / "run", steps=2, evaluate_every=1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in STATE for value in ("7", [], {"a": 1}, True)),
        ("step", None),
        ("window", {}),
        ("window", {"sums": {"loss": "x"}, "counted": 3}),
        ("batches", {}),
    ],
)
def test_a_state_of_wrong_types_is_one_line(tmp_path: Path, name: str, value: Any) -> None:
    toy.run(tmp_path, steps=2)
    path = tmp_path / "checkpoints" / "step_00000002" / "state.json"
    state = json.loads(path.read_text())
    state.pop("sha256")
    state[name] = value
    path.write_text(json.dumps({**state, "sha256": _seal(state)}))
    with pytest.raises(CheckpointError, match=r"step_00000002 does not fit this run: got \w+Error, .* Try: delete"):
        toy.run(tmp_path, steps=4, resume=True)
    path.unlink()
    toy.run(tmp_path, steps=2, resume=True)  # the lock is free again


def test_checkpoints_elsewhere_are_not_touched(tmp_path: Path) -> None:
    """A stranger's folder whose checkpoints are a link to mine: to go on with it would prune mine."""
    toy.run(tmp_path / "mine", steps=4, save_every=1, keep=9)
    before = sorted(path.name for path in (tmp_path / "mine" / "checkpoints").iterdir())
    (tmp_path / "stranger").mkdir()
    (tmp_path / "stranger" / "checkpoints").symlink_to(tmp_path / "mine" / "checkpoints")
    with pytest.raises(
        CheckpointError, match=r"stranger/checkpoints is a link; expected|checkpoints is a link: expected"
    ):
        toy.run(tmp_path / "stranger", steps=6, keep=1, resume=True)
    assert sorted(path.name for path in (tmp_path / "mine" / "checkpoints").iterdir()) == before


def test_best_weights_that_are_broken_lose_nothing(tmp_path: Path) -> None:
    """The cure leads to an end, from the checkpoint that is whole."""
    toy.run(tmp_path, steps=4)
    (tmp_path / "best.safetensors").write_bytes(b"half")
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"Try: go on with --resume --set train.average=1: the last checkpoint"):
        toy.run(tmp_path, steps=4, resume=True)
    toy.run(tmp_path, steps=4, resume=True, average=1)
    assert (tmp_path / "model.safetensors").exists()


def test_an_interrupt_at_the_wrong_moment_saves_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([False, True])  # it comes just after the loop has asked
    monkeypatch.setattr("regard.train.trainer.interrupts", lambda say, insist: nullcontext(lambda: next(answers)))
    with pytest.raises(KeyboardInterrupt):
        toy.run(tmp_path)
    assert [path.name for path in checkpoints(tmp_path / "checkpoints")] == ["step_00000002"]


def test_a_second_interrupt_is_at_once(tmp_path: Path) -> None:
    def watch(kind: str, facts: Mapping[str, Any]) -> None:
        if kind == "step":
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        toy.run(tmp_path, watch=watch)
    assert checkpoints(tmp_path / "checkpoints") == []


def test_training_in_a_thread(tmp_path: Path) -> None:
    thread = threading.Thread(target=lambda: toy.run(tmp_path / "thread"))
    thread.start()
    thread.join()
    toy.run(tmp_path / "main")
    assert toy.records(tmp_path / "thread") == toy.records(tmp_path / "main")


class Spoilt(toy.Regression):
    """At step five the loss is not a number, or only its gradient."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what, self.calls = what, 0

    def loss(self, model: Callable[..., Any], batch: toy.Points) -> Loss:
        self.calls += 1
        loss = super().loss(model, batch)
        if self.calls != 5:
            return loss
        return Loss(loss.total * math.inf if self.what == "loss" else loss.total + (0 * loss.total).sqrt())


@pytest.mark.parametrize(("what", "found"), [("loss", "loss is inf"), ("gradient", r"(loss|sum of 0\.weight) is nan")])
@pytest.mark.parametrize("every", ["save_every", "evaluate_every", "log_every"])
def test_a_loss_that_is_no_number(tmp_path: Path, what: str, found: str, every: str) -> None:
    settings = {"log_every": 100, "save_every": 2, every: 5}
    with pytest.raises(RegardError, match=rf"the {found} at step \d. Try: lower train.lr, .* checkpoints are whole"):
        toy.run(tmp_path, task=Spoilt(what), **settings)
    for path in checkpoints(tmp_path / "checkpoints"):
        assert all(tensor.isfinite().all() for tensor in load_checkpoint(path)[0]["model"].values())
    assert not (tmp_path / "best.safetensors").exists()


# ── what is kept ────────────────────────────────────────────────────────────────────────────────────────────────────


def equal(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return set(one) == set(other) and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(("average", "steps"), [(1, [9]), (2, [6, 9]), (3, [3, 6, 9])])
@pytest.mark.parametrize("ema", [None, 0.5])
def test_the_mean_of_the_last_checkpoints(tmp_path: Path, average: int, steps: list[int], ema: float | None) -> None:
    falling = toy.Regression([3.0, 2.0, 1.0])  # the best is the first
    model = toy.run(tmp_path, task=falling, steps=9, save_every=3, evaluate_every=3, average=average, ema=ema)
    files = [load_checkpoint(tmp_path / "checkpoints" / f"step_{step:08d}")[0] for step in steps]
    assert all(("mean" in each) == (ema is not None) for each in files)
    expected = mean_of([{**each["model"], **each.get("mean", {})} for each in files])
    assert equal(weights(model), expected)
    assert equal(load_tensors(tmp_path / "model.safetensors"), expected)
    assert not model.training


@pytest.mark.parametrize("precision", ["float32", "pure_bfloat16"])
def test_the_running_mean_is_what_is_evaluated_and_kept(tmp_path: Path, precision: str) -> None:
    model = toy.network()
    mean = {name: tensor.double() for name, tensor in weights(model).items()}

    def watch(kind: str, facts: Mapping[str, Any]) -> None:
        if kind == "step":
            n = facts["step"]
            with trainer.masters.in_full():
                for name, tensor in weights(model).items():
                    mean[name] += (1 - min(0.5, (1 + n) / (10 + n))) * (tensor.double() - mean[name])

    class Seeing(toy.Regression):
        def evaluate(self, model: nn.Module, split: str) -> Evaluation:
            found.append({name: tensor.clone() for name, tensor in weights(model).items()})
            return super().evaluate(model, split)

    from regard.train.trainer import Trainer

    found: list[dict[str, Tensor]] = []
    settings = Train(steps=6, ema=0.5, evaluate_every=6, lr=0.05, precision=precision)  # type: ignore[arg-type]
    trainer = Trainer(model, Seeing(), settings, tmp_path, World(), False, watch)
    trainer.run()
    last = load_checkpoint(tmp_path / "checkpoints" / "step_00000006")[0]
    for name, tensor in weights(model).items():
        torch.testing.assert_close(tensor.double(), mean[name])
        assert torch.equal(tensor, found[0][name])
        assert name == "number" or torch.equal(tensor, last["mean"][name])
    assert not torch.equal(last["model"]["0.weight"], last["mean"]["0.weight"])


def test_the_best_is_kept(tmp_path: Path) -> None:
    last = toy.run(tmp_path / "rising", task=toy.Regression([1.0, 2.0, 3.0]), steps=6, evaluate_every=2)
    first = toy.run(tmp_path / "falling", task=toy.Regression([3.0, 2.0, 1.0]), steps=6, evaluate_every=2)
    assert equal(weights(last), load_checkpoint(tmp_path / "rising/checkpoints/step_00000006")[0]["model"])
    assert equal(weights(first), weights(toy.run(tmp_path / "two", steps=2)))
    assert [record["judged"] for record in toy.records(tmp_path / "falling", "valid")] == [3.0, 2.0, 1.0]


def test_pure_bfloat16_learns_in_float32(tmp_path: Path) -> None:
    model, types = toy.network(), set()

    def watch(kind: str, facts: Mapping[str, Any]) -> None:
        types.add((kind, model[0].weight.dtype))

    toy.run(tmp_path, model=model, precision="pure_bfloat16", lr=1e-4, steps=20, watch=watch)
    assert ("step", torch.bfloat16) in types
    assert {tensor.dtype for tensor in model.parameters()} == {torch.float32}
    saved = load_checkpoint(tmp_path / "checkpoints" / "step_00000020")[0]
    assert saved["model"]["0.weight"].dtype == saved["optimiser"]["0.weight/exp_avg"].dtype == torch.float32
    moved = (model[4].weight - toy.network()[4].weight).abs()
    assert ((moved > 0) & (moved < 0.003)).all()  # steps too small for bfloat16 add up


def test_what_a_watch_sees(tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []
    toy.run(
        tmp_path,
        steps=4,
        log_every=2,
        evaluate_every=2,
        save_every=3,
        watch=lambda kind, facts: seen.append((kind, facts["step"])),
    )
    steps = [("step", 1), ("step", 2), ("train", 2), ("valid", 2), ("step", 3), ("saved", 3), ("step", 4)]
    assert seen == [*steps, ("train", 4), ("valid", 4), ("saved", 4), ("end", 4)]
    kinds = [record["kind"] for record in toy.records(tmp_path)]
    assert kinds == ["train", "valid", "train", "valid", "end"]
    assert set(toy.records(tmp_path, "train")[0]) == {"kind", "step", "loss", "distance", "lr"}


def test_accumulated_batches_are_one_large_batch(tmp_path: Path) -> None:
    class Double(toy.Regression):
        def batches(self, *, seed: int, rank: int = 0, world: int = 1) -> Any:
            class Two(toy.Stream):
                def __next__(self) -> toy.Points:
                    first, second = super().__next__(), super().__next__()
                    return toy.Points(torch.cat([first.x, second.x]), torch.cat([first.y, second.y]))

            return Two(seed, rank, world)

    toy.run(tmp_path / "two", model=toy.network(0.0), accumulate=2)
    toy.run(tmp_path / "large", model=toy.network(0.0), task=Double())
    assert toy.losses(tmp_path / "two") == pytest.approx(toy.losses(tmp_path / "large"), rel=1e-5)


def test_what_does_not_decay(tmp_path: Path) -> None:
    kept = {}
    for name, part in {"all": (), "but": ("0.bias",)}.items():
        settings = {"steps": 1, "optimiser": "adamw", "lr": 1e-3, "weight_decay": 500.0, "undecayed": part}
        toy.run(tmp_path / name, **settings)
        kept[name] = load_tensors(tmp_path / name / "model.safetensors")
    before = toy.network()[0].bias
    assert (kept["all"]["0.bias"].abs() < 0.51 * before.abs() + 2e-3).all()  # by half, and a step of Adam
    assert (kept["but"]["0.bias"] - before).abs().max() < 2e-3
    assert kept["all"]["0.weight"].equal(kept["but"]["0.weight"])
    with pytest.raises(
        ConfigError, match=r"train.undecayed: got gaet; expected a part of a name such as 0.weight. Try: write train"
    ):
        toy.run(tmp_path / "wrong", steps=1, undecayed=("gaet",))


def test_capture_needs_a_gpu_and_a_plain_step(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"train.capture: got cpu; expected one CUDA device. Try: set train.capture=f"
    ):
        toy.run(tmp_path, capture=True)
    world = World(0, 1, torch.device("cuda"))
    with pytest.raises(ConfigError, match=r"train.capture: got accumulate=2; expected one batch a step"):
        toy.run(tmp_path, world=world, capture=True, accumulate=2)
    with pytest.raises(ConfigError, match=r"train.capture: got 2 processes; expected one CUDA device"):
        toy.run(tmp_path, world=World(0, 2, torch.device("cuda")), capture=True)


# ── a reward instead of a target ────────────────────────────────────────────────────────────────────────────────────


class Picker(nn.Module):
    """Hard attention: it picks one of five items by a sampled key, and guesses what reward to expect."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.zeros(1, 3))
        self.baseline = nn.Parameter(torch.zeros(()))
        self.align = Hard("sample")

    def forward(self, items: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        weights, log_prob, _ = self.align(self.query @ items.mT)
        return weights.squeeze(-2), log_prob.squeeze(-1), self.baseline


class Reward:
    """The reward is the first number of the item that was picked: REINFORCE with a learnt baseline."""

    def batches(self, *, seed: int, rank: int = 0, world: int = 1) -> Any:
        class Items(toy.Stream):
            def __next__(self) -> toy.Points:
                noise = torch.Generator().manual_seed(self.seed * 10_000 + self.position)
                self.position += 1
                return toy.Points(torch.rand(16, 5, 3, generator=noise), torch.zeros(16))

        return Items(seed, rank, world)

    def loss(self, model: Callable[..., Any], batch: toy.Points) -> Loss:
        weights, log_prob, baseline = model(batch.x)
        reward = (weights * batch.x[..., 0]).sum(-1)
        advantage = (reward - baseline).detach()
        total = -(advantage * log_prob).sum() + (reward - baseline).square().sum()
        return Loss(total, {"reward": reward.sum()})

    def evaluate(self, model: nn.Module, split: str) -> Evaluation:
        items = next(self.batches(seed=77)).x
        model.eval()
        reward = (model(items)[0] * items[..., 0]).sum(-1).mean().item()
        model.train()
        return Evaluation({"reward": reward}, best="reward")


def test_a_reward_is_learnt_by_the_same_loop(tmp_path: Path) -> None:
    task: Task = Reward()
    model = train_model(Picker(), task, Train(steps=100, lr=0.2, log_every=20, evaluate_every=50), tmp_path)
    rewards = [record["reward"] for record in toy.records(tmp_path, "train")]
    assert rewards[0] < rewards[-1] - 0.1  # a blind pick gets ½, the best of five 5⁄6
    assert rewards[-1] > 0.7
    assert toy.records(tmp_path, "valid")[-1]["reward"] > 0.75
    assert model.query[0, 0] > 3 * model.query[0, 1:].abs().max()
    assert 0.6 < model.baseline.item() < 0.9
