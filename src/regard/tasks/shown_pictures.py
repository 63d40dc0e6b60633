"""Pictures as a classifier is shown them: read, painted on canvases, cropped, mirrored and normalised.

In training this happens on the device, inside the loss, each time a little differently. Held-out canvases are painted
once, from a seed, on the CPU, so they are the same everywhere.
"""

import dataclasses
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from regard.base import ConfigError, fill
from regard.base.ranges import Margin, Pixels, Range, Seed, Share
from regard.data import Canvas, Pictures, paint
from regard.data.handwriting import FRAMINGS, SIDE, framed
from regard.data.pictures import Facts, centre_crops, random_crops, random_erasures, random_turns
from regard.datasets import DATASETS, choose
from regard.tasks.inputs import checked_split

Degrees = Annotated[float, Range(least=0, most=360)]
Deviation = Annotated[float, Range(above=0, least=1e-6)]
Splits = dict[str, Pictures]
AT_ONCE = 1000  # pictures, where nothing is learnt
FACTS = "pictures.json"  # in a run folder


@dataclasses.dataclass(frozen=True)
class PictureSettings:
    """Which pictures, and how they are shown."""

    dataset: str = "mnist"  # of DATASETS
    canvas: Canvas = dataclasses.field(default_factory=Canvas)
    crop: Pixels | None = None  # side of a random square in training, of the middle one else; None: whole pictures
    pad: Margin = 0  # black pixels around a picture before it is cropped
    mirror: bool = False  # every other picture, in training
    turn: Degrees = 0.0  # degrees, at most, by which a picture is turned in training
    stretch: Share = 0.0  # share, at most, by which it is stretched or shrunk
    erase: Margin = 0  # side of a square, somewhere, that shows the mean in training (cutout)
    mean: tuple[float, ...] = ()  # of each channel, to be subtracted from 0 … 1
    std: tuple[Deviation, ...] = ()  # of each channel, to be divided by
    standardise: bool = False  # in place of both: each picture less its own mean, by its own deviation
    canvas_seed: Seed = 20_140_624  # of held-out canvases

    def describe_data(self) -> str:
        """The data set and the canvas in a few words: "mnist 60×60, 4 pieces of clutter"."""
        canvas = self.canvas
        if canvas.size is None:
            return self.dataset
        words = [f"{self.dataset} {canvas.size}×{canvas.size}"]
        if canvas.digits > 1:
            words.append(f"{canvas.target} of {canvas.digits}")
        if canvas.clutter:
            words.append(f"{canvas.clutter} pieces of clutter")
        return ", ".join(words)

    def data_set(self) -> str:
        """The name of the data set on the menu."""
        return self.dataset


