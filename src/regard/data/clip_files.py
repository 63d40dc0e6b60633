"""A user's own clips: frames from a folder of pictures or from an array, and boxes and labels from a small JSON.

    clips/
      dance.npy        frames [t h w] or [t h w 3], bytes; or dance.npz, or a folder dance/ with the frames as pictures
      dance.json       {"boxes": [[12, 3, 20, 30], …], "labels": [["jumps"], …], "frame": 8, "group": "Ann"}

`boxes` are left, top, right and bottom in pixels of the frame number `frame`, or of the middle one where that is left
out. `labels` has the labels of each box, for training; `group` says what must stay in one split, such as an actor. The
boxes of a folder of frames may also be inside of it, as boxes.json.
"""

import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.base import read_json, shown
from regard.data.clips import Clips
from regard.data.images import read_image
from regard.data.parallel import DataError
from regard.data.windows import cut_windows

PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
MAX_FRAMES = 10_000  # of one clip
FORM = '{"boxes": [[left, top, right, bottom], …]} in pixels'


@dataclass(frozen=True, eq=False)
class OwnClip:
    """One clip of a user: its frames, the boxes of persons in one of them, and, for training, what each person does."""

    name: str
    frames: NDArray[np.uint8]  # [t h w 3]
    boxes: tuple[tuple[float, ...], ...]  # left, top, right, bottom in pixels
    frame: int  # in which the boxes are
    labels: tuple[tuple[str, ...], ...] | None = None  # of each box
    group: str = ""


def read_clip(source: str | os.PathLike[str] | Mapping[str, Any]) -> OwnClip:
    """A clip by its path, with its JSON beside it; or a mapping with `frames` [t h w] or [t h w 3], and `boxes`."""
    if isinstance(source, Mapping):
        missing = [name for name in ("frames", "boxes") if name not in source]
        if missing:
            raise DataError("a clip is incomplete", got=f"no {' and no '.join(missing)}", expected="frames and boxes")
        return _clip("the clip", as_frames(source["frames"], "the clip"), source)
    path = Path(source)
    if not path.exists():
        expected = "a folder of frames, or an array .npy or .npz"
        raise DataError(f"{path} does not exist", expected=expected, cure="check the path")
    frames = _folder_frames(path) if path.is_dir() else _array_frames(path)
    beside = path.parent / f"{path.stem if path.is_file() else path.name}.json"
    places = [path / "boxes.json", beside] if path.is_dir() else [beside]
    facts = next((place for place in places if place.is_file()), None)
    if facts is None:
        expected = " or ".join(str(place) for place in places)
        raise DataError(f"{path} has no boxes", got="no JSON beside it", expected=expected, cure=f"write {FORM} there")
    return _clip(str(path), frames, read_json(facts, cure=f"write {FORM}", expected=FORM))


def as_frames(value: Any, name: str) -> NDArray[np.uint8]:
    """Frames [t h w 3] of bytes, from grey or coloured ones."""
    array = np.asarray(value.detach().cpu() if isinstance(value, Tensor) else value)
    if array.ndim == 3:
        array = np.repeat(array[..., None], 3, axis=3)
    if array.ndim != 4 or array.shape[-1] != 3 or not array.size or array.dtype not in (np.uint8, np.bool_):
        got, cure = f"{array.dtype} {list(array.shape)}", "write (255 * frames).astype('uint8') if they are 0 to 1"
        raise DataError(f"{name}: frames are bytes", got=got, expected="uint8 [t h w] or [t h w 3]", cure=cure)
    if len(array) > MAX_FRAMES:
        cure = "cut out the part in which the persons act"
        raise DataError(
            f"{name} is too long", got=f"{len(array):,} frames", expected=f"at most {MAX_FRAMES:,}", cure=cure
        )
    return np.ascontiguousarray(array * np.uint8(255) if array.dtype == np.bool_ else array)


def _array_frames(path: Path) -> NDArray[np.uint8]:
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return as_frames(loaded, str(path))
        with loaded as arrays:
            name = "frames" if "frames" in arrays.files else arrays.files[0] if len(arrays.files) == 1 else None
            if name is None:
                got = f"arrays {', '.join(arrays.files)}"
                raise DataError(f"{path} has no frames", got=got, expected="an array of the name frames")
            return as_frames(arrays[name], str(path))
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, DataError):
            raise
        expected, cure = "an array .npy or .npz, or a folder of frames", "write it by numpy.save"
        raise DataError(f"{path} is no array of frames", got=str(error)[:80], expected=expected, cure=cure) from error


def _folder_frames(path: Path) -> NDArray[np.uint8]:
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in PICTURES)
    if not files:
        raise DataError(f"{path} has no frames", got="no pictures", expected=f"files such as 001{PICTURES[0]}")
    if len(files) > MAX_FRAMES:
        raise DataError(f"{path} has too many frames", got=len(files), expected=f"at most {MAX_FRAMES:,}")
    pictures = [read_image(file) for file in files]
    sizes = {picture.shape[:2] for picture in pictures}
    if len(sizes) > 1:
        got = ", ".join(f"{height} × {width}" for height, width in sorted(sizes)[:4])
        raise DataError(f"{path}: frames differ in size", got=got, expected="one size", cure="scale them to one size")
    return np.stack(pictures)


