"""The loop, whole and visible, for every task.

The noise of a step (dropout, sampling) is drawn from a seed made of `settings.seed`, the step and the rank, and the
data has a position of its own. So a checkpoint needs no state of random generators, and what follows it is the same
whether the process went on or was killed and resumed.
"""

import math
from collections.abc import Callable, Mapping
from numbers import Real
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.base import ConfigError, RegardError
from regard.tasks import CarriesState, Evaluation, Task
from regard.train.averaging import mean_of
from regard.train.checkpoint import (
    CheckpointError,
    checkpoints,
    load_checkpoint,
    load_tensors,
    load_weights,
    prune,
    save_tensors,
    tidy,
    weights,
)
from regard.train.clock import Clock
from regard.train.distributed import World
from regard.train.interrupt import interrupts
from regard.train.launch import agent, mark, unmark
from regard.train.lock import RunLock
from regard.train.metrics_log import Records
from regard.train.mixed_precision import Masters
from regard.train.optim import build_optimiser, load_optimiser_tensors, optimiser_tensors
from regard.train.schedule import learning_rate
from regard.train.settings import Train
from regard.train.shared_folder import check_shared
from regard.train.step import CapturedStepper, Stepper, carried

# "step", "train", "valid", "saved", "end", and what there is to say; "stopping" comes from another thread
Watch = Callable[[str, Mapping[str, Any]], None]
BEST, FINAL, CHECKPOINTS = "best.safetensors", "model.safetensors", "checkpoints"
STATE: dict[str, Any] = {  # of a checkpoint, and what each part may be
    "step": int, "worse": int, "reductions": int, "evaluated": int, "seconds": Real, "mark": Real,
    "best": Real | None, "lowest": Real | None, "batches": dict, "window": dict,
}  # fmt: skip


def train_model(
    model: nn.Module,
    task: Task,
    settings: Train,
    folder: Path,
    *,
    world: World | None = None,
    resume: bool = False,
    watch: Watch | None = None,
) -> nn.Module:
    """Train `model` on `task` in `folder`, which gets metrics.jsonl, checkpoints/ and model.safetensors.

    The model comes back with its final weights: the mean of the last `average` checkpoints, or the best ones on the
    validation set. With `resume` it goes on from the last checkpoint, or starts where there is none.
    """
    return Trainer(model, task, settings, folder, world or World(), resume, watch).run()


