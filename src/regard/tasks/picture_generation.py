"""Drawing pictures: how many bits a picture costs, and new pictures, completions and enlargements.

A batch is rows; the pictures stay on the device. A model takes pictures of bytes, and what it is told of them, and
gives −log p in nats at each place; the sum over all places of a picture, in bits, divided by its numbers (3,072 for
32×32 in colours), is what is minimised and reported. Nothing is estimated: every place of every picture counts.
"""

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.base import ConfigError, did_you_mean, to_json
from regard.data.picture_folder import squared
from regard.data.pictures import IGNORE, RowBatches, Rows
from regard.explanation import Explanation, Gallery
from regard.nn import device_of, evaluating
from regard.tasks.display import Column, Display, EvaluationChart, Figure, Point
from regard.tasks.drawn_pictures import DrawingSettings, Drawn, Wish, blocks_of, draw_pictures
from regard.tasks.inputs import Picture, as_bytes, as_pixels, checked_split, picture_name
from regard.tasks.samples import first_of_each
from regard.tasks.task import Evaluation, Example, Loss, Progress, StoredTask, TaskEntry
from regard.tasks.told_pictures import PictureGenerationConfig, ToldPictures

AT_ONCE = 64  # pictures that are evaluated together
SHOWN = 16  # new pictures in the gallery of a model
SEED = re.compile(r"seed=(\d{1,18})")


def row_points(details: Mapping[str, Any]) -> list[Point]:
    """Bits per dimension in each row of a picture."""
    return [Point(str(number), float(bits)) for number, bits in enumerate(details["bits_by_row"])]


