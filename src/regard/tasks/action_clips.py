"""The clips of a task: where they come from, what a run folder keeps of them, and how they are cut on the device."""

import json
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from regard.base import ConfigError, RegardError, check_settings, fill, followed, read_json, write_atomically
from regard.base.ranges import BatchSize, Count, Pixels, Range, Share, UserPath
from regard.data import Clips, Scenes, Views, cut_clips, draw_rows, even_views, join_clips, random_views
from regard.data.clip_files import read_own_clips, split_by_group
from regard.data.scenes import CHANCES, ActedClips, act_scenes
from regard.datasets import DATASETS, choose, of_kind
from regard.tasks.inputs import checked_split

ACTIONS = "actions.json"  # in a run folder: the labels, and how many channels a pixel has
OWN = "own"  # the name of the data set that is a user's files
AtLeastOne = Annotated[float, Range(least=1, most=4)]


@dataclass(frozen=True)
class ActionRecognitionConfig:
    """Which clips, how large, how they are varied in training, and in which batches."""

    dataset: str = "two_actors"  # of DATASETS
    several: bool = True  # whether a person may have several labels at once (sigmoids), or has just one (softmax)
    frames: Annotated[int, Range(least=2, most=512)] = 16  # of a clip
    height: Pixels = 32  # pixels of a clip
    width: Pixels = 64  # pixels of a clip
    batch_size: BatchSize = 64  # clips in a batch; with leave_one_out, of each network
    held_out: Count = 2048  # generated scenes for validation, and for the test
    box_only: bool = False  # whether pixels outside of a person's box are blank: a control, which context defeats
    leave_one_out: bool = False  # a network for each group of clips, such as a person, which it does not see
    validate_inside: bool = False  # leave_one_out: each network leaves out the next group too, and is validated on it
    window: Annotated[float, Range(above=0, most=10)] | None = None  # height of the view around a person, in frames
    stride: Annotated[float, Range(above=0, most=100)] = 1.0  # frames of a sequence from frame to frame of a clip
    speed: AtLeastOne = 1.0  # training: clips run up to so many times as fast or as slow
    zoom: AtLeastOne = 1.0  # training: views are up to so many times as large or as small
    shift: Annotated[float, Range(least=0, most=1)] = 0.0  # training: views are moved by up to this share of a side
    mirror: bool = False  # training: half of the clips are mirrored
    smoothing: Share = 0.0  # of the right label, given to all labels alike
    clips_folder: UserPath | None = None  # your own clips, each with its JSON of boxes and labels

    def __post_init__(self) -> None:
        check_settings(self, "task")
        if self.validate_inside and not self.leave_one_out:
            raise ConfigError("task.validate_inside", got="no leave_one_out", cure="set task.leave_one_out=true")
        if self.leave_one_out and self.clips_folder is None and self.dataset in of_kind(DATASETS, "scenes"):
            cure = "set task.dataset=weizmann, or task.leave_one_out=false"
            raise ConfigError("task.leave_one_out", got=f"{self.dataset}, which has no groups", cure=cure)

    def describe_data(self) -> str:
        """The data in a few words, for tables."""
        return f"{self.data_set()}, one group left out" if self.leave_one_out else self.data_set()

    def data_set(self) -> str:
        """The name of the data set."""
        return OWN if self.clips_folder is not None else self.dataset


class ActionFacts(NamedTuple):
    """What a model must know of the data, and what a prediction says of it."""

    classes: tuple[str, ...]
    channels: int
    context: tuple[str, ...]  # labels that other persons decide
    groups: tuple[str, ...]  # what is left out, one network each; none: there is one network


class PooledClips(NamedTuple):
    """Sequences on a device, with the numbers that cutting needs."""

    clips: Clips
    starts: Tensor
    lengths: Tensor


