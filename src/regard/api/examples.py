"""Examples of what a model does with a split: what it was shown, what it said, and drawings of where it looked."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.api.model import Model
from regard.api.runs import result
from regard.base import ConfigError, RegardError
from regard.data.images import read_image
from regard.recipes.figures import data_name
from regard.tasks import Caption, Captioning, Classification, Recognised, Translation
from regard.viz import (
    gate_histograms,
    gate_profiles,
    glimpse_animation,
    glimpse_errors,
    glimpse_path,
    heatmap,
    position_maps,
)
from regard.viz.overlay import CaptionOverlay, overlays
from regard.viz.theme import DARK

MANY = 512  # pictures that gates are gathered from
_EVERY = 2  # pixels between the places of a map that answers to the pointer


@dataclass(frozen=True, eq=False)
class Drawing:
    """A picture that is still to be drawn: `axes(dark)`, and `animate(path, dark)` where it moves."""

    name: str  # of its file
    title: str
    axes: Callable[[bool], Any]
    animate: Callable[[Path, bool], Path] | None = None


@dataclass(frozen=True, eq=False)
class Example:
    """One sentence or picture of a split and what a model made of it."""

    source: str  # the sentence, or the name of the picture
    reference: str  # a line for each
    output: str
    image: NDArray[np.uint8] | None = None  # [h w 3]
    drawings: list[Drawing] = field(default_factory=list)
    maps: dict[str, NDArray[np.float32]] = field(default_factory=dict)  # [r c i j]: of every place, by layer
    said: Any = None  # what the task's `predict` gave


def chosen(model: Model, split: str, samples: int) -> list[int]:
    """Which examples to show, the same ones every time: sentences of all lengths, pictures of all classes."""
    if samples < 0:
        raise ConfigError("samples", got=samples, expected="0 or more")
    task = model.task
    if isinstance(task, Translation):
        return _by_length([len(line.split()) for line in task.text(split).source], samples)
    if isinstance(task, Classification):
        return _by_class(task.held_out(split).labels[:, 0].tolist(), samples)
    count = len(_captions(task, split))
    return [place * count // min(samples, count) for place in range(min(samples, count))]


def examples(model: Model, split: str, numbers: list[int]) -> list[Example]:
    """These examples of a split, in words and drawings."""
    if not numbers:
        return []
    if isinstance(model.task, Translation):
        return _sentences(model, split, numbers)
    return _described(model, split, numbers) if isinstance(model.task, Captioning) else _seen(model, split, numbers)


@torch.no_grad()
def overviews(model: Model, split: str, *, run: int = 0, figures: Mapping[str, Any] | None = None) -> list[Drawing]:
    """Drawings of a whole run: what each glimpse is worth, or how open gates are by class and by layer.

    They have the colour of the run, which is its place among those of a page. `figures` are those that `result` gave,
    where the caller has them.
    """
    if model.kind != "classification":
        return []
    if hasattr(_retina(model), "glimpses"):
        found = result(model, split) if figures is None else figures
        if "by_glimpse" not in found:
            return []
        title = f"What each glimpse is worth, on {found['count']:,} pictures"
        errors, stopped = found["by_glimpse"], found.get("stopped")
        return [
            Drawing(
                "errors_by_glimpse", title,
                lambda dark: glimpse_errors(errors, stopped=stopped, dark=dark, run=run),
            )
        ]  # fmt: skip
    if not hasattr(model.module, "gates"):
        return []
    pictures, module = model.task.held_out(split).take(slice(0, MANY)), _any(model)
    device = next(module.parameters()).device
    parts = [module.gates(part) for part in torch.split(_normalised(model, pictures.images).to(device), 128)]
    gates = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    few = {name: gates[name] for name in _ends(list(gates))}
    labels, classes, count = pictures.labels[:, 0], pictures.classes, pictures.size
    return [
        Drawing(
            "gates_by_class", f"Mean gate of each channel, by class, over {count} pictures",
            lambda dark: gate_profiles(few, labels, classes=classes, dark=dark),
        ),
        Drawing(
            "gates_by_layer", f"How open the gates are, layer by layer, over {count} pictures",
            lambda dark: gate_histograms(gates, dark=dark, run=run),
        ),
    ]  # fmt: skip


# ── each task ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _sentences(model: Model, split: str, numbers: list[int]) -> list[Example]:
    lines, references = model.task.text(split).source, model.task.references(split)
    found = []
    for number, said in zip(numbers, model.translate([lines[number] for number in numbers]), strict=True):
        drawings = []
        if said.weights is not None and said.tokens:
            drawings.append(Drawing(f"alignment_{number}", said.text, lambda dark, said=said: heatmap(  # type: ignore[misc]
                said.weights, said.tokens, said.source_tokens)))  # fmt: skip
        text = "\n".join(references[number][:3])
        found.append(Example(said.source, text, said.text, drawings=drawings, said=said))
    return found


def _described(model: Model, split: str, numbers: list[int]) -> list[Example]:
    captions = _captions(model.task, split)
    images = [read_image(captions.read(captions.names[number]), name=captions.names[number]) for number in numbers]
    found = []
    for number, image, said in zip(numbers, images, model.caption(images), strict=True):
        drawings = []
        if said.weights is not None and said.tokens:
            title = "where it looked, word by word"
            drawings.append(Drawing(f"overlay_{number}", title, lambda dark, said=said: overlaid(said, dark)))  # type: ignore[misc]
        source = f"{data_name(model.recipe.task)}, {split}: {captions.names[number]}"
        found.append(Example(source, "\n".join(captions.captions[number]), said.text, image, drawings, said=said))
    return found


def _seen(model: Model, split: str, numbers: list[int]) -> list[Example]:
    pictures = model.task.held_out(split).take(torch.tensor(numbers))
    found = []
    for place, said in enumerate(model.task.predict(model.module, pictures.images)):
        image, number = pixels(pictures.images[place]), numbers[place]
        names = [pictures.name(label) for label in pictures.labels[place]]
        right = "".join(name for name in names if name and not name.startswith("<"))
        source = f"{data_name(model.recipe.task)}, {split} picture {number}"
        drawings: list[Drawing] = []
        maps: dict[str, NDArray[np.float32]] = {}
        if said.where is not None:
            drawings = [glimpse_drawing(model, image, said, f"glimpses_{number}")]
        elif hasattr(model.module, "maps"):
            drawings, maps = _maps(model, pictures.images[place], image, number)
        found.append(Example(source, right, recognised_text(said), image, drawings, maps, said))
    return found


def _maps(
    model: Model, picture: Tensor, image: NDArray[np.uint8], number: int
) -> tuple[list[Drawing], dict[str, NDArray[np.float32]]]:
    """What four places attend to, as a drawing for each block; and what all do."""
    height, width = image.shape[:2]
    rows, columns = range(0, height, _EVERY), range(0, width, _EVERY)
    device = next(model.module.parameters()).device
    shown = _normalised(model, picture.unsqueeze(0)).to(device)
    module = _any(model)
    every = module.maps(shown, [(row, column) for row in rows for column in columns])
    places = [
        (round(y * (height - 1)), round(x * (width - 1))) for y, x in ((0.5, 0.5), (0.2, 0.2), (0.3, 0.8), (0.8, 0.5))
    ]
    some = module.maps(shown, places)
    drawings = [
        Drawing(f"map_{number}_{name}", f"what four places attend to, {name}",
                lambda dark, weights=weights[0]: position_maps(image, places, weights, dark=dark))  # type: ignore[misc]
        for name, weights in some.items()
    ]  # fmt: skip
    whole = {
        name: weights[0].reshape(len(rows), len(columns), *weights.shape[2:]).numpy() for name, weights in every.items()
    }
    return drawings, whole


def _retina(model: Model) -> Any:
    """The settings of a model that look into the picture, if it takes glimpses: DT-RAM has a RAM inside."""
    config = _any(model).config
    return getattr(config, "ram", config)


# ── drawings that the command line shares ───────────────────────────────────────────────────────────────────────────


def glimpse_drawing(model: Model, image: NDArray[np.uint8], said: Recognised, name: str) -> Drawing:
    """The path of a model's gaze over a picture [h w 3], as it was shown to the model."""
    config = _retina(model)
    retina = {"size": config.size, "scales": config.scales, "labels": said.text or "nothing"}
    return Drawing(
        name,
        "where it looked",
        lambda dark: glimpse_path(image, said.where, dark=dark, **retina),
        lambda path, dark: glimpse_animation(image, said.where, path, dark=dark, **retina),
    )