class PictureGeneration(ToldPictures, StoredTask):
    """The task: `batches`, `loss` and `evaluate` for the trainer, `predict` for everybody else."""

    config: PictureGenerationConfig

    display = Display(
        figures=(Figure("bits", "bits per dimension", 3, better="lower"),),
        counts="bits",
        unit="images",
        things="pictures",
        examples="Pictures",
        overview=(Column("ours, bits per dimension", ("bits",), 3),),
        table=(Column("bits per dimension", ("bits",), 3),),
        signatures={"bits": "Bits"},
        note="Bits per dimension are −log₂ p of a picture, divided by how many numbers it has; a guess costs 8.",
        charts=(EvaluationChart("bits_by_row", "Bits by row of the picture", "row", "bits per dimension", row_points,
                                decimals=2),),
    )  # fmt: skip
    settings_type = DrawingSettings

    # ── training ────────────────────────────────────────────────────────────────────────────────────────────────────

    def batches(self, *, seed: int, rank: int = 0, world: int = 1) -> RowBatches:
        """Rows of the training set without end, for one of `world` ranks."""
        size, batch_size = self.splits["train"].size, self.config.batch_size
        return RowBatches(size, batch_size=batch_size, seed=seed, rank=rank, world=world)

    def loss(self, model: Callable[..., Any], batch: Rows) -> Loss:
        """Bits per dimension, summed over pictures."""
        pool = self.on_device("train", batch.rows.device)
        images = pool.images[batch.rows]
        nats: Tensor = model(images, **self.told(images, pool.labels[batch.rows]))
        return Loss(nats.sum() / (math.log(2) * self.dimensions))

    # ── evaluation ──────────────────────────────────────────────────────────────────────────────────────────────────

    @torch.no_grad()
    def evaluate(
        self,
        model: nn.Module,
        split: str,
        settings: DrawingSettings | None = None,
        *,
        full: bool = False,
        progress: Progress | None = None,
    ) -> Evaluation:
        """Bits per dimension of all pictures of a split, over all of their places."""
        settings, start = settings or DrawingSettings(), time.perf_counter()
        pictures = self.on_device(split, device_of(model))
        count = min(settings.evaluated or pictures.size, pictures.size)
        by_place, by_picture = [], []
        with evaluating(model):
            for rows in torch.split(torch.arange(count), AT_ONCE):
                chosen = pictures.take(slice(int(rows[0]), int(rows[-1]) + 1))
                bits = model(chosen.images, **self.told(chosen.images, chosen.labels)).double() / math.log(2)
                by_place.append(bits.sum(0))
                by_picture.append(bits.sum(1).cpu())
                if progress is not None:
                    progress("pictures", int(rows[-1]) + 1, count)
        costs = torch.cat(by_picture) / self.dimensions
        figures = {"bits": costs.mean().item()}
        details: dict[str, Any] = {}
        if full:
            side = self.facts.image_size
            measured = f"−log₂ p of {count:,} pictures at all places, by {self.dimensions:,} numbers each"
            places = torch.stack(by_place).sum(0) / count  # in the order of generation
            back = getattr(model, "back", None)
            in_raster = places[back] if isinstance(back, Tensor) else places
            details = {
                "split": split,
                "count": count,
                "seconds": time.perf_counter() - start,
                "settings": to_json(settings),
                "signatures": {"bits": measured},
                "outputs": [f"{cost:.4f}" for cost in costs.tolist()],
                "bits_by_row": (in_raster.view(side, -1).sum(1) * side / self.dimensions).tolist(),
            }
        return Evaluation(figures, best="bits", higher_is_better=False, details=details)

    # ── predictions ─────────────────────────────────────────────────────────────────────────────────────────────────

    def predict(
        self, model: nn.Module, inputs: Sequence[Picture], settings: DrawingSettings | None = None
    ) -> list[list[Drawn]]:
        """Pictures for each input: "seed=7" and the name of a class are drawn anew, pictures are completed or enlarged.

        A picture is a path, the bytes of a file, or pixels as bytes [h w] or [h w 3]. Of a picture that is completed
        the upper half is kept, or the share `known`. A model that was told small pictures makes one of what it gets,
        and enlarges that.
        """
        settings = settings or DrawingSettings()
        predictions: list[list[Drawn]] = []
        for number, given in enumerate(inputs, 1):
            wish, seed = self._wish(given, number, settings)
            predictions.append(draw_pictures(model, [wish], replace(settings, seed=seed)))
        return predictions

    def _wish(self, given: Picture, number: int, settings: DrawingSettings) -> tuple[Wish, int]:
        """What an input asks for, and the seed of it."""
        words = given.split() if isinstance(given, str) else []
        seeds = [match[1] for word in words if (match := SEED.fullmatch(word))]
        kinds = [word for word in words if word in self.facts.classes]
        if isinstance(given, str) and words and len(seeds) + len(kinds) == len(words) and len(seeds) < 2 > len(kinds):
            if self.config.told == "small":
                cure = "give it a picture, which is made small first"
                raise ConfigError("this model enlarges pictures and draws no new ones", got=repr(given), cure=cure)
            seed = int(seeds[0]) if seeds else settings.seed
            return Wish(given, kind=self._kind(kinds[0] if kinds else settings.kind)), seed
        pixels = squared(as_pixels(given), self.facts.image_size)
        if self.facts.channels == 1:
            pixels = pixels.float().mean(0, keepdim=True).round().to(torch.uint8)
        return Wish(picture_name(given, number), pixels, self._kind(settings.kind)), settings.seed

    def _kind(self, name: str) -> int | None:
        """The number of a class, where a model is told it."""
        if self.config.told != "class":
            return None
        if name not in self.facts.classes:
            expected, cure = f"one of {', '.join(self.facts.classes)}", did_you_mean(name, self.facts.classes)
            cure = cure or f"write {self.facts.classes[0]!r}, or --set kind={self.facts.classes[0]} for a picture"
            raise ConfigError(
                "this model must be told the class of a picture", got=repr(name), expected=expected, cure=cure
            )
        return self.facts.classes.index(name)

    def layers(self, model: nn.Module, prediction: Drawn) -> list[Explanation]:
        """What some pixels of the first picture looked at, layer by layer."""
        return [*blocks_of(model, prediction.values[:1], prediction.told, DrawingSettings(), all_layers=True)]

    # ── examples ────────────────────────────────────────────────────────────────────────────────────────────────────

    def choose(self, split: str, count: int) -> list[int]:
        """Pictures of all classes."""
        return first_of_each(self.splits[checked_split(split, self.splits)].labels.tolist(), count)

    def examples(self, model: nn.Module, split: str, numbers: Sequence[int]) -> list[Example]:
        """These pictures, completed or enlarged by the model."""
        pictures = self.splits[checked_split(split, self.splits)]
        wishes = []
        for number in numbers:
            name, label = f"{self.config.describe_data()}, {split} picture {number}", int(pictures.labels[number])
            wishes.append(Wish(name, pictures.images[number], None if label == IGNORE else label))
        drawn = draw_pictures(model, wishes, DrawingSettings(pictures=3)) if wishes else []
        return [
            Example(wish.name, pictures.name(wish.kind) if wish.kind is not None else "", each.described, each,
                    as_bytes(pictures.images[number]))
            for number, wish, each in zip(numbers, wishes, drawn, strict=True)
        ]  # fmt: skip

    def overviews(self, model: nn.Module, split: str) -> list[Explanation]:
        """New pictures in a gallery; of a model that is told classes, one column for each class."""
        if self.config.told == "small":
            return []
        classes = self.facts.classes
        kinds = list(range(min(len(classes), SHOWN))) if self.config.told == "class" else [None] * 8
        lines = max(1, SHOWN // len(kinds))
        wishes = [Wish("new", kind=kind) for kind in kinds]
        drawn = draw_pictures(model, wishes, DrawingSettings(pictures=lines))
        columns = [] if self.config.told != "class" else [classes[kind] for kind in kinds if kind is not None]
        tiles = [[each.images[line] for each in drawn] for line in range(lines)]
        return [Gallery.of(tiles, columns=columns, title="new pictures")]


TASK = TaskEntry(
    "picture_generation",
    PictureGeneration,
    PictureGenerationConfig,
    verb="draw",
    inputs="pictures",
    example="picture.png",
)
