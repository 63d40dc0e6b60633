"""Classification of pictures: labels out, for models that see everything at once and for models that look around.

Batches are rows; the pictures live on the device, and are painted, cropped and mirrored there, inside the loss.
Held-out canvases are painted once, from a seed, on the CPU, so they are the same everywhere. A model that draws where
to look returns log-probabilities beside its logits, and learns from rewards too.
"""

import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from regard.base import ConfigError, RegardError, did_you_mean, fill, read_json, write_atomically
from regard.data import Pictures, paint
from regard.data.cifar10 import cifar10
from regard.data.digits import digits, mnist
from regard.data.pictures import (
    END,
    IGNORE,
    Facts,
    RowBatches,
    Rows,
    centre_crops,
    random_crops,
    random_erasures,
    random_turns,
)
from regard.data.svhn import svhn
from regard.tasks.judging import ClassificationConfig, Gazing, judge
from regard.tasks.task import Loss, Progress, Score

Splits = dict[str, Pictures]
DATASETS: dict[str, Callable[[], Splits]] = {"digits": digits, "mnist": mnist, "svhn": svhn, "cifar10": cifar10}
AT_ONCE = 1000  # pictures, where nothing is learnt
FACTS = "pictures.json"  # in a run folder


class Recognised(NamedTuple):
    """What a model says about a picture."""

    text: str  # the labels, one after the other, up to the end of a number
    labels: list[str]
    probabilities: Tensor  # [s c]
    where: Tensor | None  # [t 2]: where it looked, (x, y) in [−1, 1], as many glimpses as it took; None: everywhere