def overlaid(said: Caption | Mapping[str, Caption], dark: bool = False) -> Any:
    """The weights of a caption over its picture, a panel for each word; of several of one picture, by name."""
    several = {"": said} if isinstance(said, Caption) else said
    for name, one in several.items():
        if one.weights is None or not one.tokens:
            got = "no words" if one.weights is not None else "no attention"
            raise RegardError("there is nothing to draw", got=f"{got} for {one.name}" + f" by {name}" * bool(name))
    told = {name: CaptionOverlay(one.tokens, one.weights, one.grid, one.box) for name, one in several.items()}
    image = next((one.image for one in several.values()), None)
    axes = overlays(image, told)
    if dark:
        axes.flat[0].figure.set_facecolor(DARK.ground)
        for ax in axes.flat:
            for text in ax.texts:
                text.set_color(DARK.ink)
    return axes


def pixels(picture: Tensor) -> NDArray[np.uint8]:
    """Bytes [h w 3] of a picture [c h w]."""
    grey_or_colour = picture.expand(3, -1, -1) if picture.shape[0] == 1 else picture
    return np.ascontiguousarray(grey_or_colour.permute(1, 2, 0).cpu().numpy())


def recognised_text(said: Recognised) -> str:
    """An answer in words: the labels, how sure, and in how many glimpses."""
    count = len(said.labels) + (len(said.labels) < len(said.probabilities))  # and the end, where there is one
    sure = 100 * said.probabilities[:count].max(-1).values.prod().item()
    glimpses = "" if said.where is None else f", {len(said.where)} glimpses"
    return f"{said.text or 'nothing'} ({sure:.1f} %{glimpses})"


