"""One update: forward, backward, clip, step; eager, or as captured CUDA graphs, one for each shape of batch."""

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.kernels.noise import one_seed
from regard.kernels.serving import recording
from regard.tasks import Batch, CarriesState, Loss, Task, TrainingBatches
from regard.train.averaging import RunningMean
from regard.train.distributed import World
from regard.train.mixed_precision import Masters
from regard.train.optim import set_rate
from regard.train.quick_adam import QuickAdam
from regard.train.settings import Train


class Stepper:
    """Updates a model by a task's loss. Sums of the loss stay on the device until `figures` asks for them."""

    def __init__(
        self,
        masters: Masters,
        task: Task,
        optimiser: torch.optim.Optimizer,
        settings: Train,
        world: World,
        mean: RunningMean | None,
    ) -> None:
        self.masters, self.task, self.optimiser = masters, task, optimiser
        self.settings, self.world, self.mean = settings, world, mean
        self.model = self.wrapped()
        self.sums: dict[str, Tensor] = {}
        self.counted = 0
        self.quick = QuickAdam(optimiser, masters.used, masters.full) if masters.half else None
        self.preparing = 0.0  # seconds that went into capturing, which is no training

    def update(self, batches: Sequence[Batch], count: int, rate: float, step: int) -> None:
        """One update from some batches with `count` tokens (or other things) in all, on all ranks together."""
        set_rate(self.optimiser, rate)
        if self.mean is not None:
            self.mean.aim(step)
        self.run([self._here(batch) for batch in batches], self.world.size / count)
        self.counted += count

    def run(self, batches: Sequence[Batch], scale: float | Tensor) -> None:
        """What is captured: everything that happens on the device."""
        with _products(self.settings.precision):
            for number, batch in enumerate(batches):
                with self.without_sync(last=number == len(batches) - 1):
                    loss = self.forward(batch)
                    (loss.total * scale).backward()  # type: ignore[no-untyped-call]
                self._add(loss)
        if self.quick is None or not self.quick.step(self.settings.clip):
            self.masters.collect()
            if self.settings.clip is not None:
                torch.nn.utils.clip_grad_norm_(self.masters.full, self.settings.clip)
            self.optimiser.step()
            self.optimiser.zero_grad(set_to_none=True)
            self.masters.publish()
        if self.mean is not None:
            self.mean.update()

    def forward(self, batch: Batch) -> Loss:
        """The loss, in the precision of the settings."""
        mixed = self.settings.precision == "bfloat16"
        kind = self.world.device.type
        with one_seed(), torch.autocast(kind, dtype=torch.bfloat16, enabled=mixed, cache_enabled=False):
            return self.loss(batch)

    def loss(self, batch: Batch) -> Loss:
        """What the task makes of the model and a batch."""
        return self.task.loss(self.model, batch)

    def wrapped(self) -> nn.Module:
        """What is called in a step."""
        return self.world.wrap(self.masters.model)

    def without_sync(self, *, last: bool) -> AbstractContextManager[None]:
        """For all batches of a step but the last one: keep gradients here until then."""
        return self.world.without_sync(self.model, last=last)

    def rehearse(self, batches: TrainingBatches) -> None:
        """Before a resumed run goes on: one backward pass, of which nothing is kept, where that decides about bits.

        DDP lays out gradients anew after its first backward pass, and a sum of three or more numbers depends on their
        order, which follows that layout. A run that was not interrupted has had its first pass long ago.
        """
        if self.world.size <= 2:
            return
        position = batches.state_dict()
        batch = next(batches)
        batches.load_state_dict(position)
        touched = [*self.masters.model.buffers(), *carried(self.task).values()]
        before = [tensor.clone() for tensor in touched]
        (self.forward(self._here(batch)).total * 0).backward()  # type: ignore[no-untyped-call]
        self.optimiser.zero_grad(set_to_none=True)
        for tensor, value in zip(touched, before, strict=True):
            tensor.copy_(value)

    def figures(self) -> dict[str, float]:
        """Means over everything since the last call, and over all ranks."""
        total = {name: self.world.sum(value.clone()) for name, value in self.sums.items()}
        means = {name: value.item() / max(self.counted, 1) for name, value in total.items()}
        for value in self.sums.values():
            value.zero_()
        self.counted = 0
        return means

    def state(self) -> dict[str, Any]:
        """The sums so far, exact: all ranks' together."""
        total = {name: self.world.sum(value.clone()).item() for name, value in self.sums.items()}
        return {"sums": total, "counted": self.counted}

    def load_state(self, state: dict[str, Any]) -> None:
        """What `state` gave; rank 0 holds it for all."""
        share = 1.0 if self.world.is_first else 0.0
        device = self.world.device
        self.sums = {n: torch.tensor(share * v, dtype=torch.float64, device=device) for n, v in state["sums"].items()}
        self.counted = state["counted"]

    def _here(self, batch: Batch) -> Batch:
        return batch.with_tensors({name: tensor.to(self.world.device) for name, tensor in batch.tensors().items()})

    def _add(self, loss: Loss) -> None:
        for name, value in (("loss", loss.total), *loss.figures.items()):
            if name not in self.sums:
                self.sums[name] = torch.zeros((), dtype=torch.float64, device=self.world.device)
            self.sums[name] += value.detach()