class Classification:
    """The task: `batches`, `loss` and `evaluate` for the trainer, `predict` for everybody else."""

    def __init__(
        self, config: ClassificationConfig, *, splits: Splits | None = None, facts: Facts | None = None
    ) -> None:
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
        return DATASETS[self.config.dataset]()

    @property
    def tests(self) -> list[str]:
        """Test splits, the usual one first."""
        return ["test"]

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

    def fill(self, model_config: Any) -> Any:
        """A model's config with what the data decides: classes, labels, channels, image_size, where it has them."""
        return fill(model_config, {**self.facts._asdict(), "classes": len(self.classes)})

    def save(self, folder: Path) -> None:
        """What the data decided."""
        write_atomically(folder / FACTS, json.dumps(self.facts._asdict()))

    @classmethod
    def load(cls, folder: Path, config: ClassificationConfig) -> "Classification":
        """The task of a run; its data is read only when asked for."""
        path, cure = folder / FACTS, "restore it, or train anew"
        try:
            found = read_json(path, cure=cure)
            facts = Facts(tuple(found["classes"]), *(int(found[name]) for name in Facts._fields[1:]))
        except FileNotFoundError:
            return cls(config)
        except RegardError:
            raise
        except (OSError, ValueError, TypeError, KeyError, OverflowError) as error:
            raise RegardError(f"{path} cannot be read", got=str(error), cure=cure) from error
        return cls(config, facts=facts)

    # ── training ────────────────────────────────────────────────────────────────────────────────────────────────────

    def batches(self, *, seed: int, rank: int = 0, world: int = 1) -> RowBatches:
        """Rows of the training set without end, for one of `world` ranks."""
        size, batch_size = self.splits["train"].size, self.config.batch_size
        return RowBatches(size, batch_size=batch_size, seed=seed, rank=rank, world=world)

    def loss(self, model: Callable[..., Any], batch: Rows) -> Loss:
        """Cross entropy, and for a model that draws the losses of its policy and its baseline; sums over pictures."""
        images, labels = self.shown(batch.rows)
        if self.config.walks > 1:
            images, labels = (x.repeat_interleave(self.config.walks, 0) for x in (images, labels))
        return judge(model(images), labels, self.config)

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

    # ── evaluation ──────────────────────────────────────────────────────────────────────────────────────────────────

    def held_out(self, split: str) -> Pictures:
        """The fixed pictures of a split, as a model sees them but for normalisation; labels are [n s]."""
        if split not in self._held:
            found = self._split(split)
            config, labels = self.config, found.labels
            if config.canvas.size is not None:
                config.canvas.check(found)
                generator = torch.Generator().manual_seed(config.canvas_seed + sum(map(ord, split)))
                every = torch.split(torch.arange(found.size), AT_ONCE)
                parts = [paint(rows, found, config.canvas, generator=generator) for rows in every]
                images = torch.cat([(part.images * 255).round().to(torch.uint8) for part in parts])
                labels = torch.cat([part.labels for part in parts])
            else:
                images = found.images if config.crop is None else centre_crops(found.images, config.crop)
            self._held[split] = Pictures(images, labels if labels.ndim == 2 else labels.unsqueeze(1), self.classes)
        return self._held[split]

    @torch.no_grad()
    def evaluate(
        self,
        model: nn.Module,
        split: str,
        *,
        gazing: Gazing | None = None,
        full: bool = False,
        progress: Progress | None = None,
    ) -> Score:
        """Errors in percent: `error` of whole pictures, `label_error` of single labels where there are several."""
        gazing = Gazing() if gazing is None else gazing
        draws = self.config.draws if gazing.draws is None else gazing.draws
        pictures = self.held_out(split)
        start = time.perf_counter()
        logits, steps, along = self._run(model, pictures, draws, gazing.options(model, draws), progress)
        labels = pictures.labels
        real = labels != IGNORE
        found = logits.argmax(-1)
        wrong = (found != labels) & real
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE).item()
        error = 100 * wrong.any(1).double().mean().item()
        figures = {"loss": loss, "error": error, "accuracy": 100 - error}
        if labels.shape[1] > 1:
            figures["label_error"] = 100 * (wrong.sum() / real.sum()).item()
        if steps is not None:
            figures["steps"] = steps.double().mean().item()
        details: dict[str, Any] = {}
        if full:
            how = {0: "means", 1: "one draw"}.get(draws, f"mean of {draws} draws")
            kind = f"error in % of {pictures.size:,} pictures" + (f", locations: {how}" if steps is not None else "")
            certain = gazing.certainty or getattr(getattr(model, "config", None), "certainty", None)
            kind += "" if certain is None or draws else f", stops: p > {certain:g}"
            details = {
                "split": split,
                "count": pictures.size,
                "seconds": time.perf_counter() - start,
                "signatures": {"error": kind},
                "outputs": [" ".join(self._names(row)) for row in found],
            }
            if along is not None:
                details["by_glimpse"] = (100 * (along != labels).double().mean(0)).tolist()
            if along is not None and steps is not None and certain is not None:
                taken = steps.long().bincount(minlength=along.shape[1] + 1)[1:]
                details["stopped"] = (100 * taken / taken.sum()).tolist()
        return Score(figures, best="error", higher_is_better=False, details=details)

    @torch.no_grad()
    def predict(self, model: nn.Module, images: UInt8[Tensor, "b c h w"]) -> list[Recognised]:
        """Labels, probabilities and the path of the glimpses, for pictures as `held_out` has them."""
        blank = torch.zeros(len(images), self.labels, dtype=torch.long)
        pictures = Pictures(images, blank, self.classes)
        answers = []
        with _judging(model):
            for rows in torch.split(torch.arange(len(images)), AT_ONCE):
                out = model(self.normalised(pictures.take(rows).images.to(_device(model)).float() / 255.0))
                probabilities = out.logits.float().softmax(-1).cpu()
                where = getattr(out, "where", None)
                for number, one in enumerate(probabilities):
                    names = self._names(one.argmax(-1))
                    path = None if where is None else where[number][out.active[number]].float().cpu()
                    answers.append(Recognised("".join(names), names, one, path))
        return answers

    def prepared(self, image: UInt8[Tensor, "h w 3"], *, invert: bool | None = None) -> UInt8[Tensor, "c s s"]:
        """A picture of any size as this task shows them: right channels, longer side fitted, black around.

        Digits are white on black here: a grey one whose border is bright is inverted, unless `invert` says otherwise.
        """
        channels, side = self.facts.channels, self.image_size
        x = image.float().permute(2, 0, 1)
        if channels == 1:
            x = (x * torch.tensor([0.299, 0.587, 0.114])[:, None, None]).sum(0, keepdim=True)
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

    def _run(
        self, model: nn.Module, pictures: Pictures, draws: int, options: dict[str, Any], progress: Progress | None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """On the CPU: log-probabilities [n s c], steps [n]; of one walk for one label, that after each glimpse [n t].

        Noise, where there is any, has a seed of its own.
        """
        device, parts, steps, along = _device(model), [], [], []
        with _judging(model):
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

    # ── the parts ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _split(self, split: str) -> Pictures:
        if split in self.splits:
            return self.splits[split]
        cure = did_you_mean(split, self.splits)
        raise ConfigError("unknown split", got=repr(split), expected=f"one of {', '.join(self.splits)}", cure=cure)

    def _on(self, split: str, device: torch.device) -> Pictures:
        """A split on a device, where it stays."""
        if (split, device) not in self._places:
            found = self._split(split)
            self.config.canvas.check(found)
            self._places[split, device] = found.to(device)
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

    def _names(self, row: Int[Tensor, " s"]) -> list[str]:
        """Labels in words, up to the end of the sequence."""
        names = [self.classes[int(label)] for label in row]
        return names[: names.index(END)] if END in names else names


def _by_channel(config: ClassificationConfig, name: str, channels: int) -> Float[Tensor, "c 1 1"]:
    values = getattr(config, name) or ((0.0,) if name == "mean" else (1.0,))
    if len(values) not in (1, channels):
        expected = f"one number, or one for each of {channels} channels"
        raise ConfigError(f"task.{name}", got=f"{len(values)} numbers", expected=expected)
    return torch.tensor(values).expand(channels)[:, None, None]


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


@contextmanager
def _judging(model: nn.Module) -> Iterator[None]:
    """In evaluation mode, with noise that is always the same and leaves that of others alone."""
    was_training, device = model.training, _device(model)
    model.eval()
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(0)
            yield
    finally:
        model.train(was_training)


def _check(config: ClassificationConfig) -> None:
    if config.dataset not in DATASETS:
        cure = did_you_mean(config.dataset, DATASETS)
        expected = f"one of {', '.join(DATASETS)}"
        raise ConfigError("task.dataset", got=repr(config.dataset), expected=expected, cure=cure)
    if config.canvas.size is not None and (config.crop is not None or config.mirror):
        got = f"canvas.size={config.canvas.size}, crop={config.crop}, mirror={config.mirror}"
        raise ConfigError("a canvas is neither cropped nor mirrored", got=got, cure="task.crop=none task.mirror=false")
    if config.standardise and (config.mean or config.std):
        got = f"standardise=true, mean={config.mean}, std={config.std}"
        raise ConfigError("a picture is normalised in one way", got=got, cure="task.standardise=false")
