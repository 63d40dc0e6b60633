"""Pictures with labels, one split in memory, and batches that are rows of it: the pictures stay on the device.

>>> pictures = Pictures(torch.zeros(3, 1, 2, 2, dtype=torch.uint8), torch.tensor([1, 0, 1]), ("no", "yes"))
>>> pictures.size, pictures.channels, pictures.name(pictures.labels[0])
(3, 1, 'yes')
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from regard.base import RESTORE, ConfigError, RegardError, ShapeError, read_json, write_atomically
from regard.data.batches import Batches, Numbers
from regard.data.parallel import DataError

IGNORE = -100  # in place of a label: there is none here
END = "<end>"  # the class that ends a sequence of labels


@dataclass(frozen=True, eq=False)
class Pictures:
    """One split: pictures, one label or s labels for each (padded by `IGNORE`), and the names of the classes."""

    images: Tensor  # uint8 [n c h w]
    labels: Tensor  # int64 [n] or [n s]
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.images.dtype != torch.uint8 or self.images.ndim != 4:
            got = f"{self.images.dtype} {list(self.images.shape)}"
            raise ShapeError("Pictures images", got=got, expected="uint8 [n c h w]")
        if self.labels.ndim not in (1, 2) or len(self.labels) != len(self.images):
            expected = f"[{len(self.images)}] or [{len(self.images)} s]"
            raise ShapeError("Pictures labels", got=list(self.labels.shape), expected=expected)

    @property
    def size(self) -> int:
        """How many pictures there are."""
        return len(self.images)

    @property
    def channels(self) -> int:
        """1 for grey, 3 for colours."""
        return self.images.shape[1]

    def to(self, device: str | torch.device) -> "Pictures":
        """The same on another device."""
        return replace(self, images=self.images.to(device), labels=self.labels.to(device))

    def take(self, rows: slice | Tensor) -> "Pictures":
        """Some of them."""
        return replace(self, images=self.images[rows], labels=self.labels[rows])

    def name(self, label: int | Tensor) -> str:
        """What a label is called; nothing where there is none."""
        number = int(label)
        return "" if number == IGNORE else self.classes[number]


class Facts(NamedTuple):
    """What a model must know of the data: kept in a run folder, so that it needs no data to recognise pictures."""

    classes: tuple[str, ...]  # what a label may say
    labels: int  # how many each picture has, at most
    channels: int
    image_size: int  # the height and width that a model sees

    def save(self, path: Path) -> None:
        """Writes the facts into a file of a run folder."""
        write_atomically(path, json.dumps(self._asdict()))

    @classmethod
    def load(cls, path: Path) -> "Facts | None":
        """Reads the facts from a file of a run folder; without that file it gives None, and the data must tell them."""
        try:
            stored = read_json(path, cure=RESTORE)
            return cls(tuple(stored["classes"]), *(int(stored[name]) for name in cls._fields[1:]))
        except FileNotFoundError:
            return None
        except RegardError:
            raise
        except (OSError, ValueError, TypeError, KeyError, OverflowError) as error:
            raise RegardError(f"{path} cannot be read", got=str(error), cure=RESTORE) from error


@dataclass(frozen=True, eq=False)
class Rows:
    """A batch: the numbers of its rows, which are pictures, or whatever else a split consists of."""

    rows: Int[Tensor, " b"]

    @property
    def count(self) -> int:
        """Gives how many rows the batch has: the unit of the loss."""
        return len(self.rows)

    def tensors(self) -> dict[str, Tensor]:
        """The rows."""
        return {"rows": self.rows}

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> "Rows":
        """The same batch, read from another place."""
        return Rows(tensors["rows"])


class RowBatches(Batches[Rows]):
    """Numbers of `size` rows without end, shuffled anew for each epoch; every batch is full, so all have one shape.

    A batch may take the last rows of one epoch and the first ones of the next; it belongs to the epoch in which it
    begins. These are global batches: each of `world` ranks gets every world-th row. `state_dict` is the exact position.

    >>> batches = RowBatches(5, batch_size=4, seed=1)
    >>> first, state, second = next(batches), batches.state_dict(), next(batches)
    >>> sorted(torch.cat([first.rows, second.rows])[:5].tolist())
    [0, 1, 2, 3, 4]
    >>> batches.load_state_dict(state)
    >>> next(batches).rows.equal(second.rows)
    True
    """

    cure = "resume with the data and the batch_size that the run began with"

    def __init__(self, size: int, *, batch_size: int, seed: int = 0, rank: int = 0, world: int = 1) -> None:
        super().__init__(seed=seed, rank=rank, world=world)
        if size < 1:
            raise DataError("no rows to make batches of", got=size, expected="1 or more")
        if batch_size < world:
            cure = "raise batch_size, which counts the rows of all ranks together"
            raise ConfigError("RowBatches batch_size", got=batch_size, expected=f"at least {max(world, 1)}", cure=cure)
        self.size, self.batch_size = size, batch_size

    @property
    def facts(self) -> dict[str, Any]:
        """How many rows there are, and how many of them a batch has."""
        return {"size": self.size, "batch_size": self.batch_size}

    def upgraded(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """The first states had no epoch: their position counts the batches of all epochs."""
        if "epoch" in state or "position" not in state:
            return state
        position = int(state["position"])
        epoch = max(position - 1, 0) * self.batch_size // self.size  # in which the last batch began
        return {**state, "epoch": epoch, "position": position - self._first(epoch)}

    def cut(self, epoch: int) -> list[Numbers]:
        """The batches that begin in this epoch: there may be none, where a batch is larger than an epoch."""
        begin, first, end = epoch * self.size, self._first(epoch), self._first(epoch + 1)
        epochs = range(epoch, -(-end * self.batch_size // self.size))  # all that the last batch reaches into
        orders = [self.random(number).permutation(self.size) for number in epochs]
        rows = np.concatenate([np.empty(0, np.int64), *orders])
        return list(rows[first * self.batch_size - begin : end * self.batch_size - begin].reshape(-1, self.batch_size))

    def collate(self, rows: Numbers) -> Rows:
        """These rows, as a tensor."""
        return Rows(torch.from_numpy(rows.copy()))

    def _first(self, epoch: int) -> int:
        """The number, over all epochs, of the first batch that begins in this one."""
        return -(-epoch * self.size // self.batch_size)


def random_crops(
    images: UInt8[Tensor, "b c h w"], side: int, *, pad: int = 0, mirror: bool = False
) -> UInt8[Tensor, "b c s s"]:
    """A random square of each picture, after `pad` rows and columns of zeros all around; mirrored with one half.

    Nothing waits for the device, and a captured graph may hold it.
    """
    batch, channels, height, width = images.shape
    check_crop(side, height + 2 * pad, width + 2 * pad)
    chance = torch.rand(batch, 3, 1, device=images.device)
    place = torch.arange(side, device=images.device)
    row = (chance[:, 0] * (height + 2 * pad - side + 1)).long() + place  # [b s]
    column = (chance[:, 1] * (width + 2 * pad - side + 1)).long()
    flipped = (chance[:, 2] < 0.5) & mirror
    column = column + torch.where(flipped, side - 1 - place, place)
    padded = F.pad(images, (pad, pad, pad, pad)).flatten(1)
    plane = torch.arange(channels, device=images.device) * ((height + 2 * pad) * (width + 2 * pad))
    where = plane[:, None, None] + (row * (width + 2 * pad))[:, None, :, None] + column[:, None, None, :]
    return padded.gather(1, where.flatten(1)).view(batch, channels, side, side)


def random_turns(
    images: UInt8[Tensor, "b c h w"], *, turn: float = 0.0, stretch: float = 0.0
) -> UInt8[Tensor, "b c h w"]:
    """Each picture turned by up to `turn` degrees, and stretched or shrunk by up to a share `stretch` in x and in y.

    What comes in at the sides is black. Nothing waits for the device, and a captured graph may hold it.
    """
    chance = torch.rand(len(images), 3, device=images.device) * 2 - 1
    angle, scale = chance[:, 0] * math.radians(turn), 1 / (1 + chance[:, 1:] * stretch)  # [b], [b 2]
    sine, cosine, zero = angle.sin(), angle.cos(), torch.zeros_like(angle)
    high, wide = images.shape[-2:]  # places of a grid go from −1 to 1 on both sides
    first = torch.stack([cosine, -sine * (high / wide), zero], 1) * scale[:, :1]
    second = torch.stack([sine * (wide / high), cosine, zero], 1) * scale[:, 1:]
    grid = F.affine_grid(torch.stack([first, second], 1), list(images.shape), align_corners=False)
    turned = F.grid_sample(images.float(), grid, padding_mode="zeros", align_corners=False)
    return turned.round_().to(torch.uint8)


def random_erasures(images: Float[Tensor, "b c h w"], side: int) -> Float[Tensor, "b c h w"]:
    """Each picture with a square of zeros somewhere, whose middle is on a pixel of it (cutout, DeVries & Taylor 2017).

    Nothing waits for the device, and a captured graph may hold it.
    """
    high, wide = images.shape[-2:]
    chance = torch.rand(2, len(images), 1, device=images.device)
    gone = []
    for number, length in enumerate((high, wide)):
        first = (chance[number] * length).long() - side // 2
        place = torch.arange(length, device=images.device)
        gone.append((place >= first) & (place < first + side))  # [b length]
    return images.masked_fill((gone[0].unsqueeze(2) & gone[1].unsqueeze(1)).unsqueeze(1), 0.0)


def centre_crops(images: UInt8[Tensor, "b c h w"], side: int) -> UInt8[Tensor, "b c s s"]:
    """The square in the middle of each picture."""
    height, width = images.shape[-2:]
    check_crop(side, height, width)
    top, left = (height - side) // 2, (width - side) // 2
    return images[..., top : top + side, left : left + side]


def check_crop(side: int, height: int, width: int) -> None:
    """A crop must lie inside its picture."""
    if not 1 <= side <= min(height, width):
        got = f"{side} of {height}×{width}"
        raise ConfigError("the side of a crop", got=got, expected=f"1 to {min(height, width)}", cure="pad more")
