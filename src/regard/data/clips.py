"""Filmed clips: sequences of frames with a box for each person in every frame, and clips that are cut out of them.

All frames of a split lie on the device, end to end. A clip is cut where they are: which frames, which window of them,
mirrored or not. Nothing waits for the device, so a captured graph may hold it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.base import ShapeError
from regard.data.scenes import ActedClips
from regard.data.windows import cut_windows


@dataclass(frozen=True, eq=False)
class Clips:
    """A split of n sequences, with up to r persons each. Labels of a person hold for the whole sequence."""

    frames: Tensor  # uint8 [f c h w], sequence after sequence
    lengths: tuple[int, ...]  # frames of each sequence
    boxes: Tensor  # [f r 4]: left, top, right, bottom in each frame, as shares of width and height
    labels: Tensor  # [n r c]: 1 where a label is true
    counted: Tensor  # [n r]: False where there is no person
    classes: tuple[str, ...]
    names: tuple[str, ...]  # of the sequences
    groups: tuple[str, ...]  # what belongs together and is left out together, such as all clips of an actor

    def __post_init__(self) -> None:
        number, total = len(self.lengths), sum(self.lengths)
        if self.frames.dtype != torch.uint8 or self.frames.ndim != 4 or len(self.frames) != total:
            got = f"{self.frames.dtype} {list(self.frames.shape)}"
            raise ShapeError("frames of clips", got=got, expected=f"uint8 [{total} c h w]")
        persons = self.boxes.shape[1] if self.boxes.ndim == 3 else 0
        shapes = {"boxes": (total, persons, 4), "labels": (number, persons, len(self.classes)),
                  "counted": (number, persons)}  # fmt: skip
        for name, shape in shapes.items():
            if tuple(getattr(self, name).shape) != shape:
                raise ShapeError(f"{name} of clips", got=list(getattr(self, name).shape), expected=list(shape))
        for name in ("names", "groups"):
            if len(getattr(self, name)) != number:
                raise ShapeError(f"{name} of clips", got=len(getattr(self, name)), expected=number)

    @property
    def size(self) -> int:
        """How many sequences there are."""
        return len(self.lengths)

    @property
    def channels(self) -> int:
        """1 for grey, 3 for colours."""
        return self.frames.shape[1]

    @property
    def starts(self) -> list[int]:
        """The number of the first frame of each sequence."""
        return [sum(self.lengths[:number]) for number in range(self.size)]

    def to(self, device: str | torch.device) -> "Clips":
        """The same on another device."""
        moved = {name: getattr(self, name).to(device) for name in ("frames", "boxes", "labels", "counted")}
        return replace(self, **moved)

    def take(self, numbers: Sequence[int]) -> "Clips":
        """Gives the sequences of these numbers, in this order, with their frames, boxes and labels."""
        starts = self.starts
        kept = [torch.arange(starts[number], starts[number] + self.lengths[number]) for number in numbers]
        frames = torch.cat(kept) if kept else torch.zeros(0, dtype=torch.long)
        rows = torch.tensor(list(numbers), dtype=torch.long)
        own = {
            name: tuple(getattr(self, name)[number] for number in numbers) for name in ("lengths", "names", "groups")
        }
        return replace(self, frames=self.frames[frames], boxes=self.boxes[frames], labels=self.labels[rows],
                       counted=self.counted[rows], **own)  # fmt: skip


def join_clips(splits: Sequence[Clips]) -> Clips:
    """All sequences of several splits of one data set, in their order."""
    tensors: dict[str, Any] = {
        name: torch.cat([getattr(split, name) for split in splits]) for name in ("frames", "boxes", "labels", "counted")
    }
    texts: dict[str, Any] = {
        name: tuple(value for split in splits for value in getattr(split, name))
        for name in ("lengths", "names", "groups")
    }
    return replace(splits[0], **tensors, **texts)


class Views(NamedTuple):
    """Which part of which sequences b clips show. All are tensors [b] on the device of the frames."""

    rows: Tensor  # the numbers of the sequences
    begin: Tensor  # 0: the clip begins with the sequence; 1: it ends with it
    stride: Tensor  # frames of the sequence from frame to frame of the clip; less where the sequence is too short
    zoom: Tensor  # the size of the window, 1 as it is
    right: Tensor  # how far the window is moved, as a share of its side
    down: Tensor
    mirrored: Tensor  # True: left is right


def random_views(
    rows: Int[Tensor, " b"],
    *,
    stride: float,
    speed: float,
    zoom: float,
    shift: float,
    mirror: bool,
    generator: torch.Generator | None = None,
) -> Views:
    """Views at random: any beginning, the stride up to `speed` times as long or as short, and so on for the others."""
    chance = torch.rand(6, len(rows), device=rows.device, generator=generator)
    around = 2 * chance - 1
    return Views(
        rows, chance[0], stride * speed ** around[1], zoom ** around[2], shift * around[3], shift * around[4],
        (chance[5] < 0.5) & mirror,
    )  # fmt: skip


def even_views(rows: Int[Tensor, " n"], count: int, *, stride: float, mirror: bool) -> Views:
    """`count` views of each sequence at even distances, sequence by sequence; with `mirror` half of them mirrored."""
    device, places = rows.device, torch.arange(count, device=rows.device)
    begin = (places / max(count - 1, 1) if count > 1 else torch.full((1,), 0.5, device=device)).repeat(len(rows))
    still = torch.zeros(len(begin), device=device)
    mirrored = (places % 2 == 1).repeat(len(rows)) & mirror
    repeated = rows.repeat_interleave(count)
    return Views(repeated, begin, still + stride, still + 1, still, still, mirrored)


def cut_clips(
    pool: Clips,
    starts: Int[Tensor, " n"],
    lengths: Int[Tensor, " n"],
    views: Views,
    *,
    frames: int,
    height: int,
    width: int,
    window: float | None,
) -> ActedClips:
    """The clips of these views, `frames` × `height` × `width`, each with its boxes in the middle frame.

    `window` is the height of the window as a share of that of a frame; it lies around the first person in the middle
    frame of the clip, stays there, and has the proportions of the clip. None: the whole frame. `starts` and `lengths`
    are those of the pool, on its device.
    """
    last = (lengths[views.rows] - 1).float()
    stride = torch.minimum(views.stride, last / max(frames - 1, 1))
    first = views.begin * (last - stride * (frames - 1))
    steps = torch.arange(frames, device=first.device)
    numbers = starts[views.rows][:, None] + (first[:, None] + stride[:, None] * steps).round().long()  # [b t]
    boxes = pool.boxes[numbers[:, frames // 2]]  # [b r 4]
    tall, wide = pool.frames.shape[-2:]
    pixels = torch.stack([side * size for side, size in zip(boxes.unbind(-1), (wide, tall) * 2, strict=True)], -1)
    shown = _windows(pixels[:, 0], views, (tall, wide), height / width, window)
    clips = cut_windows(pool.frames[numbers].float() / 255, shown, height, width).transpose(1, 2)
    counted = pool.counted[views.rows]
    return ActedClips(clips, _inside(pixels, shown), pool.labels[views.rows], counted)


def _windows(
    box: Float[Tensor, "b 4"], views: Views, size: tuple[int, int], proportion: float, window: float | None
) -> Float[Tensor, "b 4"]:
    """Left, top, right and bottom of what each clip shows, in pixels; left and right change places in mirrored ones."""
    middle_x: float | Tensor = size[1] / 2
    middle_y: float | Tensor = size[0] / 2
    if window is None:
        tall, wide = size[0] * views.zoom, size[1] * views.zoom
    else:
        middle_x, middle_y = (box[:, 0] + box[:, 2]) / 2, (box[:, 1] + box[:, 3]) / 2
        tall = window * size[0] * views.zoom
        wide = tall / proportion
    x, y = middle_x + views.right * wide, middle_y + views.down * tall
    half = torch.where(views.mirrored, -wide / 2, wide / 2)
    return torch.stack([x - half, y - tall / 2, x + half, y + tall / 2], 1)


def _inside(boxes: Float[Tensor, "b r 4"], window: Float[Tensor, "b 4"]) -> Float[Tensor, "b r 4"]:
    """Boxes as shares of their window."""
    low, side = window[:, None, :2], (window[:, 2:] - window[:, :2])[:, None]
    one, other = (boxes[..., :2] - low) / side, (boxes[..., 2:] - low) / side
    return torch.cat([torch.minimum(one, other), torch.maximum(one, other)], -1).clamp(0, 1)


def draw_rows(table: Int[Tensor, " n"], count: int, *, generator: torch.Generator | None = None) -> Int[Tensor, " b"]:
    """So many of the numbers of a table, drawn at random on its device."""
    chance = torch.rand(count, device=table.device, generator=generator)
    return table[(chance * len(table)).long().clamp(max=len(table) - 1)]


def mask_boxes(masks: Bool[Tensor, "f h w"]) -> Float[Tensor, "f 4"]:
    """The box around what is True in each mask, as shares; the whole frame where nothing is.

    >>> mask_boxes(torch.tensor([[[False, True], [False, False]]]))
    tensor([[0.5000, 0.0000, 1.0000, 0.5000]])
    """
    edges = []
    for axis in (1, 2):
        there = masks.any(axis)  # [f w], then [f h]
        size = there.shape[1]
        low = there.int().argmax(1)
        high = size - there.flip(1).int().argmax(1)
        edges.append((low / size, torch.where(there.any(1), high, size) / size))
    (left, right), (top, bottom) = edges
    return torch.stack([left, top, right, bottom], 1)
