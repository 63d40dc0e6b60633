"""Training by the trainer's own steps, for benchmarks: the same updates for every model and every way to run it."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from regard.tasks import Batch, Task
from regard.train import Train, World
from regard.train.mixed_precision import Masters
from regard.train.optim import build_optimiser
from regard.train.step import CapturedStepper, Stepper


class Updates:
    """A model that learns: forward, backward, clipping and fused Adam, eager or captured, as the settings say."""

    def __init__(self, model: nn.Module, task: Task, settings: Train, device: torch.device) -> None:
        self.model, self.settings, self.step = model.to(device), settings, 0
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.masters = Masters(model, half=settings.precision == "pure_bfloat16")
        self.optimiser = build_optimiser(self.masters.full, settings, capturable=settings.capture)
        kind = CapturedStepper if settings.capture else Stepper
        self.stepper = kind(self.masters, task, self.optimiser, settings, World(device=device), None)
        self.masters.start()

    def update(self, batch: Batch) -> None:
        """One update."""
        self.step += 1
        self.stepper.update([batch], batch.count, self.settings.lr, self.step)

    def updates(self, batches: Iterable[Batch]) -> None:
        """One update for each batch."""
        for batch in batches:
            self.update(batch)

    def gradients(self, parameters: Sequence[nn.Parameter] | None = None) -> list[Tensor]:
        """The gradients of the first update, after clipping, in the order of `parameters`.

        After one update Adam's first moment is (1 − β₁) · gradient, whether the update was captured or not.
        """
        assert self.step == 1, "only the first moment after the first update is a gradient"
        full = {id(used): full for used, full in zip(self.masters.used, self.masters.full, strict=True)}
        moments = (self.optimiser.state[full[id(each)]]["exp_avg"] for each in parameters or self.parameters)
        return [moment.detach().clone() / (1 - self.settings.betas[0]) for moment in moments]