def _by_class(labels: list[int], samples: int) -> list[int]:
    """The first picture of each class, then the second of each, and so on."""
    seen: Counter[int] = Counter()
    ranks = []
    for number, label in enumerate(labels):
        ranks.append((seen[label], label, number))
        seen[label] += 1
    return [number for _, _, number in sorted(ranks)[:samples]]


def _by_length(lengths: list[int], samples: int) -> list[int]:
    """Sentences of all lengths, evenly from the shortest to the longest."""
    order = sorted(range(len(lengths)), key=lambda number: (lengths[number], number))
    count = min(samples, len(order))
    ranked = [lengths[number] for number in order]
    taken: list[int] = []
    for place in range(count):
        wanted = ranked[0] + place * (ranked[-1] - ranked[0]) / max(count - 1, 1)
        left = [rank for rank in range(len(order)) if rank not in taken]
        taken.append(min(left, key=lambda rank: abs(ranked[rank] - wanted)))
    return [order[rank] for rank in sorted(taken)]


def _ends(names: list[str]) -> list[str]:
    """The first and the last block of each stage: stages.0.0, stages.0.2, …"""
    stages: dict[str, list[str]] = {}
    for name in names:
        stages.setdefault(name.rpartition(".")[0], []).append(name)
    return [name for several in stages.values() for name in dict.fromkeys((several[0], several[-1]))]


def _captions(task: Captioning, split: str) -> Any:
    if split not in task.splits:
        raise ConfigError("unknown split", got=repr(split), expected=f"one of {', '.join(task.splits)}")
    return task.splits[split]


def _any(model: Model) -> Any:
    """The module, whose further methods no type knows."""
    return model.module


def _normalised(model: Model, images: Tensor) -> Tensor:
    shown: Tensor = model.task.normalised(images.float() / 255.0)
    return shown