class Trainer:
    """What a training has at hand; `run` is the loop."""

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        settings: Train,
        folder: Path,
        world: World,
        resume: bool,
        watch: Watch | None,
    ) -> None:
        _check_capture(settings, world)
        self.model, self.task, self.settings, self.folder, self.world = model, task, settings, folder, world
        self.watch: Watch = watch if watch is not None and world.is_first else lambda kind, facts: None
        self.batches = task.batches(seed=settings.seed, rank=world.rank, world=world.size)
        self.masters, stepper = _kinds(model.train(), settings, world)
        optimiser = build_optimiser(
            self.masters.full, settings, capturable=settings.capture, shares=self._shares(), decays=self._decays()
        )
        self.mean = None if settings.ema is None else self.masters.mean_of(settings.ema)
        self.stepper = stepper(self.masters, task, optimiser, settings, world, self.mean)
        self.step, self.clock = 0, Clock(world.device)
        self.best: float | None = None
        self.lowest: float | None = None  # of a second figure that counts, where a task has one
        self.worse = self.reductions = 0  # evaluations without improvement; cuts of the rate
        self.evaluated = self.saved = -1  # the last step of each
        self.records = Records(folder, tensorboard=settings.tensorboard and world.is_first)
        self.lock: RunLock | None = None
        try:
            self._begin(resume)
        except BaseException:
            self.release()
            raise
        self.masters.start()

    def run(self) -> nn.Module:
        """Batches in, weights out."""
        try:
            self._loop()
            return self._finish()
        except (OSError, RegardError):
            self._check_folder()  # that it is gone is the better reason
            raise
        finally:
            self.release()

    def release(self) -> None:
        """Let other processes train in the folder."""
        if self.lock is not None:
            self.lock.release()

    def _loop(self) -> None:
        settings, stepper = self.settings, self.stepper
        alone, insist = self.world.size == 1, agent() is None
        stopping = lambda: self.watch("stopping", {"step": self.step, "again": insist})  # noqa: E731
        with interrupts(stopping, insist=insist) as interrupted, self.clock:
            if self.step:
                with self.clock.paused():
                    stepper.rehearse(self.batches)
            while not self._is_done():
                batches = [next(self.batches) for _ in range(settings.accumulate)]
                count, asked = self.world.tally(sum(batch.count for batch in batches), not alone and interrupted())
                self.step += 1
                torch.manual_seed(((settings.seed * 1_000_003 + self.step) * 4099 + self.world.rank) % 2**63)
                rate = learning_rate(settings, self.step, self._progress(), self.reductions)
                stepper.update(batches, count, rate, self.step)

                self.watch("step", {"step": self.step})
                if self.step % settings.log_every == 0:
                    self._log(rate)
                if self.step % settings.evaluate_every == 0:
                    self._evaluate()
                stop = interrupted() if alone else asked
                if self.step % settings.save_every == 0 or stop:
                    self._save()
                if stop:
                    raise KeyboardInterrupt
            if alone and interrupted():  # while the last step was saved
                self._save()
                raise KeyboardInterrupt

    def _is_done(self) -> bool:
        settings = self.settings
        late = settings.seconds is not None and self._seconds() >= settings.seconds
        if settings.seconds is not None:
            late = self.world.same(late)  # clocks differ; what rank 0 says goes
        patient = settings.patience is None or self.worse < settings.patience
        return self.step >= settings.steps or late or not patient

    def _progress(self) -> float:
        by_step = self.step / self.settings.steps
        return by_step if self.settings.seconds is None else max(by_step, self._seconds() / self.settings.seconds)

    def _shares(self) -> list[float]:
        """Of the learning rate, for each parameter: a model's `rates`, by the beginning of a name, or 1."""
        rates: Mapping[str, float] = getattr(self.model, "rates", {})
        return [next((s for start, s in rates.items() if name.startswith(start)), 1.0) for name in self.masters.names]

    def _decays(self) -> list[bool]:
        """False for each parameter that the settings except from weight decay."""
        names, excepted = self.masters.names, self.settings.undecayed
        for fragment in excepted:
            if not any(fragment in name for name in names):
                cure = "write train.undecayed= without a name to except nothing"
                raise ConfigError(
                    "train.undecayed", got=fragment, expected=f"a part of a name such as {names[0]}", cure=cure
                )
        return [not any(fragment in name for fragment in excepted) for name in names]

    def _seconds(self) -> float:
        return self.clock.seconds - self.stepper.preparing

    # ── what happens between steps; the clock stands still ──────────────────────────────────────────────────────────

    def _log(self, rate: float) -> None:
        self.clock.synchronize()
        seconds, counted = self._seconds(), self.stepper.counted
        figures = self.stepper.figures()
        self._check("loss", figures["loss"])
        speed = counted / max(seconds - self.clock.mark, 1e-9)
        self.clock.mark = seconds
        facts = {"lr": rate, "per_second": speed, "seconds": seconds}
        self._write({"kind": "train", "step": self.step, **figures, **facts})

    def _check(self, name: str, value: float) -> None:
        """Stop before anything is kept of weights that are lost."""
        if not math.isfinite(value):
            raise RegardError(
                f"the {name} is {value} at step {self.step}",
                cure="lower train.lr, set train.clip=1, or lengthen train.warmup; earlier checkpoints are whole",
            )

    def _check_window(self) -> None:
        """The same for losses that are not logged yet, and for weights that the last gradient has spoilt."""
        self._check("loss", self.stepper.state()["sums"].get("loss", 0.0))
        for name, total in self.masters.sums():
            self._check(f"sum of {name}", total)

    def _evaluate(self) -> None:
        with self.clock.paused():
            self._check_window()
            score: Evaluation | None = None
            with self.masters.to_evaluate(self.mean):
                if self.world.is_first:
                    score = self.task.evaluate(self.model, "valid")
                    if score.better_than(self.best, self.lowest):
                        self._check_folder()
                        save_tensors(self.folder / BEST, weights(self.model))
            score = self.world.same(score)
            assert score is not None
            self.evaluated = self.step
            if score.goes_on(self.best, self.lowest):
                self.worse = 0
            else:
                self.worse += 1
                self.reductions += 1
            self.best, self.lowest = score.records(self.best, self.lowest)
            self._write({"kind": "valid", "step": self.step, **score.figures, "seconds": self._seconds()})

    def _save(self) -> None:
        with self.clock.paused():
            self._check_window()
            state = {
                "batches": self.batches.state_dict(),
                "window": self.stepper.state(),
                "seconds": self._seconds(),
                "mark": self.clock.mark,
                "best": self.best,
                "lowest": self.lowest,
                "worse": self.worse,
                "reductions": self.reductions,
                "evaluated": self.evaluated,
                "world": self.world.size,
            }
            files = {"model": self.masters.tensors()}
            files["optimiser"] = optimiser_tensors(self.stepper.optimiser, self.masters.named())
            if self.mean is not None:
                files["mean"] = self.masters.mean_tensors(self.mean)
            if kept := carried(self.task):
                files["carried"] = kept
            place = self.folder / CHECKPOINTS
            self._check_folder()
            path = self.masters.save(place, self.step, files, state, self.world)
            if self.world.is_first:
                prune(place, self.settings.keep)
                self.watch("saved", {"step": self.step, "path": path})
            self.saved = self.step
            self.world.wait()

    def _begin(self, resume: bool) -> None:
        """Where the run stands: nowhere, or at its last checkpoint. The folder is this run's alone from now on."""
        place = self.folder / CHECKPOINTS
        if place.is_symlink():
            cure = "put the folder itself there, or link the whole run folder"
            raise CheckpointError(f"{place} is a link", expected="checkpoints inside the run folder", cure=cure)
        check_shared(self.folder, self.world)
        saved = self._go_on(resume)  # reads only: settings that do not fit leave the folder as it is
        if self.world.is_first:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.lock = RunLock(self.folder)
            tidy(place)
            for path in self.folder.glob(".*.part"):  # a killed process may have been writing
                path.unlink()
        self.world.wait()
        if self._checkpoints() != saved:  # one was put back, or another process has trained until now
            saved = self._go_on(resume)
        if self.world.is_first and not saved:
            self.records.clear()
        elif self.world.is_first:
            self.records.forget_after(self.step)
            prune(place, self.settings.keep)
        mark(self.folder, self.world)
        self.world.wait()

    def _checkpoints(self) -> list[Path]:
        """Those that the first process sees: all processes go on from one checkpoint."""
        names = self.world.same([path.name for path in checkpoints(self.folder / CHECKPOINTS)])
        return [self.folder / CHECKPOINTS / name for name in names]

    def _go_on(self, resume: bool) -> list[Path]:
        """Take in the last checkpoint, if there is one; all of them."""
        saved = self._checkpoints()
        if saved and not resume:
            raise ConfigError(
                f"{self.folder} holds a run already",
                got=saved[-1].name,
                cure="go on with it by --resume, or choose another folder by --out",
            )
        if saved:
            files, state = self.masters.read(saved[-1])
            try:
                self._restore(files, state)
            except RegardError:
                raise
            except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
                got, cure = f"{type(error).__name__}, {error}", f"delete {saved[-1]}, if another program has made it"
                raise CheckpointError(f"{saved[-1]} does not fit this run", got=got, cure=cure) from error
        return saved

    def _restore(self, files: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]) -> None:
        state = {"evaluated": -1, "lowest": None, **state}
        for name, kind in STATE.items():
            if not isinstance(state[name], kind) or isinstance(state[name], bool):
                raise TypeError(f"{name} is a {type(state[name]).__name__}")
        if self.mean is not None and "mean" not in files:
            what = f"the checkpoint of step {state['step']} has no running mean"
            raise CheckpointError(what, cure="resume with the settings of the run")
        self.masters.load(files, self.mean)
        load_optimiser_tensors(self.stepper.optimiser, self.masters.named(), files["optimiser"])
        if "carried" in files and isinstance(self.task, CarriesState):
            self.task.load_carried({name: tensor.to(self.world.device) for name, tensor in files["carried"].items()})
        self.step, self.best, self.saved = state["step"], state["best"], state["step"]
        self.lowest = state["lowest"]
        self.evaluated = state["evaluated"]
        self.worse, self.reductions = state["worse"], state["reductions"]
        self.batches.load_state_dict(state["batches"])
        self.stepper.load_state(state["window"])
        self.clock.seconds, self.clock.mark = state["seconds"], state["mark"]

    def _check_folder(self) -> None:
        if self.lock is not None:
            self.lock.check()

    def _finish(self) -> nn.Module:
        if self.evaluated < self.step:
            self._evaluate()
        if self.saved < self.step:
            self._save()
        final = self.world.same(self._final_weights() if self.world.is_first else None)
        self.masters.stop()
        load_weights(self.model, final)
        if self.world.is_first:
            save_tensors(self.folder / FINAL, final)
        self._write({"kind": "end", "step": self.step, "seconds": self._seconds(), "preparing": self.stepper.preparing})
        self._check_folder()
        self.world.wait()
        if self.world.is_first:
            unmark(self.folder)
        return self.model.eval()

    def _final_weights(self) -> dict[str, Tensor]:
        last = checkpoints(self.folder / CHECKPOINTS)[-self.settings.average :] if self.settings.average else []
        if last:
            files = [load_checkpoint(path)[0] for path in last]
            return mean_of([{**each["model"], **each.get("mean", {})} for each in files])
        cure = "go on with --resume --set train.average=1: the last checkpoint is taken in its place"
        return load_tensors(self.folder / BEST, cure=cure)

    def _write(self, record: Mapping[str, Any]) -> None:
        self._check_folder()
        self.watch(record["kind"], record)
        if self.world.is_first:
            self.records.write(record)


def _kinds(model: nn.Module, settings: Train, world: World) -> tuple[Masters, type[Stepper]]:
    """How weights are kept, and how they are updated."""
    if settings.shard and world.size > 1:
        from regard.train.sharding import ShardedMasters, ShardedStepper  # torch.distributed.fsdp takes a while

        return ShardedMasters(model, world), ShardedStepper
    masters = Masters(model.to(world.device), half=settings.precision == "pure_bfloat16")
    return masters, CapturedStepper if settings.capture else Stepper


def _check_capture(settings: Train, world: World) -> None:
    if settings.capture and (world.device.type != "cuda" or world.size > 1):
        where = world.device.type if world.size == 1 else f"{world.size} processes"
        raise ConfigError("train.capture", got=where, expected="one CUDA device", cure="set train.capture=false")
    if settings.capture and settings.accumulate > 1:
        raise ConfigError("train.capture", got=f"accumulate={settings.accumulate}", expected="one batch a step")
    if settings.precision == "pure_bfloat16" and world.size > 1:
        raise ConfigError(
            "train.precision", got="pure_bfloat16", expected="one process", cure="set train.precision=bfloat16"
        )
