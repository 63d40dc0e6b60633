"""Finding words: pictures of signs in, the boxes of their words out.

Training signs are drawn on the device, step by step; held-out ones on the CPU, from seeds. A model says for each cell
whether it lies on a word, and where the sides of the box are. Cells in the middle of a word learn to say yes.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.base import check_settings, require, to_json
from regard.base.ranges import BatchSize, Certainty, Count, Pixels, Range
from regard.data import RowBatches
from regard.data.glyphs import LETTERS, Glyphs
from regard.data.lettering import Lettering, draw_words
from regard.data.pictures import Rows
from regard.data.signs import DrawnSigns, Signs, draw_signs
from regard.data.weather import Weather, standardised
from regard.data.words import encode_words
from regard.datasets.english_words import english_words
from regard.datasets.typefaces import typefaces
from regard.explanation import Boxes, Displayed
from regard.nn import device_of, evaluating
from regard.tasks.display import Column, Display, Figure
from regard.tasks.inputs import Picture, as_bytes, as_pixels, checked_split, picture_name
from regard.tasks.samples import evenly
from regard.tasks.task import Evaluation, Example, Loss, Progress, StoredTask, TaskEntry

SEEDS = {"valid": 11, "test": 12}
MATCH = 0.5  # intersection by union of a box that counts as found


@dataclass(frozen=True)
class WordFindingConfig:
    """Which signs, in which batches."""

    signs: Signs = field(default_factory=Signs)
    lettering: Lettering = field(default_factory=lambda: Lettering(curved=0.15, tilt=4.0, perspective=0.15))
    weather: Weather = field(default_factory=Weather)
    faces: tuple[str, ...] = ()  # of the atlas, by name; none: all
    longest: Annotated[int, Range(least=1, most=25)] = 12  # letters of a word
    batch_size: BatchSize = 64  # signs
    held_out: Count = 200  # signs of the validation set, and of the test set

    def __post_init__(self) -> None:
        check_settings(self, "task")

    def describe_data(self) -> str:
        """The data in a few words."""
        return f"rendered signs, {self.signs.size}×{self.signs.size}"

    def data_set(self) -> str:
        """The name of the data set."""
        return "rendered signs"


@dataclass(frozen=True)
class FindingSettings:
    """How boxes are chosen: what `--set` may change."""

    certainty: Certainty = 0.5  # that a cell lies on a word, at least
    overlap: Certainty = 0.3  # intersection by union above which the less certain of two boxes is left out
    longest_side: Pixels = 640  # pixels of the longer side of a picture, which is reduced to that before

    def __post_init__(self) -> None:
        check_settings(self)


class Found(NamedTuple):
    """The words that were found in a picture: boxes [n 4] (top, left, height, width), the surest first."""

    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class FoundWords(Displayed):
    """What a model finds in a picture."""

    name: str
    boxes: NDArray[np.float32]  # [n 4]: top, left, height, width in pixels
    scores: NDArray[np.float32]  # [n]
    image: NDArray[np.uint8]  # [h w 3]

    @property
    def source(self) -> str:
        """The name of the picture."""
        return self.name

    @property
    def text(self) -> str:
        """How many words there are."""
        return f"{len(self.boxes)} word{'s' * (len(self.boxes) != 1)}"

    @property
    def explanations(self) -> tuple[Boxes, ...]:
        """The picture with its boxes."""
        return (Boxes(self.image, self.boxes, [f"{score:.0%}" for score in self.scores], title=self.text),)


class WordFinding(StoredTask):
    """The task: `batches`, `loss` and `evaluate` for the trainer, `predict` for everybody else."""

    config: WordFindingConfig
    display = Display(
        figures=(
            Figure("f1", "F1 of words found, %", better="higher"),
            Figure("precision", "precision, %", better="higher", signature="f1"),
            Figure("recall", "recall, %", better="higher", signature="f1"),
        ),
        counts="f1",
        unit="signs",
        things="signs",
        examples="Signs",
        overview=(Column("ours, F1 in %", ("f1",)),),
        table=(Column("F1, %", ("f1",)),),
        more=(Column("precision / recall, %", ("precision", "recall")),),
        signatures={"f1": "F1"},
        note="A word counts as found where a box has an intersection of half of the union with its own, or more.",
    )
    settings_type = FindingSettings

    def __init__(self, config: WordFindingConfig) -> None:
        self.config = config
        self._placed: dict[tuple[str, torch.device], Any] = {}

    # ── training ────────────────────────────────────────────────────────────────────────────────────────────────────

    def batches(self, *, seed: int, rank: int = 0, world: int = 1) -> RowBatches:
        """Numbers of signs, without end. An epoch is one batch, and each number stands for a new sign."""
        size = self.config.batch_size
        return RowBatches(size, batch_size=size, seed=seed, rank=rank, world=world)

    def loss(self, model: Callable[..., Any], batch: Rows) -> Loss:
        """Of scores one minus their overlap with the words (dice) and a cross entropy; of boxes 1 − IoU, summed."""
        device = batch.rows.device
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            drawn = self.draw(len(batch.rows), device)
            inside, ignored, sides = cell_targets(drawn, model_stride(self.config.signs.size))
            seen = _standard(drawn.images)
        out = model(seen)
        scores, counts = out.scores.float(), (~ignored).float()
        wanted = inside.float()
        entropy = F.binary_cross_entropy_with_logits(scores, wanted, reduction="none") * counts
        chances = torch.sigmoid(scores) * counts
        dice = 1 - 2 * (chances * wanted).sum((1, 2)) / (chances.sum((1, 2)) + wanted.sum((1, 2))).clamp(min=1e-3)
        shared = intersection_by_union(out.sides.float(), sides)
        apart = (1 - shared).masked_fill(~inside, 0.0).sum((1, 2)) / inside.sum((1, 2)).clamp(min=1)
        return Loss((entropy.mean((1, 2)) * 4 + dice + 2 * apart).sum(), {"dice": dice.sum(), "boxes": apart.sum()})

    def draw(
        self, count: int, device: torch.device, *, held_out: bool = False, generator: torch.Generator | None = None
    ) -> DrawnSigns:
        """Draws `count` new signs on a device: words of the vocabulary, or of those that are held out of training.

        The same generator gives the same signs; without one, torch's own decides.
        """
        config, table = self.config, self._table(held_out, device)
        letters = self._at("letters", device, lambda: torch.arange(len(LETTERS)))
        words = draw_words(table, count * config.signs.words, config.lettering, letters=letters, generator=generator)
        glyphs = self._at("glyphs", device, self._glyphs)
        return draw_signs(
            words.view(count, config.signs.words, -1), glyphs, config.lettering, config.signs, config.weather,
            generator=generator,
        )  # fmt: skip

    # ── evaluation ──────────────────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def splits(self) -> dict[str, DrawnSigns]:
        """The signs to judge by, “valid” and “test”: drawn once, each from a seed of its own, of held-out words."""
        made = {}
        for name, seed in SEEDS.items():
            generator, parts, left = torch.Generator().manual_seed(seed), [], self.config.held_out
            while left > 0:
                parts.append(self.draw(min(left, 16), torch.device("cpu"), held_out=True, generator=generator))
                left -= 16
            made[name] = DrawnSigns(*(torch.cat([part[place] for part in parts]) for place in range(3)))
        return made

    @torch.no_grad()
    def evaluate(
        self,
        model: nn.Module,
        split: str,
        settings: FindingSettings | None = None,
        *,
        full: bool = False,
        progress: Progress | None = None,
    ) -> Evaluation:
        """Precision, recall and F1 of the boxes of a split, in percent."""
        settings, start = settings or FindingSettings(), time.perf_counter()
        signs = self.splits[checked_split(split, self.splits)]
        right = found = wanted = 0
        outputs = []
        for number, boxes in enumerate(self._boxes(model, signs.images, settings)):
            truth = signs.boxes[number][signs.visible[number]].numpy()
            right += matches(boxes.boxes, truth)
            found, wanted = found + len(boxes.boxes), wanted + len(truth)
            outputs.append(" ".join(",".join(f"{side:.0f}" for side in box) for box in boxes.boxes))
            if progress is not None:
                progress("signs", number + 1, len(signs.images))
        precision, recall = 100 * right / max(found, 1), 100 * right / max(wanted, 1)
        figures = {"f1": 200 * right / max(found + wanted, 1), "precision": precision, "recall": recall}
        details: dict[str, Any] = {}
        if full:
            signature = (
                f"IoU ≥ {MATCH}|{wanted:,} words on {len(signs.images):,} signs|certainty ≥ {settings.certainty}"
            )
            details = {
                "split": split, "count": len(signs.images), "seconds": time.perf_counter() - start,
                "settings": to_json(settings), "signatures": {"f1": signature}, "outputs": outputs,
            }  # fmt: skip
        return Evaluation(figures, best="f1", details=details)

    # ── predictions ─────────────────────────────────────────────────────────────────────────────────────────────────

    @torch.no_grad()
    def predict(
        self, model: nn.Module, inputs: Sequence[Picture], settings: FindingSettings | None = None
    ) -> list[list[FoundWords]]:
        """The words of each picture. A picture is a path, the bytes of a file, or pixels as bytes [h w] or [h w 3]."""
        settings, made = settings or FindingSettings(), []
        pillow = require("PIL.Image", extra="vision")
        for number, picture in enumerate(inputs, 1):
            image = as_pixels(picture)
            height, width = image.shape[:2]
            scale = min(1.0, settings.longest_side / max(height, width))
            small = (max(1, round(width * scale)), max(1, round(height * scale)))
            grey = torch.from_numpy(np.array(pillow.fromarray(image).convert("L").resize(small), np.float32)) / 255
            padded = F.pad(grey[None, None], (0, -small[0] % 16, 0, -small[1] % 16), mode="replicate")
            [found] = self._boxes(model, padded, settings)
            boxes = np.array(found.boxes, np.float32) / scale
            first, last = boxes[:, :2].clip(0, (height, width)), (boxes[:, :2] + boxes[:, 2:]).clip(0, (height, width))
            kept = ((last - first) > 1).all(1)
            boxes = np.concatenate([first, last - first], 1)[kept].astype(np.float32)
            made.append([FoundWords(picture_name(picture, number), boxes, found.scores[kept], image)])
        return made

    def _boxes(self, model: Any, images: Float[Tensor, "b 1 h w"], settings: FindingSettings) -> list[Found]:
        """The words on pictures, 0 to 1."""
        device, made = device_of(model), []
        with evaluating(model):
            for chunk in torch.split(images, 64):
                out = model(_standard(chunk.to(device)))
                scores, sides = torch.sigmoid(out.scores.float()).cpu(), out.sides.float().cpu()
                made += [chosen_boxes(*pair, settings) for pair in zip(scores, sides, strict=True)]
        return made

    def choose(self, split: str, count: int) -> list[int]:
        """Signs at even distances."""
        return evenly(len(self.splits[checked_split(split, self.splits)].images), count)

    def examples(self, model: nn.Module, split: str, numbers: Sequence[int]) -> list[Example]:
        """These signs, how many words they have, and what the model finds."""
        signs = self.splits[checked_split(split, self.splits)]
        made = []
        for number in numbers:
            image = as_bytes((signs.images[number] * 255).round().to(torch.uint8))
            [[found]] = self.predict(model, [image])
            truth = f"{int(signs.visible[number].sum())} words"
            made.append(Example(f"{split} sign {number}", truth, found.text, found, image))
        return made

    # ── what lies on the device ─────────────────────────────────────────────────────────────────────────────────────

    def _at(self, name: str, device: torch.device, make: Callable[[], Any]) -> Any:
        if (name, device) not in self._placed:
            self._placed[name, device] = make().to(device)
        return self._placed[name, device]

    def _glyphs(self) -> Glyphs:
        return typefaces().take(self.config.faces) if self.config.faces else typefaces()

    def _table(self, held_out: bool, device: torch.device) -> Tensor:
        table: Tensor = self._at(f"words {held_out}", device, lambda: self._words(held_out))
        return table

    def _words(self, held_out: bool) -> Tensor:
        """Every tenth word of the list for held-out signs, all others for training."""
        words = [word for word in english_words() if len(word) <= self.config.longest]
        chosen = words[9::10] if held_out else [word for number, word in enumerate(words, 1) if number % 10]
        return encode_words(chosen, self.config.longest)


def model_stride(size: int) -> int:
    """How many cells of 4 pixels a side of this many pixels has."""
    return size // 4


def cell_targets(
    drawn: DrawnSigns, cells: int
) -> tuple[Bool[Tensor, "b i j"], Bool[Tensor, "b i j"], Float[Tensor, "b 4 i j"]]:
    """For each cell whether it lies in the middle of a word, whether in its rim (which does not count), and its sides.

    The middle is what is left after a fifth of the height is taken away on each side.
    """
    device = drawn.images.device
    stride = drawn.images.shape[-1] / cells
    place = (torch.arange(cells, device=device) + 0.5) * stride
    top, left, height, width = (side[..., None, None] for side in drawn.boxes.unbind(-1))  # [b m 1 1]
    y, x = place.view(1, 1, -1, 1), place.view(1, 1, 1, -1)
    up, back, down, ahead = y - top, x - left, top + height - y, left + width - x
    shape = (*drawn.visible.shape, cells, cells)
    sides = torch.stack([side.expand(shape) for side in (up, back, down, ahead)], 2)  # [b m 4 i j]
    nearest = sides.amin(2)
    there = drawn.visible[..., None, None]
    rim = height / 5
    middle, near = (nearest > rim) & there, (nearest > -1) & there
    which = torch.where(middle, 1.0, 0.0).argmax(1, keepdim=True)  # the first word whose middle it is
    chosen = sides.gather(1, which.unsqueeze(2).expand(-1, 1, 4, -1, -1)).squeeze(1)
    inside = middle.any(1)
    return inside, near.any(1) & ~inside, chosen.clamp(min=0)


def intersection_by_union(one: Float[Tensor, "b 4 i j"], other: Float[Tensor, "b 4 i j"]) -> Float[Tensor, "b i j"]:
    """Of two boxes around the same point, given by the distances of their sides from it."""
    shared = torch.minimum(one, other)
    common = (shared[:, 0] + shared[:, 2]) * (shared[:, 1] + shared[:, 3])
    areas = [(box[:, 0] + box[:, 2]) * (box[:, 1] + box[:, 3]) for box in (one, other)]
    return common / (areas[0] + areas[1] - common).clamp(min=1e-6)


def chosen_boxes(scores: Float[Tensor, "i j"], sides: Float[Tensor, "4 i j"], settings: FindingSettings) -> Found:
    """The boxes of cells that are sure enough; those that overlap a surer one join it, weighted by their scores."""
    rows, columns = torch.nonzero(scores >= settings.certainty, as_tuple=True)
    certainty = scores[rows, columns].numpy()
    if not len(certainty):
        return Found(np.zeros((0, 4), np.float32), np.zeros(0, np.float32))
    order = np.argsort(-certainty, kind="stable")[:4000]
    y, x = (rows.numpy()[order] + 0.5) * 4, (columns.numpy()[order] + 0.5) * 4
    up, left, down, right = sides[:, rows, columns].numpy()[:, order]
    edges = np.stack([y - up, x - left, y + down, x + right], 1)
    certainty, left_over = certainty[order], np.ones(len(order), bool)
    boxes, best = [], []
    while left_over.any():
        first = int(left_over.argmax())
        near = left_over & (_shares(edges[first], edges) > settings.overlap)
        near[first] = True
        weights = certainty[near, None]
        mean = (edges[near] * weights).sum(0) / weights.sum()
        boxes.append([mean[0], mean[1], mean[2] - mean[0], mean[3] - mean[1]])
        best.append(certainty[first])
        left_over &= ~near
    return Found(np.array(boxes, np.float32), np.array(best, np.float32))


def matches(boxes: NDArray[Any], truth: NDArray[Any]) -> int:
    """How many boxes have a true box for themselves, with an intersection of half of the union or more."""
    free = list(range(len(truth)))
    count = 0
    corners = np.concatenate([truth[:, :2], truth[:, :2] + truth[:, 2:]], 1)
    for top, left, height, width in boxes:
        shares = _shares(np.array([top, left, top + height, left + width]), corners[free])
        if len(shares) and shares.max() >= MATCH:
            free.pop(int(shares.argmax()))
            count += 1
    return count


def _shares(box: NDArray[Any], others: NDArray[Any]) -> NDArray[Any]:
    """Intersection by union of one box with others; each is top, left, bottom, right."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    common = np.clip(high - low, 0, None).prod(1)
    areas = (box[2:] - box[:2]).clip(0).prod() + (others[:, 2:] - others[:, :2]).clip(0).prod(1)
    shares: NDArray[Any] = common / np.maximum(areas - common, 1e-9)
    return shares


def _standard(images: Float[Tensor, "b 1 h w"]) -> Float[Tensor, "b 1 h w"]:
    return standardised(images, torch.full((len(images),), images.shape[-1], device=images.device))


TASK = TaskEntry("word_finding", WordFinding, WordFindingConfig, verb="find", inputs="pictures", example="sign.png")
