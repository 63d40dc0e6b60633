"""Classification of pictures: labels out, for models that see everything at once and for models that look around.

Batches are rows; the pictures live on the device, and are painted, cropped and mirrored there, inside the loss.
Held-out canvases are painted once, from a seed, on the CPU, so they are the same everywhere. A model that draws where
to look returns log-probabilities beside its logits, and learns from rewards too.
"""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.base import check_settings, to_json
from regard.base.ranges import BatchSize
from regard.data import Pictures
from regard.data.pictures import RowBatches, Rows
from regard.explanation import Explanation
from regard.nn import device_of, evaluating
from regard.tasks.display import Column, Display, EvaluationChart, Figure, Point
from regard.tasks.glimpse_loss import GlimpseSettings, RewardSettings, classification_loss
from regard.tasks.inputs import Picture, as_bytes, as_pixels, picture_name
from regard.tasks.labels import answer_probability, label_details, label_figures, label_names
from regard.tasks.picture_explanations import by_layer, gates_of, glimpse_path
from regard.tasks.samples import first_of_each
from regard.tasks.shown_pictures import AT_ONCE, PictureSettings, ShownPictures
from regard.tasks.task import Evaluation, Example, Loss, Progress, StoredTask, TaskEntry

MANY = 512  # pictures that gates are gathered from


@dataclasses.dataclass(frozen=True)
class ClassificationConfig(PictureSettings, RewardSettings):
    """Which pictures, how they are shown, in which batches, and what is rewarded."""

    batch_size: BatchSize = 128  # pictures in a batch

    def __post_init__(self) -> None:
        check_settings(self, "task")


@dataclasses.dataclass(frozen=True, eq=False)
class Recognised:
    """What a model says about a picture."""

    source: str  # the name of the picture
    text: str  # the labels, one after the other, up to the end of a number
    labels: list[str]
    probabilities: Tensor  # [s c]
    where: Tensor | None  # [t 2]: where it looked, (x, y) in [−1, 1], as many glimpses as it took; None: everywhere
    image: NDArray[np.uint8]  # [h w 3]: what the model was shown
    shown: Tensor  # [c h w]: the same as bytes, with the channels of the task
    explanations: tuple[Explanation, ...] = ()  # the path of its glimpses
    probability: float | None = None  # how likely the whole answer is: every label, and the end of a number

    def __post_init__(self) -> None:
        if self.probability is None:
            object.__setattr__(self, "probability", answer_probability(self.probabilities, len(self.labels)))

    @property
    def described(self) -> str:
        """The answer in words: the labels, how sure the model is, and how many glimpses it took."""
        sure = 100 * answer_probability(self.probabilities, len(self.labels))
        glimpses = "" if self.where is None else f", {len(self.where)} glimpses"
        return f"{self.text or 'nothing'} ({sure:.1f} %{glimpses})"


def glimpse_points(details: Mapping[str, Any]) -> list[Point]:
    """The error after each glimpse."""
    return [Point(str(number), float(error)) for number, error in enumerate(details["by_glimpse"], 1)]


def stop_points(details: Mapping[str, Any]) -> list[Point]:
    """The share of pictures for which a model stopped after each glimpse."""
    return [Point(str(number), float(share)) for number, share in enumerate(details["stopped"], 1)]