class ActionClips:
    """Train, valid and test clips, read when they are first asked for, and cut on the device that has the model."""

    def __init__(self, config: ActionRecognitionConfig, facts: ActionFacts | None = None) -> None:
        self.config = config
        self._facts = facts
        self._pools: dict[tuple[str, torch.device], PooledClips] = {}
        self._tables: dict[tuple[int, torch.device], Tensor] = {}

    @cached_property
    def splits(self) -> dict[str, Clips] | dict[str, Scenes]:
        """Train, valid and test clips by name; with leave_one_out each of them has all clips."""
        config = self.config
        if config.clips_folder is not None:
            folder = followed(config.clips_folder, cure="name it again by --source")
            own = read_own_clips(folder, height=config.height, width=config.width)
            return dict.fromkeys(("train", "valid", "test"), own) if config.leave_one_out else split_by_group(own)
        if config.dataset in of_kind(DATASETS, "scenes"):
            scenes: dict[str, Scenes] = DATASETS[config.dataset].read(config.held_out)
            return scenes
        besides = tuple(of_kind(DATASETS, "scenes"))
        read = choose(DATASETS, "clips", config.dataset, setting="task.dataset", besides=besides).read
        splits: dict[str, Clips] = read()
        return dict.fromkeys(splits, join_clips(list(splits.values()))) if config.leave_one_out else splits

    @property
    def facts(self) -> ActionFacts:
        """The labels, the channels, and who is left out."""
        if self._facts is None:
            train = self.splits["train"]
            groups = tuple(sorted(set(train.groups))) if self.config.leave_one_out and isinstance(train, Clips) else ()
            if self.config.leave_one_out and len(groups) < 2 + self.config.validate_inside:
                raise ConfigError("task.leave_one_out", got=f"{len(groups)} groups", expected="3 or more")
            context = train.context if isinstance(train, Scenes) else ()
            self._facts = ActionFacts(train.classes, train.channels, context, groups)
        return self._facts

    @property
    def members(self) -> int:
        """How many networks there are, side by side."""
        return max(1, len(self.facts.groups))

    # ── recipes and run folders ─────────────────────────────────────────────────────────────────────────────────────

    @classmethod
    def from_files(cls, config: ActionRecognitionConfig, source: str, target: str | None) -> ActionRecognitionConfig:
        """`regard train video_action/smoke --source FOLDER`."""
        if target is not None:
            raise ConfigError("--target", got=target, expected="nothing: labels are in the JSON beside each clip")
        return replace(config, clips_folder=source)

    def complete(self, model_config: Any) -> Any:
        """A model must know how many channels and labels there are, and how many networks are wanted."""
        facts = self.facts
        return fill(model_config, {"channels": facts.channels, "classes": len(facts.classes), "members": self.members})

    def save(self, folder: Path) -> None:
        """Writes labels and channels, so that a run is loaded without its data."""
        content = {name: list(value) if isinstance(value, tuple) else value
                   for name, value in self.facts._asdict().items()}  # fmt: skip
        write_atomically(folder / ACTIONS, json.dumps(content, indent=1, ensure_ascii=False))

    @classmethod
    def load(cls, folder: Path, config: ActionRecognitionConfig) -> Any:
        """The task of a run folder; its clips are read only when asked for."""
        path, cure = folder / ACTIONS, "restore it, or train anew"
        if not path.exists():
            return cls(config)
        content = read_json(path, cure=cure, expected="classes, channels, context and groups")
        texts = [content.get(name) for name in ("classes", "context", "groups")]
        channels = content.get("channels")
        if channels not in (1, 3) or not all(
            isinstance(names, list) and all(isinstance(name, str) for name in names) for names in texts
        ):
            raise RegardError(f"{path} cannot be read", expected="names of labels, and 1 or 3 channels", cure=cure)
        classes, context, groups = (tuple(names) for names in texts if names is not None)
        return cls(config, ActionFacts(classes, channels, context, groups))

    # ── clips on the device ─────────────────────────────────────────────────────────────────────────────────────────

    def draw(self, count: int, device: torch.device, member: int) -> ActedClips:
        """New training clips, drawn with the noise of the step."""
        config, train = self.config, self.splits["train"]
        if isinstance(train, Scenes):
            chances = torch.rand(count, CHANCES, device=device)
            return self.shown(act_scenes(chances, config.frames, config.height, config.width))
        rows = draw_rows(self._table(member, device), count)
        varied = random_views(rows, stride=config.stride, speed=config.speed, zoom=config.zoom, shift=config.shift,
                              mirror=config.mirror)  # fmt: skip
        return self.shown(self._cut("train", varied))

    def held_out(self, split: str, numbers: Int[Tensor, " n"], views: int) -> ActedClips:
        """`views` clips of each of these sequences; of scenes there is one."""
        config, clips = self.config, self.splits[checked_split(split, self.splits)]
        if isinstance(clips, Scenes):
            chances = clips.chances[numbers.cpu()].to(numbers.device)
            return self.shown(act_scenes(chances, config.frames, config.height, config.width))
        return self.shown(self._cut(split, even_views(numbers, views, stride=config.stride, mirror=config.mirror)))

    def shown(self, acted: ActedClips) -> ActedClips:
        """What a model gets to see: all, or with box_only one clip for each person, blank outside of its box."""
        if not self.config.box_only:
            return acted
        persons = acted.boxes.shape[1]
        height, width = acted.clips.shape[-2:]
        rows, columns = ((torch.arange(n, device=acted.clips.device) + 0.5) / n for n in (height, width))
        left, top, right, bottom = acted.boxes.flatten(0, 1)[:, :, None].unbind(1)  # [b·r 1] each
        inside = ((rows >= top) & (rows <= bottom))[:, :, None] & ((columns >= left) & (columns <= right))[:, None]
        clips = acted.clips.repeat_interleave(persons, 0) * inside[:, None, None]
        each = (tensor.flatten(0, 1).unsqueeze(1) for tensor in (acted.boxes, acted.labels, acted.counted))
        return ActedClips(clips, *each)

    def rows_of(self, split: str, member: int) -> list[int]:
        """The numbers of the sequences of a split that a network is judged by."""
        clips = self.splits[checked_split(split, self.splits)]
        if not self.config.leave_one_out or isinstance(clips, Scenes):
            return list(range(clips.size))
        out, inner = self._left_out(member)
        wanted = {"test": {out}, "valid": {inner} if self.config.validate_inside else set(self.facts.groups) - {out},
                  "train": set(self.facts.groups) - {out, inner if self.config.validate_inside else out}}  # fmt: skip
        return [number for number, group in enumerate(clips.groups) if group in wanted[split]]

    def _left_out(self, member: int) -> tuple[str, str]:
        """The group that a network is tested on, and the next one, on which settings may be chosen."""
        groups = self.facts.groups
        return groups[member], groups[(member + 1) % len(groups)]

    def _table(self, member: int, device: torch.device) -> Tensor:
        """The numbers of the sequences that a network learns from, on the device."""
        if (member, device) not in self._tables:
            self._tables[member, device] = torch.tensor(self.rows_of("train", member), device=device)
        return self._tables[member, device]

    def _cut(self, split: str, views: Views) -> ActedClips:
        key = ("train" if self.config.leave_one_out else split, views.rows.device)
        if key not in self._pools:
            clips = self.splits[split]
            assert isinstance(clips, Clips)
            self._pools[key] = pooled(clips, views.rows.device)
        return self.cut_from(self._pools[key], views)

    def cut_from(self, pool: PooledClips, views: Views) -> ActedClips:
        """Clips of the size of the settings, out of sequences that are on the device."""
        config = self.config
        return cut_clips(
            pool.clips, pool.starts, pool.lengths, views, frames=config.frames, height=config.height,
            width=config.width, window=config.window,
        )  # fmt: skip


def pooled(clips: Clips, device: torch.device) -> PooledClips:
    """Sequences on a device, with the numbers that cutting needs."""
    starts, lengths = (torch.tensor(numbers, device=device) for numbers in (clips.starts, clips.lengths))
    return PooledClips(clips.to(device), starts, lengths)
