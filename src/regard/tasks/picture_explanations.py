"""What classifiers of pictures attended to, as explanations: paths of glimpses, gates, and maps between places."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.explanation import Explanation, Gates, Path, Places

EVERY = 2  # pixels between the places of a map that answers to the pointer
MARKED = ((0.5, 0.5), (0.2, 0.2), (0.3, 0.8), (0.8, 0.5))  # four places (down, right) that a drawing shows


class Retina(Protocol):
    """The settings of a retina."""

    size: int
    scales: int


@runtime_checkable
class TakesGlimpses(Protocol):
    """A model that looks at one place after another."""

    @property
    def retina(self) -> Any:
        """The settings of its retina: `size` and `scales`."""
        ...


@runtime_checkable
class HasGates(Protocol):
    """A model that weighs its channels."""

    def gates(self, images: Tensor) -> dict[str, Tensor]:
        """The gates [b channels] by layer."""
        ...


@runtime_checkable
class HasMaps(Protocol):
    """A model in which places of a picture attend to one another."""

    def maps(self, images: Tensor, places: Sequence[tuple[int, int]]) -> dict[str, Tensor]:
        """The weights [b p i j] of some places (row, column) of a picture over a grid of places, by layer."""
        ...


def glimpse_path(model: object, image: NDArray[np.uint8], where: Float[Tensor, "t 2"], label: str) -> Path | None:
    """The path of a model over a picture; None for a model without a retina."""
    if not isinstance(model, TakesGlimpses):
        return None
    retina: Retina = model.retina
    return Path(
        image, where.numpy(), retina.size, retina.scales, label=label or "nothing", title=f"{len(where)} glimpses"
    )


@torch.no_grad()
def by_layer(model: object, image: NDArray[np.uint8], shown: Float[Tensor, "1 c h w"]) -> list[Explanation]:
    """What the places of one picture attend to, layer by layer: four marked places, and all of them for the pointer."""
    if not isinstance(model, HasMaps):
        return []
    height, width = image.shape[:2]
    marked = [(round(down * (height - 1)), round(right * (width - 1))) for down, right in MARKED]
    rows, columns = range(0, height, EVERY), range(0, width, EVERY)
    raster = [(row, column) for row in rows for column in columns]
    explanations: list[Explanation] = []
    for name, weights in model.maps(shown, marked).items():
        points, title = np.array(marked, dtype=np.float32), f"what four places attend to, {name}"
        explanations.append(Places(image, weights[0].numpy(), ("",) * len(marked), points=points, title=title))
    for name, weights in model.maps(shown, raster).items():
        points, title = np.array(raster, dtype=np.float32), f"what each place attends to, {name}"
        grid = (len(rows), len(columns))
        explanations.append(
            Places(image, weights[0].numpy(), ("",) * len(raster), points=points, grid=grid, title=title)
        )
    return explanations


@torch.no_grad()
def gates_of(
    model: object, images: Float[Tensor, "n c h w"], labels: Tensor, classes: Sequence[str], *, at_once: int = 128
) -> list[Explanation]:
    """The gates of a model over many pictures, with their classes: the first and the last block of each stage."""
    if not isinstance(model, HasGates):
        return []
    chunks = [model.gates(chunk) for chunk in torch.split(images, at_once)]
    values = {name: torch.cat([chunk[name] for chunk in chunks]).cpu().numpy() for name in _ends(list(chunks[0]))}
    title = f"gates over {len(images)} pictures"
    return [Gates(values, tuple(int(label) for label in labels), tuple(classes), title=title)]


def _ends(names: list[str]) -> list[str]:
    """The first and the last block of each stage: stages.0.0, stages.0.2, …"""
    stages: dict[str, list[str]] = {}
    for name in names:
        stages.setdefault(name.rpartition(".")[0], []).append(name)
    return [name for blocks in stages.values() for name in dict.fromkeys((blocks[0], blocks[-1]))]
