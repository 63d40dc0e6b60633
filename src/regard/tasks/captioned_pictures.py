"""Pictures with captions as a model is shown them: features that were computed once, or views that vary in training."""

import dataclasses
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from regard.base import ConfigError, followed
from regard.base.ranges import Margin, UserPath
from regard.data.captions import Captions, read_captions, split_captions
from regard.datasets import DATASETS, choose
from regard.nn import device_of
from regard.tasks.features import CHUNK, EncoderConfig, FeatureCache
from regard.tasks.task import Progress

FILES = "files"  # the data set that consists of the user's files


@dataclasses.dataclass(frozen=True)
class CaptionedPictureSettings:
    """Which pictures with captions, and how they are shown."""

    dataset: str = "flickr8k"  # of DATASETS, or "files"
    caption_file: UserPath | None = None  # dataset="files": lines picture<TAB>caption, and the folder of the pictures
    folder: UserPath | None = None  # of the pictures
    on_bad: Literal["error", "drop"] = "error"  # lines that are broken
    encoder: EncoderConfig = dataclasses.field(default_factory=EncoderConfig)
    finetune: bool = False  # the encoder is part of the model and learns with it
    mirrored: bool = False  # training pictures are mirrored by chance
    jitter: Margin = 0  # finetune: training views are cut by chance from squares that are this many pixels larger

    def describe_data(self) -> str:
        """The name of the data set."""
        return self.dataset

    def data_set(self) -> str:
        """The name of the data set on the menu."""
        return self.dataset


class CaptionedPictures:
    """The pictures of a captioning: splits, and what a model is shown of them, on its device."""

    config: Any

    def __init__(
        self,
        config: CaptionedPictureSettings,
        *,
        splits: dict[str, Captions] | None = None,
        encoder: Any | None = None,
        folder: Path | None = None,
        progress: Progress | None = None,
    ) -> None:
        _check(config)
        self.config = config
        self.features = FeatureCache(config.encoder, module=encoder, folder=folder, progress=progress)
        self._on_device: dict[tuple[str, torch.device], Tensor] = {}
        if splits is not None:
            self.splits = splits

    @cached_property
    def splits(self) -> dict[str, Captions]:
        """Train, valid and test sets by name, read when they are first asked for; pictures are read later."""
        config = self.config
        if config.dataset != FILES:
            splits: dict[str, Captions] = choose(DATASETS, "captions", config.dataset, setting="task.dataset").read()
            return splits
        if config.caption_file is None or config.folder is None:
            cure = "set task.caption_file=captions.tsv task.folder=pictures"
            raise ConfigError("dataset='files' needs a file and a folder", cure=cure)
        again = "name them again by --source and --target"
        file, folder = (followed(path, cure=again) for path in (config.caption_file, config.folder))
        captioned = read_captions(file, folder, on_bad=config.on_bad)
        held_out = min(1000, max(1, len(captioned) // 10))
        return split_captions(captioned, valid=held_out, test=held_out)

    def prepare(self, device: str | torch.device, progress: Progress | None = None) -> None:
        """Encodes all splits, or reads their features from disk, and holds them on the device."""
        self.features.progress = progress or self.features.progress
        here = torch.empty(0, device=device).device  # "cuda" is cuda:0
        for split in self.splits:
            self._store(split, here)

    def _store(self, split: str, device: torch.device) -> Tensor:
        """What the model is shown of a split, on the device: features, or views where the encoder is in the model."""
        key = split, device
        if key not in self._on_device:
            config, captions = self.config, self.splits[split]
            train = split == "train"
            if config.finetune:
                margin = config.jitter if train else 0
                self._on_device[key] = self.features.views(captions, margin=margin, device=device)
            else:
                self._on_device[key] = self.features.features(
                    captions, mirrored=config.mirrored and train, device=device
                )
        return self._on_device[key]

    def features_of(self, model: nn.Module, split: str, progress: Progress | None = None) -> Float[Tensor, "n k d"]:
        """Features of a split without chance: no mirror images, the middle of larger views; each picture once."""
        store = self._store(split, device_of(model))[: len(self.splits[split])]
        if not self.config.finetune:
            return store
        margin = self.config.jitter // 2 if split == "train" else 0
        middle = slice(margin, margin + self.config.encoder.size)
        inside: Any = model
        seen: list[Tensor] = []
        for start in range(0, len(store), CHUNK):
            seen.append(inside.see(store[start : start + CHUNK, ..., middle, middle]))
            if progress is not None:
                progress("pictures", min(start + CHUNK, len(store)), len(store))
        return torch.cat(seen)

    def training_views(self, numbers: Int[Tensor, " b"]) -> Shaped[Tensor, "..."]:
        """What the model sees of some training pictures, with chance."""
        config, store, device = self.config, self._store("train", numbers.device), numbers.device
        coin = torch.randint(0, 2, numbers.shape, device=device) if config.mirrored else torch.zeros_like(numbers)
        if not config.finetune:
            return store[numbers + len(self.splits["train"]) * coin]
        size = torch.arange(config.encoder.size, device=device)
        down, right = torch.randint(0, config.jitter + 1, (2, len(numbers), 1), device=device)
        across = right + torch.where(coin.unsqueeze(1) > 0, size.flip(0), size)  # [b s]
        rows, columns = (down + size).view(-1, 1, len(size), 1), across.view(-1, 1, 1, len(size))
        return store[numbers.view(-1, 1, 1, 1), torch.arange(3, device=device).view(1, 3, 1, 1), rows, columns]


def _check(config: CaptionedPictureSettings) -> None:
    if config.dataset != FILES:
        choose(DATASETS, "captions", config.dataset, setting="task.dataset", besides=(FILES,))
    if config.finetune and config.encoder.name != "efficientnet_lite0":
        raise ConfigError("task.finetune", got=config.encoder.name, expected="task.encoder.name=efficientnet_lite0")
    if config.jitter and not config.finetune:
        raise ConfigError(
            "task.jitter", got="finetune=false", expected="0", cure="set task.jitter=0, or task.finetune=true"
        )
