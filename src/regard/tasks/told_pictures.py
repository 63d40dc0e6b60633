"""The pictures that a model learns to draw: where they come from, and what it is told of each beforehand."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from jaxtyping import UInt8
from torch import Tensor

from regard.base import ConfigError, check_settings, fill, followed
from regard.base.ranges import BatchSize, OneOf, Pixels, UserPath
from regard.data import Pictures, read_picture_folder
from regard.data.pictures import Facts
from regard.datasets import DATASETS, choose
from regard.tasks.inputs import checked_split
from regard.tasks.shown_pictures import FACTS

OWN = "own"  # the name of the data set that is a user's folder
TOLD = ("nothing", "class", "small")


@dataclass(frozen=True)
class PictureGenerationConfig:
    """Which pictures, what a model is told of them, in which batches."""

    dataset: str = "cifar10_lossless"  # of DATASETS, with the pixels that were published
    told: Annotated[str, OneOf(TOLD)] = "nothing"  # beforehand: nothing, the class, or a small copy of the picture
    small_size: Pixels = 8  # told=small: side of the small copy
    batch_size: BatchSize = 32  # pictures in a batch
    folder: UserPath | None = None  # your own pictures, in place of the data set; sub-folders are classes
    side: Pixels = 32  # height and width to which pictures of a folder are brought

    def __post_init__(self) -> None:
        check_settings(self, "task")

    def describe_data(self) -> str:
        """The data in a few words, for tables."""
        known = {"nothing": "", "class": ", class known", "small": f", {self.small_size}×{self.small_size} known"}
        return self.data_set() + known[self.told]

    def data_set(self) -> str:
        """The name of the data set."""
        return OWN if self.folder is not None else self.dataset


class ToldPictures:
    """Splits of pictures, on the device where they are used, and what a model is told of them."""

    def __init__(
        self,
        config: PictureGenerationConfig,
        *,
        splits: dict[str, Pictures] | None = None,
        facts: Facts | None = None,
    ) -> None:
        if config.folder is None:
            _check_exact(config.dataset)
        self.config = config
        if splits is not None:
            self.splits = splits
        if facts is not None:
            self.facts = facts
        self._places: dict[tuple[str, torch.device], Pictures] = {}

    @cached_property
    def splits(self) -> dict[str, Pictures]:
        """Train, valid and test pictures by name, read when they are first asked for."""
        if self.config.folder is not None:
            return read_picture_folder(followed(self.config.folder, cure="name it again by --source"), self.config.side)
        splits: dict[str, Pictures] = DATASETS[self.config.dataset].read()
        return splits

    @cached_property
    def facts(self) -> Facts:
        """What a model must know of the data."""
        train = self.splits["train"]
        if train.images.shape[-1] != train.images.shape[-2]:
            raise ConfigError("pictures to draw must be squares", got=list(train.images.shape[-2:]))
        return Facts(train.classes, 1, train.channels, train.images.shape[-1])

    @property
    def dimensions(self) -> int:
        """How many numbers a picture has: what bits are divided by."""
        return self.facts.channels * self.facts.image_size**2

    @classmethod
    def from_files(cls, config: PictureGenerationConfig, source: str, target: str | None) -> PictureGenerationConfig:
        """`regard train image_transformer/smoke --source FOLDER`."""
        if target is not None:
            raise ConfigError("--target", got=target, cure="one folder of pictures is enough: leave --target out")
        return replace(config, folder=source)

    def complete(self, model_config: Any) -> Any:
        """The model's settings with what the data and the task decide: sizes, classes, and what is told."""
        known = {**self.facts._asdict(), "classes": len(self.facts.classes)}
        known["class_conditional"] = self.config.told == "class"
        known["small_size"] = self.config.small_size if self.config.told == "small" else 0
        return fill(model_config, known)

    def save(self, folder: Path) -> None:
        """Writes what the data decided, so that a run is loaded without its data."""
        self.facts.save(folder / FACTS)

    @classmethod
    def load(cls, folder: Path, config: PictureGenerationConfig) -> Any:
        """The task of a run folder; its pictures are read only when asked for."""
        return cls(config, facts=Facts.load(folder / FACTS))

    def on_device(self, split: str, device: torch.device) -> Pictures:
        """A split on a device, where it stays."""
        if (split, device) not in self._places:
            self._places[split, device] = self.splits[checked_split(split, self.splits)].to(device)
        return self._places[split, device]

    def told(self, images: UInt8[Tensor, "b c h w"], labels: Tensor) -> dict[str, Tensor]:
        """What a model gets beside the pictures: their classes, small copies of them, or nothing."""
        if self.config.told == "class":
            return {"classes": labels}
        return {"small": shrunk(images, self.config.small_size)} if self.config.told == "small" else {}


def shrunk(images: UInt8[Tensor, "b c h w"], size: int) -> UInt8[Tensor, "b c s s"]:
    """Small copies: each pixel is the mean of a square, rounded.

    >>> shrunk(torch.tensor([[[[0, 1], [2, 4]]]], dtype=torch.uint8), 1)
    tensor([[[[2]]]], dtype=torch.uint8)
    """
    side = images.shape[-1]
    if side % size:
        expected = f"a number that divides {side}"
        raise ConfigError("task.small_size", got=size, expected=expected)
    return F.avg_pool2d(images.float(), side // size).round().to(torch.uint8)


def _check_exact(name: str) -> None:
    """A data set of pictures whose pixels are the published ones, or an error."""
    dataset = choose(DATASETS, "pictures", name, setting="task.dataset")
    if not dataset.exact:
        raise ConfigError(
            f"{name} has pictures that went through JPEG, so bits per dimension would mean nothing",
            got=f"task.dataset={name}",
            expected="a data set with the pixels that were published",
            cure="use task.dataset=cifar10_lossless" if name == "cifar10" else "choose another data set",
        )
