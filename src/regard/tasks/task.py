"""What the trainer asks of a task: batches, a loss, figures. It knows nothing else of text, images or rewards."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

Progress = Callable[[str, int, int], None]  # what, done, of how many: "sentences", 64, 1968


class Loss(NamedTuple):
    """What to minimise, summed over a batch, and what else to report.

    `total` carries the gradient, whatever it is made of: a cross entropy; or, where an alignment is sampled, also
    −log P(sample) · (reward − baseline) and the error of the baseline. It is divided by the `count` of the whole step.
    """

    total: Tensor  # []
    figures: Mapping[str, Tensor] = {}  # sums [] over the batch, for the log


@runtime_checkable
class Batch(Protocol):
    """A part of the data: tensors under their names, and how many things are in it."""

    @property
    def count(self) -> int:
        """What the loss is divided by: tokens, images, sentences."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor that the loss reads; a captured step copies them into fixed places."""
        ...

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> "Batch":
        """The same batch, read from other places."""
        ...


@runtime_checkable
class Batches(Protocol):
    """Batches without end; `state_dict` is the exact position."""

    def __next__(self) -> Any: ...

    def state_dict(self) -> dict[str, Any]:
        """Where we are."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        ...


@dataclass(frozen=True)
class Score:
    """A model on one split: figures by name, `best` of them decides which checkpoint is kept."""

    figures: dict[str, float]
    best: str  # the name of the figure that counts
    higher_is_better: bool = True
    details: dict[str, Any] = field(default_factory=dict)  # signatures, buckets, samples: JSON

    def better_than(self, other: float | None) -> bool:
        """Whether this is an improvement on `other`."""
        value = self.figures[self.best]
        return other is None or (value > other if self.higher_is_better else value < other)


@runtime_checkable
class Task(Protocol):
    """Supervised or reward-based: both are a loss that can be differentiated, so one loop trains them."""

    def batches(self, *, seed: int, rank: int, world: int) -> Batches:
        """The training data for one of `world` ranks."""
        ...

    def loss(self, model: Callable[..., Any], batch: Any) -> Loss:
        """The loss of one batch; `model` may be wrapped, so it is only called."""
        ...

    def evaluate(self, model: torch.nn.Module, split: str) -> Score:
        """Figures on held-out data."""
        ...


@runtime_checkable
class Kept(Task, Protocol):
    """What recipes and run folders ask of a task besides.

    It also has `config`, its settings, and `tests`, the names of its test sets, the usual one first. They are no part
    of the protocol: a check of types would ask for them, and so read the data.
    """

    def fill(self, model_config: Any) -> Any:
        """A model's config with what the data decides: vocabularies, classes, sizes."""
        ...

    def save(self, folder: Path) -> None:
        """What a run folder needs besides recipe.json."""
        ...


class Kind(NamedTuple):
    """A task and its settings."""

    task: Any
    config: type
    inherits: bool  # whether a run that starts from another one reads its data as that one did: with its words
