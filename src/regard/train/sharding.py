"""Weights in shards (FSDP2): each process keeps its part of weights, gradients and moments, and borrows the rest.

The model that was handed in stays a plain one: it is what the first process evaluates, and what is returned. A copy of
it is sharded and learns. Between evaluations the plain one is empty.
"""

import copy
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

from regard.base import ConfigError
from regard.tasks import Batch, Loss, Task, TrainingBatches
from regard.train.averaging import RunningMean
from regard.train.checkpoint import check_alike, is_sharded, load_checkpoint, weights
from regard.train.distributed import World
from regard.train.mixed_precision import Masters
from regard.train.sharded_checkpoint import Files, read_shards, save_shards
from regard.train.step import Stepper

LAYERS = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)  # of torch; our models name theirs in `shards`


class Learner(nn.Module):
    """A model together with its loss, so that all that a task asks of the model happens while its weights are there."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, task: Task, batch: Batch) -> Loss:
        """What the task says of this batch, while the weights that it needs are there."""
        return task.loss(self.model, batch)


class ShardedMasters(Masters):
    """The weights that learn, each process its part. Most methods are for all processes together."""

    def __init__(self, model: nn.Module, world: World) -> None:
        names = _names(model)
        self.learner = Learner(copy.deepcopy(model))
        _share_start(self.learner, world)
        mesh = init_device_mesh(world.device.type, (world.size,))
        layers = layers_of(self.learner.model)
        ours = sorted({type(layer).__name__ for layer, _ in layers if type(layer).__module__.startswith("regard.")})
        self.harmless = rf"FSDP2-wrapped module \(FSDP({'|'.join(ours)})\) returned a view"  # we write nothing in place
        for module, methods in layers:
            fully_shard(module, mesh=mesh)
            for method in methods:
                register_fsdp_forward_method(module, method)
        fully_shard(self.learner, mesh=mesh)
        super().__init__(self.learner.model, half=False)
        self.model, self.world = model, world
        self.places = [(place, place.shape) for place in model.parameters()]
        learning = self.learner.model.state_dict(keep_vars=True)
        self.live = {name: learning[name] for name in names}
        self._empty()
        model.to(world.device)

    def tensors(self) -> dict[str, Tensor]:
        """Weights and buffers by name: the part of this process, as DTensors."""
        return {name: tensor.detach() for name, tensor in self.live.items()}

    def mean_of(self, decay: float) -> RunningMean:
        """A running mean of the part of this process."""
        return RunningMean(self.model, decay, {name: local(tensor) for name, tensor in self.tensors().items()})

    def mean_tensors(self, mean: RunningMean) -> dict[str, Tensor]:
        """The running mean by name, as DTensors."""
        return {name: like(tensor, self.live[name]) for name, tensor in mean.tensors().items()}

    def load(self, files: Files, mean: RunningMean | None) -> None:
        """Take over the weights of a checkpoint, and their mean."""
        check_alike(self.live, files["model"])
        with torch.no_grad():
            for name, tensor in self.tensors().items():
                local(tensor).copy_(local(files["model"][name]))
        if mean is not None:
            mean.load({name: local(tensor) for name, tensor in files["mean"].items()})

    def read(self, path: Path) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
        """Files and state of a checkpoint: of each tensor that is cut the part of this process."""
        if is_sharded(path):
            return read_shards(path, self.world, self._alike)
        files, state = load_checkpoint(path)
        return {
            file: {name: self._cut(file, name, each) for name, each in tensors.items()}
            for file, tensors in files.items()
        }, state

    def save(self, folder: Path, step: int, files: Files, state: Mapping[str, Any], world: World) -> Path:
        """Write a checkpoint: every process its part."""
        return save_shards(folder, step, files, state, world)

    def _alike(self, file: str, name: str, shape: torch.Size) -> Tensor | None:
        """The weight that is cut as this tensor of a checkpoint is, or None."""
        name = name.rpartition("/")[0] if file == "optimiser" else name
        weight = self.live.get(name) if file in ("model", "mean", "optimiser") else None
        return weight.detach() if isinstance(weight, DTensor) and weight.shape == shape else None

    def _cut(self, file: str, name: str, tensor: Tensor) -> Tensor:
        alike = self._alike(file, name, tensor.shape)
        if not isinstance(alike, DTensor):
            return tensor
        return distribute_tensor(tensor.to(self.world.device), alike.device_mesh, alike.placements, src_data_rank=None)

    @contextmanager
    def to_evaluate(self, mean: RunningMean | None) -> Iterator[None]:
        """The plain model with all weights, or with their mean, on the first process."""
        tensors = {**self.tensors(), **({} if mean is None else self.mean_tensors(mean))}
        whole = gathered(tensors, self.world)
        if not self.world.is_first:
            yield
            return
        places = self.model.state_dict(keep_vars=True)
        with torch.no_grad():
            for name, tensor in whole.items():
                places[name].data = tensor
        self._flatten()
        training = self.model.training
        try:
            yield
        finally:
            self.model.train(training)
            self._empty()

    def stop(self) -> None:
        """The plain model has room for its weights again, on every process."""
        for place, shape in self.places:
            place.data = torch.empty(shape, dtype=place.dtype, device=self.world.device)
        self._flatten()

    def sums(self) -> Iterator[tuple[str, float]]:
        """The sum of each weight, over all parts: not finite where a number in it is not."""
        named = self.named()
        parts = torch.stack([local(each.detach()).double().sum() for each in named.values()])
        yield from zip(named, self.world.sum(parts).tolist(), strict=True)

    def _flatten(self) -> None:
        for module in self.model.modules():
            if isinstance(module, nn.RNNBase):
                module.flatten_parameters()  # one buffer, as cuDNN wants it

    def _empty(self) -> None:
        for place, _ in self.places:
            place.data = torch.empty(0, dtype=place.dtype, device=place.device)


class ShardedStepper(Stepper):
    """The same update on shards. Gradients are summed after every batch: whole ones would need the memory again."""

    masters: ShardedMasters

    def wrapped(self) -> nn.Module:
        """The shards and the loss; the plain model is not called."""
        return self.masters.learner

    def loss(self, batch: Batch) -> Loss:
        """The loss, with the buffers of the first process, as DDP has it."""
        for buffer in _shared_buffers(self.model):
            torch.distributed.broadcast(buffer, 0)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", self.masters.harmless)
            loss: Loss = self.model(self.task, batch)
        return loss

    def without_sync(self, *, last: bool) -> AbstractContextManager[None]:
        """Every batch is summed at once."""
        return nullcontext()

    def rehearse(self, batches: TrainingBatches) -> None:
        """Shards have one layout from the beginning."""


def layers_of(model: nn.Module) -> list[tuple[nn.Module, tuple[str, ...]]]:
    """The modules whose weights are borrowed by themselves, inner ones first, with their methods besides forward.

    A model names them in `shards`: a pattern of names, and the methods that use weights outside of `forward`. Of a
    model that names none, they are torch's layers of Transformers. All other weights are borrowed for the whole step,
    and so are those of a module that shares a weight with one outside.
    """
    patterns: Mapping[str, tuple[str, ...]] | None = getattr(model, "shards", None)
    owners: dict[int, set[str]] = {}
    for name, module in model.named_modules():
        for parameter in module.parameters(recurse=False):
            owners.setdefault(id(parameter), set()).add(name)
    layers: list[tuple[str, nn.Module, tuple[str, ...]]] = []
    for name, module in model.named_modules():
        methods: tuple[str, ...] | None = () if patterns is None and isinstance(module, LAYERS) else None
        if patterns is not None:
            methods = next((each for pattern, each in patterns.items() if _matches(name, pattern)), None)
        inside = {f"{name}.{inner}" if inner else name for inner, _ in module.named_modules()}
        if name and methods is not None and all(owners[id(each)] <= inside for each in module.parameters()):
            layers.append((name, module, tuple(methods)))
    deepest_first = sorted(layers, key=lambda layer: -layer[0].count("."))
    return [(module, methods) for _, module, methods in deepest_first]


def _matches(name: str, pattern: str) -> bool:
    """Whether each part of a name fits, such as "encoder.0" into "encoder.*"."""
    return name.count(".") == pattern.count(".") and fnmatchcase(name, pattern)


def gathered(tensors: Mapping[str, Tensor], world: World) -> dict[str, Tensor]:
    """Whole tensors on the first process, one after the other, and nothing on the others."""
    whole = {}
    for name, tensor in tensors.items():
        full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor.clone()
        if world.is_first:
            whole[name] = full
    return whole


def local(tensor: Tensor) -> Tensor:
    """The part of this process."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def like(part: Tensor, whole: Tensor) -> Tensor:
    """A part of this process as a DTensor, cut as `whole` is."""
    if not isinstance(whole, DTensor):
        return part
    mesh, placements = whole.device_mesh, whole.placements
    return DTensor.from_local(part, mesh, placements, run_check=False, shape=whole.shape, stride=whole.stride())


def _names(model: nn.Module) -> list[str]:
    """The names under which weights are saved; of those that are shared, the first. What cannot be cut is an error."""
    every, names = model.state_dict(keep_vars=True), list(weights(model))
    kept = {id(every[name]) for name in names}
    for name, parameter in model.named_parameters():
        got = (
            "a single number" if parameter.ndim == 0 else None if id(parameter) in kept else "memory of another weight"
        )
        if got is not None:
            expected, cure = "a tensor of its own, with at least one axis", "set train.shard=false"
            raise ConfigError(f"train.shard: the weight {name} cannot be cut", got=got, expected=expected, cure=cure)
    return names


def _shared_buffers(model: nn.Module) -> list[Tensor]:
    """All buffers but views of others, such as an expanded constant."""
    return [buffer for buffer in model.buffers() if buffer.is_contiguous()]


@torch.no_grad()
def _share_start(model: nn.Module, world: World) -> None:
    """All processes start from the weights of the first one, as DDP has it."""
    for tensor in (*model.parameters(), *_shared_buffers(model)):
        where = tensor.detach().cpu().contiguous() if world.control is not None else tensor.detach().to(world.device)
        torch.distributed.broadcast(where, 0, group=world.control)
        tensor.copy_(where)
