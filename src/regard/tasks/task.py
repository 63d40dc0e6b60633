"""What a task is: for the trainer batches, a loss and an evaluation; for everybody else also predictions and examples.

The trainer knows `Task` alone. Recipes, run folders, the API and the command line know `StoredTask`, which a task
inherits from, and `TaskEntry`, by which it stands on the menu `TASKS`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from dataclasses import replace as replaced
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from regard.base import ConfigError, did_you_mean
from regard.tasks.display import Display

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
        """What the loss is divided by: tokens, images, sentences. `Display.unit` names them."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor that the loss reads; a captured step copies them into fixed places."""
        ...

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> "Batch":
        """The same batch, read from other places."""
        ...


@runtime_checkable
class TrainingBatches(Protocol):
    """Batches without end; `state_dict` is the exact position."""

    def __next__(self) -> Any: ...

    def state_dict(self) -> dict[str, Any]:
        """Gives the exact position, as what JSON can hold."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a position."""
        ...


@dataclass(frozen=True)
class Evaluation:
    """A model on one split: figures by name, `best` of them decides which checkpoint is kept.

    Where a second figure counts `beside` it, the rule is that of Veličković et al. 2018: a checkpoint is kept when both
    figures are at least as good as ever, and a training that waits for an improvement goes on when one of them is.

    The details of a full evaluation are `split`, `count` (how many elements it has), `seconds`, `settings` (those of
    the predictions), `signatures` (how a figure was measured, by its key) and `outputs` (a line for each element);
    where they exist also `missing` (why a figure was not measured, by its key), and what the charts of the task read.
    """

    figures: dict[str, float]
    best: str  # the name of the figure that counts
    higher_is_better: bool = True
    details: dict[str, Any] = field(default_factory=dict)  # what JSON can hold; empty unless it is full
    beside: str | None = None  # the name of a second figure that counts; lower is better

    def better_than(self, other: float | None, lowest: float | None = None) -> bool:
        """Whether weights are kept, where the best figure was `other`, and that beside it at its lowest `lowest`."""
        if self.beside is None:
            return other is None or self._ahead(self.figures[self.best], other)
        return all(self._as_good(other, lowest))

    def goes_on(self, other: float | None, lowest: float | None = None) -> bool:
        """Whether it is an improvement for a training that waits for one."""
        return self.better_than(other) if self.beside is None else any(self._as_good(other, lowest))

    def records(self, other: float | None, lowest: float | None = None) -> tuple[float, float | None]:
        """The best figure so far, and the lowest one beside it."""
        value = self.figures[self.best]
        best = value if other is None or self._ahead(value, other) else other
        if self.beside is None:
            return best, None
        second = self.figures[self.beside]
        return best, second if lowest is None or second < lowest else lowest

    def _ahead(self, value: float, other: float) -> bool:
        return value > other if self.higher_is_better else value < other

    def _as_good(self, other: float | None, lowest: float | None) -> tuple[bool, bool]:
        """Whether each of the two figures is at least as good as ever."""
        value, second = self.figures[self.best], self.figures[str(self.beside)]
        first = other is None or value == other or self._ahead(value, other)
        return first, lowest is None or second <= lowest


@runtime_checkable
class Task(Protocol):
    """What the trainer knows. Supervised and reward-based tasks both have a loss that can be differentiated."""

    def batches(self, *, seed: int, rank: int, world: int) -> TrainingBatches:
        """The training data for one of `world` ranks."""
        ...

    def loss(self, model: Callable[..., Any], batch: Any) -> Loss:
        """The loss of one batch; `model` may be wrapped, so it is only called."""
        ...

    def evaluate(self, model: torch.nn.Module, split: str) -> Evaluation:
        """Figures on held-out data."""
        ...