class CapturedStepper(Stepper):
    """The same update, recorded: the launches of a small model cost more than its arithmetic.

    Weights, moments and inputs have fixed places. A batch may have a `variant`, where batches of one shape are computed
    in several ways: each has its own graph. The first batch of a shape is run once to warm up, all that it
    touched is put back, and then the update is recorded; the seconds that this takes are in `preparing`.
    """

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.graphs: dict[tuple[Any, ...], tuple[torch.cuda.CUDAGraph, dict[str, Tensor]]] = {}
        self.scale = torch.ones((), device=self.world.device)
        self.pool = torch.cuda.graph_pool_handle()
        self.side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # its own: cuBLAS has a work space by stream

    def update(self, batches: Sequence[Batch], count: int, rate: float, step: int) -> None:
        """Copy the batch to its place and replay."""
        set_rate(self.optimiser, rate)
        self.scale.fill_(1.0 / count)
        if self.mean is not None:
            self.mean.aim(step)
        [batch] = batches
        tensors = batch.tensors()
        key = (getattr(batch, "variant", None), *(tensor.shape for tensor in tensors.values()))
        if key not in self.graphs:
            self.graphs[key] = self._record(batch)
        graph, places = self.graphs[key]
        for name, tensor in tensors.items():
            here = tensor.pin_memory() if tensor.device.type == "cpu" else tensor  # else a copy waits for the device
            places[name].copy_(here, non_blocking=True)
        graph.replay()
        self.counted += count

    def _record(self, batch: Batch) -> tuple[torch.cuda.CUDAGraph, dict[str, Tensor]]:
        torch.cuda.synchronize()  # what was asked for before is training
        start = time.perf_counter()
        noise = torch.cuda.get_rng_state(self.world.device)
        places = {name: tensor.to(self.world.device).clone() for name, tensor in batch.tensors().items()}
        here = batch.with_tensors(places)
        before = {id(tensor): tensor.detach().clone() for tensor in self._touched()}
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side), recording():
            self.run([here], self.scale)
        torch.cuda.current_stream().wait_stream(self.side)
        with torch.no_grad():
            for tensor in self._touched():
                tensor.copy_(before.get(id(tensor), torch.zeros_like(tensor)))  # moments and sums begin at zero
        self.masters.publish()
        if self.quick is not None:
            with recording():
                self.quick.prepare()  # so that every graph ends alike, that of the first batch too
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=self.side), recording():
            self.run([here], self.scale)
        torch.cuda.set_rng_state(noise, self.world.device)  # a resumed run records at other steps than the first one
        torch.cuda.synchronize()
        self.preparing += time.perf_counter() - start
        return graph, places

    def _touched(self) -> list[Tensor]:
        """All that an update changes, each tensor once and always the same object."""
        moments = [value for state in self.optimiser.state.values() for value in state.values()]
        means = [] if self.mean is None else self.mean.mean
        buffers = list(self.masters.model.buffers())  # statistics of batches, running means
        return [
            *self.masters.full,
            *buffers,
            *carried(self.task).values(),
            *(m for m in moments if isinstance(m, Tensor)),
            *means,
            *self.sums.values(),
        ]


def carried(task: Task) -> dict[str, Tensor]:
    """What a task carries from batch to batch, such as the state of a model of text; nothing for most tasks."""
    return dict(task.carried()) if isinstance(task, CarriesState) else {}


@contextmanager
def _products(precision: str) -> Iterator[None]:
    """Products of float32 in full, or in TF32: ten bits of mantissa, several times as fast on a GPU."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32" or before
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