def _clip(name: str, frames: NDArray[np.uint8], facts: Mapping[str, Any]) -> OwnClip:
    """The clip with its boxes, which must lie in its frames."""
    boxes, (height, width) = facts.get("boxes"), frames.shape[1:3]
    try:
        numbers = np.asarray(boxes, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.zeros(0)
    if numbers.ndim != 2 or numbers.shape[1] != 4 or not len(numbers) or not np.isfinite(numbers).all():
        raise DataError(f"{name}: boxes", got=shown(boxes), expected="[[left, top, right, bottom], …] in pixels")
    for box in numbers:
        left, top, right, bottom = box
        if not (0 <= left < right <= width and 0 <= top < bottom <= height):
            expected = f"left < right ≤ {width} and top < bottom ≤ {height}"
            raise DataError(f"{name}: a box is not in the frame", got=shown(box.tolist()), expected=expected,
                            cure="give pixels of the frame: left, top, right, bottom")  # fmt: skip
    frame = facts.get("frame", len(frames) // 2)
    if isinstance(frame, bool) or not isinstance(frame, int) or not 0 <= frame < len(frames):
        raise DataError(f"{name}: the frame of the boxes", got=shown(frame), expected=f"0 to {len(frames) - 1}")
    labels = facts.get("labels")
    if labels is not None:
        lists = [[own] if isinstance(own, str) else own for own in labels] if isinstance(labels, list) else []
        if len(lists) != len(numbers) or not all(map(_is_texts, lists)):
            expected = f'the labels of each of {len(numbers)} boxes, such as [["walks", "waves"], …]'
            raise DataError(f"{name}: labels", got=shown(labels), expected=expected)
        labels = tuple(tuple(own) for own in lists)
    return OwnClip(name, frames, tuple(map(tuple, numbers.tolist())), frame, labels, str(facts.get("group", "")))


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def read_own_clips(folder: str | os.PathLike[str], *, height: int, width: int, channels: int = 3) -> Clips:
    """All labelled clips of a folder, scaled to height × width; the box of a person holds for all frames."""
    path = Path(folder)
    if not path.is_dir():
        raise DataError(f"{path} is no folder", expected="a folder of clips, each with its JSON", cure="check the path")
    files = sorted(file for file in path.iterdir() if file.is_dir() or file.suffix.lower() in (".npy", ".npz"))
    clips = [read_clip(file) for file in files]
    if len(clips) < 3:
        expected = "3 or more: one to train on, one for validation, one for the test"
        raise DataError(f"{path} has too few clips", got=len(clips), expected=expected)
    for clip in clips:
        if clip.labels is None:
            cure = 'write "labels": [["walks"], …], one list for each box, into its JSON'
            raise DataError(f"{clip.name} has no labels", expected="labels of each box", cure=cure)
    classes = sorted({label for clip in clips for own in clip.labels or () for label in own})
    if len(classes) < 2:
        raise DataError(f"{path} has too few labels", got=shown(classes), expected="2 or more different ones")
    persons = max(len(clip.boxes) for clip in clips)
    labels = torch.zeros(len(clips), persons, len(classes))
    counted = torch.zeros(len(clips), persons, dtype=torch.bool)
    boxes = []
    for number, clip in enumerate(clips):
        shares = box_shares(clip)
        own = torch.zeros(persons, 4)
        own[: len(shares)] = shares
        boxes.append(own.expand(len(clip.frames), -1, -1))
        counted[number, : len(shares)] = True
        for person, texts in enumerate(clip.labels or ()):
            labels[number, person, [classes.index(text) for text in texts]] = 1.0
    frames = torch.cat([scaled_frames(clip.frames, height, width, channels) for clip in clips])
    names = tuple(Path(clip.name).name for clip in clips)
    groups = tuple(clip.group or name for clip, name in zip(clips, names, strict=True))
    lengths = tuple(len(clip.frames) for clip in clips)
    return Clips(frames, lengths, torch.cat(boxes), labels, counted, tuple(classes), names, groups)


def split_by_group(clips: Clips, *, seed: int = 0) -> dict[str, Clips]:
    """Train, valid and test: a tenth of the groups for each of the last two, at least one. No group is in two."""
    groups = sorted(set(clips.groups))
    if len(groups) < 3:
        expected, cure = "3 or more groups of clips", "leave group out of the JSON: then each clip is one"
        raise DataError("clips cannot be split", got=f"{len(groups)} groups", expected=expected, cure=cure)
    order = [groups[place] for place in np.random.default_rng(seed).permutation(len(groups))]
    share = max(1, len(order) // 10)
    own = {"train": order[2 * share :], "valid": order[:share], "test": order[share : 2 * share]}
    return {
        split: clips.take([number for number, group in enumerate(clips.groups) if group in chosen])
        for split, chosen in own.items()
    }


def box_shares(clip: OwnClip) -> Float[Tensor, "r 4"]:
    """The boxes of a clip as shares of its width and height."""
    height, width = clip.frames.shape[1:3]
    return torch.tensor(clip.boxes, dtype=torch.float32) / torch.tensor([width, height, width, height])


def scaled_frames(frames: NDArray[np.uint8], height: int, width: int, channels: int) -> Tensor:
    """Bytes [t c height width]: scaled, and grey where a model knows one channel."""
    pixels = torch.from_numpy(frames).permute(0, 3, 1, 2).float()  # [t 3 h w]
    if channels == 1:
        pixels = (pixels * torch.tensor([0.2126, 0.7152, 0.0722])[:, None, None]).sum(1, keepdim=True)
    whole = torch.tensor([[0.0, 0.0, frames.shape[2], frames.shape[1]]])
    return cut_windows(pixels[None], whole, height, width)[0].round().clamp(0, 255).byte()


def around(clip: OwnClip, frames: int, stride: float) -> Sequence[int]:
    """The numbers of the frames that a model sees: around that of the boxes, the first or last again where they end."""
    steps = np.rint((np.arange(frames) - frames // 2) * stride).astype(int)
    numbers: list[int] = np.clip(clip.frame + steps, 0, len(clip.frames) - 1).tolist()
    return numbers