@runtime_checkable
class CarriesState(Protocol):
    """A task that hands something on from batch to batch, such as the state of a model of text."""

    def carried(self) -> Mapping[str, Tensor]:
        """Tensors that the loss of a batch leaves for the next one, always the same ones; a checkpoint keeps them."""
        ...

    def load_carried(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes over what `carried` gave before a training was stopped."""
        ...


@dataclass(frozen=True, eq=False)
class Example:
    """One element of a split, and what a model made of it."""

    source: str  # the sentence, or what the picture is called
    reference: str  # the right answers, one in each line
    output: str  # what the model said
    prediction: Any = None  # what `predict` gave, with its explanations
    image: Any = None  # the picture, bytes [h w 3]


class StoredTask:
    """What recipes, run folders, the API and the command line ask of a task, with defaults for what many do not need.

    A task is made from its settings alone and reads its data when they are first asked for. `tests` names its test
    sets, the usual one first.
    """

    display: ClassVar[Display]
    settings_type: ClassVar[type]  # the settings of a prediction and of an evaluation: what `--set` may change
    unused_settings: ClassVar[tuple[str, ...]] = ()  # those of them that mean nothing here
    several_files: ClassVar[bool] = False  # whether `from_files` takes tuples of paths, and patterns
    config: Any
    tests: Any = ("test",)

    # ── for recipes and run folders ─────────────────────────────────────────────────────────────────────────────────

    def complete(self, model_config: Any) -> Any:
        """The model's settings with what the data decide: vocabularies, classes, sizes."""
        return model_config

    def save(self, folder: Path) -> None:
        """Writes what a run folder needs besides recipe.json."""

    @classmethod
    def load(cls, folder: Path, config: Any) -> Any:
        """The task of a run folder; its data are read only when asked for."""
        return cls(config)  # type: ignore[call-arg]

    def forget_data(self) -> None:
        """Forgets the data of the run that this task was loaded from: a new run has its words, and data of its own."""

    def prepare(self, device: str | torch.device, progress: Progress | None = None) -> None:
        """Computes what a training needs once, such as features of pictures."""

    def begin(self, model: torch.nn.Module) -> None:
        """Gives a new model what was learnt elsewhere, such as the weights of an encoder."""

    # ── for the API and the command line ────────────────────────────────────────────────────────────────────────────

    def settings(self, **changes: Any) -> Any:
        """The settings of a prediction or an evaluation: those of the run, with `changes` by name."""
        return changed_settings(self.default_settings(), changes, unused=self.unused_settings)

    def default_settings(self) -> Any:
        """The settings of a prediction or an evaluation where none are given."""
        return self.settings_type()

    def is_single(self, inputs: Any) -> bool:
        """Whether `inputs` of `predict` are one input, and not several."""
        return not isinstance(inputs, list | tuple)

    def predict(self, model: torch.nn.Module, inputs: Sequence[Any], settings: Any) -> list[list[Any]]:
        """For each input the best predictions, best first, each with `.text` and `.explanations`."""
        raise NotImplementedError(f"{type(self).__name__} must define predict(…)")

    def read(self, model: torch.nn.Module, text: str) -> Sequence[str]:
        """Lets a model read a text, and gives the names of its words; what the model attends to, a trace sees."""
        raise NotImplementedError(f"{type(self).__name__} must define read(…)")

    def describe_model(self, model_config: Any) -> str:
        """What tells models of this task apart, in a word; nothing where their names have to."""
        return ""

    def choose(self, split: str, count: int) -> list[int]:
        """The numbers of the examples that a report shows, the same ones every time."""
        raise NotImplementedError(f"{type(self).__name__} must define choose(…)")

    def examples(self, model: torch.nn.Module, split: str, numbers: Sequence[int]) -> list[Example]:
        """These elements of a split with what a model makes of them."""
        raise NotImplementedError(f"{type(self).__name__} must define examples(…)")

    def overviews(self, model: torch.nn.Module, split: str) -> list[Any]:
        """Explanations of the model as a whole, over many elements of a split."""
        return []

    def layers(self, model: torch.nn.Module, prediction: Any) -> list[Any]:
        """Explanations of one prediction by layer and head, where a model has several."""
        return []


@dataclass(frozen=True)
class TaskEntry:
    """What the menu TASKS says of a task: its name, its class, its settings and the verb that uses a model of it."""

    name: str
    task: type[Any]  # inherits from StoredTask
    config: type[Any]
    verb: str  # what a model of it does: "translate"; a method and a command may have this name, else `predict` does it
    inputs: str  # what is given to it: "text"
    example: str = ""  # one such input, as a command line has it: picture.png
    inherits: bool = False  # whether a run that starts from another one keeps its words

    @property
    def display(self) -> Display:
        """How its numbers are shown."""
        display: Display = self.task.display
        return display

    @property
    def takes_files(self) -> bool:
        """Whether a user can train it on files of their own."""
        return hasattr(self.task, "from_files")


def changed_settings(settings: Any, changes: Mapping[str, Any], *, unused: Sequence[str] = ()) -> Any:
    """A dataclass of settings with `changes` by name; a name that it does not have is an error."""
    known = [each.name for each in fields(settings) if each.name not in unused]
    for name in changes:
        if name not in known:
            expected = f"one of {', '.join(known)}" if known else "none: there are no settings"
            cure = did_you_mean(name, known)
            raise ConfigError(f"unknown setting {name!r} of a prediction", expected=expected, cure=cure)
    return replaced(settings, **changes)
