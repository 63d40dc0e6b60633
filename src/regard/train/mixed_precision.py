"""The weights that learn, in float32, and the model that computes, with the same ones or with bfloat16 copies."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.kernels.joined import side_by_side
from regard.train.averaging import RunningMean
from regard.train.checkpoint import load_checkpoint, load_weights, place_of, save_checkpoint, weights
from regard.train.distributed import World


class Masters:
    """With `half`, the model's parameters become bfloat16 copies: `publish` renews, `collect` takes their gradients.

    Small steps are lost in bfloat16 (1 + 0.003 is 1), so the optimiser works on the float32 originals, which are what
    is evaluated and saved. Without `half` originals and copies are one.
    """

    def __init__(self, model: nn.Module, *, half: bool) -> None:
        named = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        self.model, self.half, self.names = model, half, list(named)
        self.used = list(named.values())  # what the model computes with
        self.full = [nn.Parameter(parameter.data) for parameter in self.used] if half else self.used
        self.copies: list[Tensor] = []

    def start(self) -> None:
        """From here on the model computes with copies. Whoever wants the originals' places takes them before."""
        if self.half:
            self._point_to(side_by_side(self.full, torch.bfloat16))
            for module in self.model.modules():
                if isinstance(module, nn.RNNBase):
                    module.flatten_parameters()  # one buffer, as cuDNN wants it
            self.copies = [used.data for used in self.used]

    def stop(self) -> None:
        """The model computes with its originals again, for good."""
        if self.copies:
            self._point_to([full.data for full in self.full])
            self.copies = []

    def collect(self) -> None:
        """The gradients of the copies, in float32, become those of the originals."""
        if self.half:
            gradients = [torch.empty_like(full) for full in self.full]
            halves = [torch.zeros_like(used) if used.grad is None else used.grad for used in self.used]
            torch._foreach_copy_(gradients, halves)
            for full, used, gradient in zip(self.full, self.used, gradients, strict=True):
                full.grad, used.grad = gradient, None

    def publish(self) -> None:
        """The originals have changed: renew the copies."""
        if self.half:
            torch._foreach_copy_(self.copies, [full.detach() for full in self.full])

    @contextmanager
    def in_full(self) -> Iterator[None]:
        """The model with its float32 originals: to evaluate, to save, to load."""
        if not self.copies:
            yield
            return
        self._point_to([full.data for full in self.full])
        try:
            yield
        finally:
            self.publish()
            self._point_to(self.copies)

    def named(self) -> dict[str, nn.Parameter]:
        """The originals by name."""
        return dict(zip(self.names, self.full, strict=True))

    def sums(self) -> Iterator[tuple[str, float]]:
        """The sum of each original: not finite where a number in it is not."""
        for name, parameter in self.named().items():
            yield name, parameter.detach().double().sum().item()

    # ── what a training keeps of them; shards do it otherwise ───────────────────────────────────────────────────────

    def mean_of(self, decay: float) -> RunningMean:
        """A running mean of the weights."""
        return RunningMean(self.model, decay)

    @contextmanager
    def to_evaluate(self, mean: RunningMean | None) -> Iterator[None]:
        """The model with its originals, or with their mean."""
        with self.in_full(), mean.in_place() if mean is not None else nullcontext():
            yield

    def tensors(self) -> dict[str, Tensor]:
        """Originals and buffers by name: what a checkpoint keeps."""
        with self.in_full():
            return weights(self.model)

    def mean_tensors(self, mean: RunningMean) -> dict[str, Tensor]:
        """The running mean by name."""
        return mean.tensors()

    def load(self, files: Mapping[str, Mapping[str, Tensor]], mean: RunningMean | None) -> None:
        """Take over the weights of a checkpoint, and their mean."""
        load_weights(self.model, files["model"])
        if mean is not None:
            mean.load(files["mean"])

    def read(self, path: Path) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
        """Files and state of a checkpoint."""
        return load_checkpoint(path)

    def save(
        self, folder: Path, step: int, files: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any], world: World
    ) -> Path:
        """Write a checkpoint: the first process does."""
        return save_checkpoint(folder, step, files, state) if world.is_first else place_of(folder, step)

    def _point_to(self, places: list[Tensor]) -> None:
        for used, place in zip(self.used, places, strict=True):
            used.data = place