class Classification(ShownPictures, StoredTask):
    """The task: `batches`, `loss` and `evaluate` for the trainer, `predict` for everybody else."""

    config: ClassificationConfig

    display = Display(
        figures=(
            Figure("error", "error, %", better="lower"),
            Figure("label_error", "error of single labels, %", better="lower"),
            Figure("steps", "glimpses a picture"),
            Figure("loss", "loss (nats a label)", 3, better="lower"),
        ),
        counts="error",
        unit="images",
        things="pictures",
        examples="Pictures",
        overview=(Column("ours, error in %", ("error",), 2), Column("glimpses", ("steps",))),
        table=(Column("error, %", ("error",), 2),),
        more=(Column("label error, %", ("label_error",), 2), Column("glimpses", ("steps",))),
        report=(
            Column("Error, %", ("error",), 2), Column("Error of labels, %", ("label_error",), 2),
            Column("Glimpses a picture", ("steps",), 2),
        ),
        signatures={"error": "Error"},
        note="Error is of whole answers; the label error is of single digits of a number.",
        list_note="Pictures of the test set with a wrong answer.",
        charts=(
            EvaluationChart("by_glimpse", "Error after each glimpse", "glimpse", "error, %", glimpse_points,
                            decimals=2),
            EvaluationChart("stopped", "Where it stopped", "glimpse", "pictures, %", stop_points),
        ),
    )  # fmt: skip
    settings_type = GlimpseSettings

    # ── training ────────────────────────────────────────────────────────────────────────────────────────────────────

    def batches(self, *, seed: int, rank: int = 0, world: int = 1) -> RowBatches:
        """Rows of the training set without end, for one of `world` ranks."""
        size, batch_size = self.splits["train"].size, self.config.batch_size
        return RowBatches(size, batch_size=batch_size, seed=seed, rank=rank, world=world)

    def loss(self, model: Callable[..., Any], batch: Rows) -> Loss:
        """Cross entropy, and for a model that draws the losses of its policy and its baseline; sums over pictures."""
        images, labels = self.shown(batch.rows)
        if self.config.rollouts > 1:
            images, labels = (x.repeat_interleave(self.config.rollouts, 0) for x in (images, labels))
        return classification_loss(model(images), labels, self.config)

    # ── evaluation ──────────────────────────────────────────────────────────────────────────────────────────────────

    @torch.no_grad()
    def evaluate(
        self,
        model: nn.Module,
        split: str,
        settings: GlimpseSettings | None = None,
        *,
        full: bool = False,
        progress: Progress | None = None,
    ) -> Evaluation:
        """Errors in percent: `error` of whole pictures, `label_error` of single labels where there are several."""
        settings = settings or GlimpseSettings()
        draws = self.config.draws if settings.draws is None else settings.draws
        pictures = self.held_out(split)
        start = time.perf_counter()
        logits, steps, along = self._run(model, pictures, draws, settings.options(model, draws), progress)
        labels = pictures.labels
        figures = label_figures(logits, labels)
        if steps is not None:
            figures["steps"] = steps.double().mean().item()
        details: dict[str, Any] = {}
        if full:
            how = {0: "means", 1: "one draw"}.get(draws, f"mean of {draws} draws")
            measured = f"error in % of {pictures.size:,} pictures"
            measured += f", locations: {how}" if steps is not None else ""
            certain = settings.certainty or getattr(getattr(model, "config", None), "certainty", None)
            measured += "" if certain is None or draws else f", stops: p > {certain:g}"
            details = {
                "split": split,
                "count": pictures.size,
                "seconds": time.perf_counter() - start,
                "settings": to_json(settings),
                "signatures": {"error": measured},
                **label_details(logits, labels, self.classes),
            }
            if along is not None:
                details["by_glimpse"] = (100 * (along != labels).double().mean(0)).tolist()
            if along is not None and steps is not None and certain is not None:
                taken = steps.long().bincount(minlength=along.shape[1] + 1)[1:]
                details["stopped"] = (100 * taken / taken.sum()).tolist()
        return Evaluation(figures, best="error", higher_is_better=False, details=details)

    # ── predictions ─────────────────────────────────────────────────────────────────────────────────────────────────

    def predict(
        self, model: nn.Module, inputs: Sequence[Picture], settings: GlimpseSettings | None = None
    ) -> list[list[Recognised]]:
        """What each picture shows, with probabilities and the path of the glimpses.

        A picture is a path, the bytes of a file, or pixels as bytes [h w] or [h w 3]. It is fitted to what the model
        knows, see `prepared`.
        """
        if not len(inputs):
            return []
        names = [picture_name(picture, number) for number, picture in enumerate(inputs, 1)]
        images = torch.stack([self.prepared(torch.from_numpy(as_pixels(picture))) for picture in inputs])
        return [[answer] for answer in self.recognise(model, images, names, settings)]

    @torch.no_grad()
    def recognise(
        self,
        model: nn.Module,
        images: UInt8[Tensor, "b c h w"],
        names: Sequence[str],
        settings: GlimpseSettings | None = None,
    ) -> list[Recognised]:
        """The same for pictures as `held_out` has them."""
        settings = settings or GlimpseSettings()
        options = settings.options(model, settings.draws or 0)
        answers: list[Recognised] = []
        with evaluating(model, seed=0):
            for rows in torch.split(torch.arange(len(images)), AT_ONCE):
                out = model(self.normalised(images[rows].to(device_of(model)).float() / 255.0), **options)
                where = getattr(out, "where", None)
                for number, probabilities in enumerate(out.logits.float().softmax(-1).cpu()):
                    row = int(rows[number])
                    labels = label_names(probabilities.argmax(-1), self.classes)
                    places = None if where is None else where[number][out.active[number]].float().cpu()
                    image, text = as_bytes(images[row]), "".join(labels)
                    path = None if places is None else glimpse_path(model, image, places, text)
                    seen = () if path is None else (path,)
                    answers.append(
                        Recognised(names[row], text, labels, probabilities, places, image, images[row], seen)
                    )
        return answers

    def layers(self, model: nn.Module, prediction: Recognised) -> list[Explanation]:
        """What the places of the picture attend to, layer by layer, for models with non-local blocks."""
        shown = self.normalised(prediction.shown.unsqueeze(0).float() / 255.0).to(device_of(model))
        return by_layer(model, prediction.image, shown)

    def choose(self, split: str, count: int) -> list[int]:
        """Pictures of all classes, by their first labels."""
        return first_of_each(self.held_out(split).labels[:, 0].tolist(), count)

    def examples(self, model: nn.Module, split: str, numbers: Sequence[int]) -> list[Example]:
        """These pictures, their labels, and what the model says."""
        pictures = self.held_out(split).take(torch.tensor(list(numbers), dtype=torch.long))
        names = [f"{self.config.describe_data()}, {split} picture {number}" for number in numbers]
        made = []
        for place, answer in enumerate(self.recognise(model, pictures.images, names)):
            labels = [pictures.name(label) for label in pictures.labels[place]]
            right = "".join(name for name in labels if name and not name.startswith("<"))
            made.append(Example(names[place], right, answer.described, answer, answer.image))
        return made

    def overviews(self, model: nn.Module, split: str) -> list[Explanation]:
        """The gates of a squeeze-and-excitation network over many pictures."""
        pictures = self.held_out(split).take(slice(0, MANY))
        shown = self.normalised(pictures.images.float() / 255.0).to(device_of(model))
        return gates_of(model, shown, pictures.labels[:, 0], pictures.classes)

    def _run(
        self, model: nn.Module, pictures: Pictures, draws: int, options: dict[str, Any], progress: Progress | None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """On the CPU: log-probabilities [n s c], steps [n]; of one rollout, the label after each glimpse [n t].

        Noise, where there is any, has a seed of its own.
        """
        device, parts, steps, along = device_of(model), [], [], []
        with evaluating(model, seed=0):
            for rows in torch.split(torch.arange(pictures.size), AT_ONCE):
                images = self.normalised(pictures.images[rows].to(device).float() / 255.0)
                outs = [model(images, **options) for _ in range(max(draws, 1))]
                mean = sum(out.logits.float().softmax(-1) for out in outs) / len(outs)
                parts.append(mean.clamp(min=1e-30).log().cpu() if draws > 1 else outs[0].logits.float().cpu())
                if hasattr(outs[0], "active"):
                    steps.append((sum(out.active.sum(1).float() for out in outs) / len(outs)).cpu())
                if draws <= 1 and getattr(outs[0], "logits_per_glimpse", None) is not None:
                    along.append(outs[0].logits_per_glimpse.argmax(-1).cpu())
                if progress is not None:
                    progress("pictures", int(rows[-1]) + 1, pictures.size)
        return torch.cat(parts), torch.cat(steps) if steps else None, torch.cat(along) if along else None


TASK = TaskEntry(
    "classification", Classification, ClassificationConfig, verb="classify", inputs="pictures", example="picture.png"
)