class ShownPictures:
    """The pictures of a classification: splits, what the data decide, and what a model is shown of them."""

    def __init__(self, config: PictureSettings, *, splits: Splits | None = None, facts: Facts | None = None) -> None:
        _check(config)
        self.config = config
        if splits is not None:
            self.splits = splits
        if facts is not None:
            self.facts = facts
        self._places: dict[tuple[str, torch.device], Pictures] = {}
        self._held: dict[str, Pictures] = {}
        self._constants: dict[tuple[int, torch.device], tuple[Tensor, Tensor]] = {}

    @cached_property
    def splits(self) -> Splits:
        """Train, valid and test sets by name, read when they are first asked for."""
        splits: Splits = choose(DATASETS, "pictures", self.config.dataset, setting="task.dataset").read()
        return splits

    @cached_property
    def facts(self) -> Facts:
        """What the data decides, read from it unless it was given."""
        train, config = self.splits["train"], self.config
        config.canvas.check(train)
        labels = 1 if train.labels.ndim == 1 else train.labels.shape[1]
        if config.canvas.digits > 1:
            labels = config.canvas.digits if config.canvas.target == "sequence" else 1
        side = config.crop or config.canvas.size or train.images.shape[-1]
        return Facts(config.canvas.classes(train.classes), labels, train.channels, side)

    @property
    def classes(self) -> tuple[str, ...]:
        """What a label may say."""
        return self.facts.classes

    @property
    def labels(self) -> int:
        """How many labels each picture has, at most."""
        return self.facts.labels

    @property
    def image_size(self) -> int:
        """The height and width that a model sees."""
        return self.facts.image_size

    def complete(self, model_config: Any) -> Any:
        """The model's settings with what the data decide: classes, labels, channels, image_size, where it has them."""
        return fill(model_config, {**self.facts._asdict(), "classes": len(self.classes)})

    def save(self, folder: Path) -> None:
        """Writes what the data decided."""
        self.facts.save(folder / FACTS)

    @classmethod
    def load(cls, folder: Path, config: PictureSettings) -> Any:
        """The task of a run; its data is read only when asked for."""
        return cls(config, facts=Facts.load(folder / FACTS))

    def shown(self, rows: Int[Tensor, " b"]) -> tuple[Float[Tensor, "b c h w"], Int[Tensor, "b s"]]:
        """Training pictures, each time a little different, with labels [b s]: on the device of the rows."""
        config, pool = self.config, self._on("train", rows.device)
        if config.turn or config.stretch:  # these few pictures, turned, are all that there is to paint with
            turned = random_turns(pool.images[rows], turn=config.turn, stretch=config.stretch)
            pool = dataclasses.replace(pool, images=turned, labels=pool.labels[rows])
            rows = torch.arange(len(rows), device=rows.device)
        if config.canvas.size is not None:
            images, labels = paint(rows, pool, config.canvas)
        else:
            chosen, labels = pool.images[rows], pool.labels[rows]
            if config.crop is not None or config.mirror:
                side = config.crop or chosen.shape[-1]
                chosen = random_crops(chosen, side, pad=config.pad, mirror=config.mirror)
            images = chosen.float() / 255.0
        images = self.normalised(images)
        if config.erase:
            images = random_erasures(images, config.erase)
        return images, labels if labels.ndim == 2 else labels.unsqueeze(1)

    def held_out(self, split: str) -> Pictures:
        """The fixed pictures of a split, as a model sees them but for normalisation; labels are [n s]."""
        if split not in self._held:
            pictures = self.splits[checked_split(split, self.splits)]
            config, labels = self.config, pictures.labels
            if config.canvas.size is not None:
                config.canvas.check(pictures)
                generator = torch.Generator().manual_seed(config.canvas_seed + sum(map(ord, split)))
                every = torch.split(torch.arange(pictures.size), AT_ONCE)
                parts = [paint(rows, pictures, config.canvas, generator=generator) for rows in every]
                images = torch.cat([(chunk.images * 255).round().to(torch.uint8) for chunk in parts])
                labels = torch.cat([chunk.labels for chunk in parts])
            else:
                images = pictures.images if config.crop is None else centre_crops(pictures.images, config.crop)
            self._held[split] = Pictures(images, labels if labels.ndim == 2 else labels.unsqueeze(1), self.classes)
        return self._held[split]

    def prepared(self, image: UInt8[Tensor, "h w 3"], *, invert: bool | None = None) -> UInt8[Tensor, "c s s"]:
        """A picture of any size as this task shows them: right channels, longer side fitted, black around.

        Digits are white on black here: a grey one whose border is bright is inverted, unless `invert` says otherwise. A
        single digit drawn by hand is cropped and centred as the digits of the data set are.
        """
        channels, side = self.facts.channels, self.image_size
        x = image.float().permute(2, 0, 1)
        if channels == 1:
            x = (x * torch.tensor([0.299, 0.587, 0.114])[:, None, None]).sum(0, keepdim=True)
            framing = FRAMINGS.get(self.config.dataset) if side == SIDE and self.config.canvas.size is None else None
            if framing is not None and (digit := framed(x[0], framing, invert=invert)) is not None:
                return digit.unsqueeze(0).round().clamp(0, 255).to(torch.uint8)
            rim = torch.cat([x[0, 0], x[0, -1], x[0, :, 0], x[0, :, -1]])
            if invert or (invert is None and rim.median() > 127):
                x = 255 - x
        height, width = x.shape[-2:]
        ratio = side / max(height, width)
        if self.config.canvas.size is not None:
            ratio = min(ratio, 1.0)  # a digit of its own size, on a canvas
        size = (max(1, round(height * ratio)), max(1, round(width * ratio)))
        x = F.interpolate(x.unsqueeze(0), size=size, mode="bilinear", antialias=True, align_corners=False)[0]
        top, left = (side - size[0]) // 2, (side - size[1]) // 2
        x = F.pad(x, (left, side - size[1] - left, top, side - size[0] - top))
        return x.round().clamp(0, 255).to(torch.uint8)

    def _on(self, split: str, device: torch.device) -> Pictures:
        """A split on a device, where it stays."""
        if (split, device) not in self._places:
            pictures = self.splits[checked_split(split, self.splits)]
            self.config.canvas.check(pictures)
            self._places[split, device] = pictures.to(device)
        return self._places[split, device]

    def normalised(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
        """Pictures from 0 to 1 as a model takes them: less the mean, by the deviation, of each channel or picture."""
        if self.config.standardise:
            deviation, mean = torch.std_mean(images, (1, 2, 3), keepdim=True, correction=0)
            return (images - mean) / (deviation + 1 / 255)  # a picture of one colour is 0
        if not self.config.mean and not self.config.std:
            return images
        place = (images.shape[1], images.device)
        if place not in self._constants:  # copied to the device once: a captured graph may not
            mean, std = (_by_channel(self.config, name, images.shape[1]) for name in ("mean", "std"))
            self._constants[place] = ((1 / std).to(images.device), (-mean / std).to(images.device))
        scale, shift = self._constants[place]
        return torch.addcmul(shift, images, scale)


def _by_channel(config: PictureSettings, name: str, channels: int) -> Float[Tensor, "c 1 1"]:
    values = getattr(config, name) or ((0.0,) if name == "mean" else (1.0,))
    if len(values) not in (1, channels):
        expected = f"one number, or one for each of {channels} channels"
        raise ConfigError(f"task.{name}", got=f"{len(values)} numbers", expected=expected)
    return torch.tensor(values).expand(channels)[:, None, None]


def _check(config: PictureSettings) -> None:
    choose(DATASETS, "pictures", config.dataset, setting="task.dataset")
    if config.canvas.size is not None and (config.crop is not None or config.mirror):
        got = f"canvas.size={config.canvas.size}, crop={config.crop}, mirror={config.mirror}"
        raise ConfigError(
            "a canvas is neither cropped nor mirrored", got=got, cure="set task.crop=none task.mirror=false"
        )
    if config.standardise and (config.mean or config.std):
        got = f"standardise=true, mean={config.mean}, std={config.std}"
        raise ConfigError("a picture is normalised in one way", got=got, cure="set task.standardise=false")
