"""Actions of persons: a clip and the boxes of its persons in, labels for each person out, and where each query looked.

A person has one label (softmax) or several (sigmoids). Boxes are those of the middle frame, and are given: persons
are not searched for. A model takes clips [b c t h w] and boxes [b r 4], and gives `logits` [b r c] and the `grid` of
its map; what attention it has, a trace finds.

With `task.leave_one_out` one training makes a network for each group of clips, such as a person, that the network
does not see; the test is the mean over all clips, each judged by the network that does not know its person.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention import Trace, trace
from regard.base import ConfigError, check_settings, to_json
from regard.base.ranges import Certainty, Count
from regard.data import Clips, RowBatches, even_views
from regard.data.clip_files import around, box_shares, read_clip, scaled_frames
from regard.data.pictures import Rows
from regard.data.scenes import ActedClips
from regard.explanation import Displayed, Video, side_by_side
from regard.nn import device_of, evaluating
from regard.tasks.action_clips import ActionClips, ActionRecognitionConfig, pooled
from regard.tasks.display import Column, Display, Figure
from regard.tasks.labels import confusion
from regard.tasks.samples import evenly, first_of_each
from regard.tasks.task import Evaluation, Example, Loss, Progress, StoredTask, TaskEntry

AT_ONCE = 128  # clips that are judged together


@dataclass(frozen=True)
class ActionSettings:
    """How persons are judged: what `--set` may change."""

    views: Count = 8  # clips of each filmed sequence, at even distances, whose log-probabilities are averaged
    threshold: Certainty = 0.5  # several labels: how likely one must be

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, eq=False)
class ActedPerson:
    """What a model takes one person for."""

    box: tuple[float, ...]  # left, top, right, bottom, in pixels of the clip as the model sees it
    labels: tuple[str, ...]
    probabilities: Mapping[str, float]  # of all labels


@dataclass(frozen=True, eq=False)
class ActedScene(Displayed):
    """What a model takes the persons of a clip for."""

    source: str
    text: str
    persons: tuple[ActedPerson, ...]
    acted: ActedClips  # what the model saw
    member: int | None = None  # the network that judged it; None: all together
    explanations: tuple[Video, ...] = ()

    @property
    def described(self) -> str:
        """The labels of each person, and how sure the model is."""
        said = (
            ", ".join(f"{label} ({100 * person.probabilities[label]:.1f} %)" for label in person.labels) or "nothing"
            for person in self.persons
        )
        if len(self.persons) == 1:
            return next(said)
        return "; ".join(f"person {number}: {labels}" for number, labels in enumerate(said, 1))


class ActionRecognition(ActionClips, StoredTask):
    """The task: `batches`, `loss` and `evaluate` for the trainer, `predict` for everybody else."""

    display = Display(
        figures=(
            Figure("accuracy", "accuracy, %", 1, better="higher"),
            Figure("context", "labels of context, accuracy in %", 1, better="higher"),
            Figure("own", "labels of the person alone, accuracy in %", 1, better="higher"),
            Figure("mean_precision", "mean average precision, %", 1, better="higher"),
            Figure("clip_accuracy", "accuracy of single clips, %", 1, better="higher"),
            Figure("loss", "loss (nats a label)", 3, better="lower"),
        ),
        counts="accuracy",
        unit="clips",
        things="clips",
        examples="Clips",
        overview=(Column("ours, accuracy in %", ("accuracy",)), Column("context, %", ("context",))),
        table=(Column("accuracy, %", ("accuracy",)), Column("context labels, %", ("context",))),
        more=(Column("own labels, %", ("own",)), Column("mean average precision, %", ("mean_precision",)),
              Column("loss", ("loss",), 3)),
        signatures={"accuracy": "Accuracy"},
        note="Accuracy is the share of the labels that are right; where a person has one label, of the persons. "
        "Labels of context are those that another person decides: guessing gives 50 %.",
    )  # fmt: skip
    settings_type = ActionSettings

    # ── training ────────────────────────────────────────────────────────────────────────────────────────────────────

    def batches(self, *, seed: int, rank: int = 0, world: int = 1) -> RowBatches:
        """Numbers of clips, without end. An epoch is one batch, and each number stands for a new clip."""
        size = self.config.batch_size * self.members
        return RowBatches(size, batch_size=size, seed=seed, rank=rank, world=world)

    def loss(self, model: Callable[..., Any], batch: Rows) -> Loss:
        """Cross entropy in nats a label, summed over new clips; each network has clips of its own."""
        members, device = self.members, batch.rows.device
        count = -(-len(batch.rows) // members)
        losses, wrong = [], []
        for member in range(members):
            acted = self.draw(count, device, member)
            options = {"member": member} if members > 1 else {}
            logits = model(acted.clips, acted.boxes, **options).logits.float()
            losses.append(count * self.cross_entropy(logits, acted))
            wrong.append(count * (1 - _mean(self.right(logits, acted.labels), acted.counted)))
        scale = len(batch.rows) / (count * members)
        return Loss(scale * torch.stack(losses).sum(), {"error": 100 * scale * torch.stack(wrong).sum()})

    def cross_entropy(self, logits: Float[Tensor, "b r c"], acted: ActedClips) -> Float[Tensor, ""]:
        """Nats a label, the mean over all persons; of several labels the mean over those too."""
        smoothing = self.config.smoothing if torch.is_grad_enabled() else 0.0
        if self.config.several:
            targets = acted.labels * (1 - smoothing) + smoothing / 2
            nats = F.binary_cross_entropy_with_logits(logits, targets, reduction="none").mean(-1)
        else:
            targets = acted.labels * (1 - smoothing) + smoothing / acted.labels.shape[-1]
            nats = -(targets * logits.log_softmax(-1)).sum(-1)
        return (nats * acted.counted).sum() / acted.counted.sum().clamp(min=1)

    def right(self, logits: Float[Tensor, "b r c"], labels: Float[Tensor, "b r c"]) -> Float[Tensor, "b r s"]:
        """1 where a label is right: for each of several labels, or for the one of a person (s = 1)."""
        if self.config.several:
            return ((logits > 0) == (labels > 0.5)).float()
        return (logits.argmax(-1) == labels.argmax(-1)).float().unsqueeze(-1)

    # ── evaluation ──────────────────────────────────────────────────────────────────────────────────────────────────

    @torch.no_grad()
    def evaluate(
        self,
        model: nn.Module,
        split: str,
        settings: ActionSettings | None = None,
        *,
        full: bool = False,
        progress: Progress | None = None,
    ) -> Evaluation:
        """Accuracy in percent over all persons of a split, and the loss; each group is judged by its own network."""
        settings, start = settings or ActionSettings(), time.perf_counter()
        judged = [self._judged(model, split, settings, member, progress) for member in range(self.members)]
        logits, labels, counted, singles = (torch.cat(each) for each in zip(*judged, strict=True))
        acted = ActedClips(logits, logits, labels, counted)
        right = self.right(logits, labels)
        figures = {"loss": self.cross_entropy(logits, acted).item(), "accuracy": 100 * _mean(right, counted).item()}
        by_label: dict[str, float] = {}
        if self.config.several:
            shares = 100 * right[counted].mean(0)
            by_label = dict(zip(self.facts.classes, shares.tolist(), strict=True))
            figures["mean_precision"] = 100 * mean_precision(logits[counted], labels[counted])
            for name, own in (("context", False), ("own", True)):
                chosen = [share for label, share in by_label.items() if (label not in self.facts.context) is own]
                if self.facts.context and chosen:
                    figures[name] = sum(chosen) / len(chosen)
        elif isinstance(self.splits[split], Clips):
            figures["clip_accuracy"] = 100 * singles.mean().item()
        details: dict[str, Any] = {}
        if full:
            number = len(logits)
            things = f"{int(counted.sum()):,} persons of {number:,} clips"
            details = {
                "split": split, "count": number, "seconds": time.perf_counter() - start, "settings": to_json(settings),
                "signatures": {"accuracy": f"share in % of the labels of {things} that are right"},
                "outputs": [self.described(row, there, settings.threshold)
                            for row, there in zip(logits, counted, strict=True)],
                **({"by_label": by_label} if by_label else {}),
            }  # fmt: skip
            if not self.config.several:
                table = confusion(logits[counted].unsqueeze(1), labels[counted].argmax(-1, keepdim=True))
                details |= {"confusion": table, "classes": list(self.facts.classes)}
        return Evaluation(figures, best="accuracy", details=details)

    def _judged(
        self, model: nn.Module, split: str, settings: ActionSettings, member: int, progress: Progress | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Logits, labels and presence of the persons of a network's clips, views averaged, and hits of single views."""
        device, numbers = device_of(model), torch.tensor(self.rows_of(split, member), dtype=torch.long)
        views = settings.views if isinstance(self.splits[split], Clips) else 1
        options = {"member": member} if self.members > 1 else {}
        chunks: list[tuple[Tensor, ...]] = []
        with evaluating(model):
            for rows in torch.split(numbers, max(1, AT_ONCE // views)):
                acted = self.held_out(split, rows.to(device), views)
                logits = model(acted.clips, acted.boxes, **options).logits.float()
                hits = self.right(logits, acted.labels)[acted.counted]
                votes = (logits if self.config.several else logits.log_softmax(-1)).unflatten(0, (-1, views)).mean(1)
                labels, counted = acted.labels[::views], acted.counted[::views]
                chunks.append(tuple(each.cpu() for each in (votes, labels, counted, hits)))
                if progress is not None:
                    progress("clips", sum(len(chunk[0]) for chunk in chunks), len(numbers))
        joined = [torch.cat(each) for each in zip(*chunks, strict=True)]
        return joined[0], joined[1], joined[2], joined[3]

    def described(self, logits: Float[Tensor, "r c"], counted: Bool[Tensor, " r"], threshold: float) -> str:
        """The labels of the persons of a clip, in words."""
        return "; ".join(", ".join(self.labels_of(row, threshold)) or "nothing" for row in logits[counted])

    def labels_of(self, logits: Float[Tensor, " c"], threshold: float) -> tuple[str, ...]:
        """The labels of one person."""
        if not self.config.several:
            return (self.facts.classes[int(logits.argmax())],)
        likely = torch.sigmoid(logits) >= threshold
        return tuple(label for label, there in zip(self.facts.classes, likely.tolist(), strict=True) if there)

    # ── predictions ─────────────────────────────────────────────────────────────────────────────────────────────────

    def is_single(self, inputs: Any) -> bool:
        """A path, or a mapping with frames and boxes, is one clip; a list has several."""
        return not isinstance(inputs, list | tuple)

    def predict(
        self, model: nn.Module, inputs: Sequence[Any], settings: ActionSettings | None = None
    ) -> list[list[ActedScene]]:
        """The labels of all persons of each clip: a folder of frames or an array, with a JSON of boxes beside it."""
        settings = settings or ActionSettings()
        scenes = []
        for number, source in enumerate(inputs, 1):
            name = f"clip {number}" if isinstance(source, Mapping) else str(source)
            scenes.append([self.judge(model, self.own_clip(source), name, settings)])
        return scenes

    def own_clip(self, source: Any) -> ActedClips:
        """A clip of the user as a model sees it: the frames around that of the boxes, scaled, and its boxes."""
        clip, config = read_clip(source), self.config
        frames = clip.frames[around(clip, config.frames, config.stride)]
        boxes = box_shares(clip)
        if config.window is not None and len(boxes) > 1:
            cure = "give each person in a clip of its own: one box in each JSON"
            raise ConfigError("this model looks at one person", got=f"{len(boxes)} boxes", expected="1", cure=cure)
        height, width = config.height, config.width
        if config.window is not None:  # as large as the window shows them
            height = round(config.height / config.window)
            width = round(height * frames.shape[2] / frames.shape[1])
        counted = torch.ones(1, len(boxes), dtype=torch.bool)
        labels = torch.zeros(1, len(boxes), len(self.facts.classes))
        pixels = scaled_frames(frames, height, width, self.facts.channels)
        pool = Clips(pixels, (len(frames),), boxes.expand(len(frames), -1, -1), labels, counted, self.facts.classes,
                     (clip.name,), (clip.name,))  # fmt: skip
        view = even_views(torch.tensor([0]), 1, stride=1.0, mirror=False)
        return self.shown(self.cut_from(pooled(pool, torch.device("cpu")), view))

    @torch.no_grad()
    def judge(
        self, model: nn.Module, acted: ActedClips, source: str, settings: ActionSettings, member: int | None = None
    ) -> ActedScene:
        """What the persons of one clip do, and where each of their queries looked in the last layer."""
        logits, seen, grid = _run(model, acted, member)
        height, width = acted.clips.shape[-2:]
        persons = []
        for number, row in enumerate(logits.flatten(0, 1)):  # with box_only every person has a clip
            chances = torch.sigmoid(row) if self.config.several else row.softmax(-1)
            pixels = acted.boxes.flatten(0, 1)[number].cpu() * torch.tensor([width, height, width, height])
            shares = dict(zip(self.facts.classes, chances.tolist(), strict=True))
            persons.append(ActedPerson(tuple(pixels.tolist()), self.labels_of(row, settings.threshold), shares))
        text = "; ".join(", ".join(person.labels) or "nothing" for person in persons)
        scene = ActedScene(source, text, tuple(persons), acted, member)
        last = [record for name, record in seen.items() if np.asarray(record.calls[0]).ndim >= 4][-1:]
        explained = tuple(self._looked(scene, _by_person(record.calls[0]), grid, name="") for record in last)
        return ActedScene(source, text, tuple(persons), acted, member, explained)

    def layers(self, model: nn.Module, prediction: ActedScene) -> list[Video]:
        """Where each query looked, layer by layer and head by head."""
        with torch.no_grad():
            _, seen, grid = _run(model, prediction.acted, prediction.member)
        return [
            self._looked(prediction, _by_person(record.calls[0]), grid, name=name, heads=True)
            for name, record in seen.items()
        ]

    def _looked(
        self, scene: ActedScene, weights: Any, grid: tuple[int, int, int], *, name: str, heads: bool = False
    ) -> Video:
        """Weights [r h k] over the frames that the slices of the map stand for: the mean of the heads, or each head."""
        clip = scene.acted.clips[0]
        frames = clip.shape[1]
        shown = [slice_ * frames // grid[0] for slice_ in range(grid[0])]
        pixels = (clip[:, shown] * 255).round().clamp(0, 255).byte().permute(1, 2, 3, 0).cpu().numpy()
        pixels = np.repeat(pixels, 3, axis=3) if pixels.shape[3] == 1 else pixels
        texts = [
            f"person {number}: {', '.join(person.labels) or 'nothing'}" if len(scene.persons) > 1
            else ", ".join(person.labels)
            for number, person in enumerate(scene.persons, 1)
        ]  # fmt: skip
        count, num_heads = weights.shape[:2]
        if heads:
            rows = weights.reshape(count * num_heads, *grid)
            asks = np.repeat(np.arange(count), num_heads)
            labels = [f"{text}, head {head}" for text in texts for head in range(num_heads)]
        else:
            rows, asks, labels = weights.mean(1).reshape(count, *grid), np.arange(count), texts
        boxes = [person.box for person in scene.persons]
        title = f"{scene.source}, {name}" if name else scene.source
        return Video(side_by_side(pixels), rows, boxes, asks, labels, grid[0] // 2, title=title)

    # ── examples ────────────────────────────────────────────────────────────────────────────────────────────────────

    def choose(self, split: str, count: int) -> list[int]:
        """Clips with all labels, or where a person has several of them, clips at even distances."""
        clips = self.splits[split]
        if self.config.several or not isinstance(clips, Clips):
            return evenly(clips.size, count)
        return first_of_each(clips.labels[:, 0].argmax(-1).tolist(), count)

    def examples(self, model: nn.Module, split: str, numbers: Sequence[int]) -> list[Example]:
        """These clips of a split with their labels, and what the model takes their persons for."""
        clips, made, device = self.splits[split], [], device_of(model)
        for number in numbers:
            acted = self.held_out(split, torch.tensor([number], device=device), 1)
            named = clips.names[number] if isinstance(clips, Clips) else f"{split} scene {number}"
            member = None
            if self.members > 1 and isinstance(clips, Clips):
                member = self.facts.groups.index(clips.groups[number])
            scene = self.judge(model, acted, named, ActionSettings(), member)
            truth = (acted.labels.flatten(0, 1)[acted.counted.flatten()] - 0.5).cpu()
            reference = "; ".join(", ".join(self.labels_of(row, 0.5)) or "nothing" for row in truth)
            made.append(Example(named, reference, scene.described, scene))
        return made


def mean_precision(logits: Float[Tensor, "n c"], labels: Float[Tensor, "n c"]) -> float:
    """The mean over labels of the average precision: persons in the order of their logits, precision at each hit.

    >>> mean_precision(torch.tensor([[3.0], [2.0], [1.0]]), torch.tensor([[1.0], [0.0], [1.0]]))
    0.8333...
    """
    order = logits.sort(dim=0, descending=True, stable=True).indices
    hits = labels.gather(0, order).double()
    ranks = torch.arange(1, len(hits) + 1, dtype=torch.float64).unsqueeze(1)
    true = hits.sum(0)
    precisions = (hits * hits.cumsum(0) / ranks).sum(0) / true.clamp(min=1)
    return float(precisions[true > 0].mean()) if (true > 0).any() else 0.0


def _run(model: nn.Module, acted: ActedClips, member: int | None) -> tuple[Tensor, Trace, tuple[int, int, int]]:
    """Logits [b r c] on the CPU, what was attended to, and the sizes of the map."""
    device = device_of(model)
    with evaluating(model), trace(model, may_be_empty=True) as seen:
        out = model(acted.clips.to(device), acted.boxes.to(device), **({} if member is None else {"member": member}))
    return out.logits.float().cpu(), seen, out.grid


def _by_person(weights: Any) -> Any:
    """Weights [persons heads cells] of one clip: all queries of a call share keys, or each has its own."""
    array = np.asarray(weights)
    if array.ndim == 5:  # [b r h 1 k]
        return array[:, :, :, 0].reshape(-1, array.shape[2], array.shape[-1])
    return array.transpose(0, 2, 1, 3).reshape(-1, array.shape[1], array.shape[-1])  # [b h r k]


def _mean(right: Float[Tensor, "b r s"], counted: Bool[Tensor, "b r"]) -> Tensor:
    """The mean over persons that are there, and over their labels."""
    there = counted.unsqueeze(-1)
    return (right * there).sum() / (there.sum() * right.shape[-1]).clamp(min=1)


TASK = TaskEntry(
    "action_recognition",
    ActionRecognition,
    ActionRecognitionConfig,
    verb="recognise",
    inputs="clips",
    example="clip.npy",
)
