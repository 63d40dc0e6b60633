"""Pictures that a model draws: new ones, completions and enlargements, and what each pixel looked at meanwhile."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import UInt8
from numpy.typing import NDArray
from torch import Tensor

from regard.attention import trace
from regard.base import ConfigError, check_settings
from regard.base.ranges import Few, Natural, Range, Seed, UpToOne
from regard.decode.sample import Temperature
from regard.explanation import Blocks, Displayed, Explanation, Gallery
from regard.nn import device_of, evaluating
from regard.tasks.inputs import as_bytes
from regard.tasks.task import Progress
from regard.tasks.told_pictures import shrunk

Layer = Annotated[int, Range(least=-1000, most=1000)]
GREY = 128  # of what is not known yet
SPOTS = ((0.3, 0.3), (0.5, 0.75), (0.7, 0.45), (0.9, 0.85))  # pixels that are explained, as shares of height and width


@dataclass(frozen=True)
class DrawingSettings:
    """How pictures are drawn and explained: what `--set` may change."""

    pictures: Few = 4  # drawn for each input
    temperature: Temperature = 1.0  # below 1 likely values become likelier
    known: UpToOne = 0.5  # share of a picture that is kept when it is completed; the rest is drawn
    kind: str = ""  # the class of a picture, for a model that is told it
    seed: Seed = 0  # of what is drawn
    layer: Layer = -1  # whose weights are shown; −1 is the last one
    head: Natural | None = None  # whose weights are shown; None: the mean of all heads
    evaluated: Natural = 0  # evaluation: the first pictures of a split; 0: all of them

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, eq=False)
class Wish:
    """What is to be drawn: a picture to complete or to enlarge, or a new one; and its class where that is told."""

    name: str
    image: Tensor | None = None  # uint8 [c h w]
    kind: int | None = None  # the number of the class


@dataclass(frozen=True, eq=False)
class Drawn(Displayed):
    """Pictures that a model drew for one input."""

    source: str
    text: str  # what was done
    bits: float  # per dimension, of the first picture under the model
    images: NDArray[np.uint8]  # [n h w 3]
    values: Tensor = field(repr=False)  # uint8 [n c h w]
    told: dict[str, Tensor] = field(repr=False)  # what the model was told of the first one
    explanations: tuple[Explanation, ...] = field(repr=False, default=())

    @property
    def described(self) -> str:
        """What was done, and how likely the model takes the result to be."""
        return f"{self.text} ({self.bits:.2f} bits per dimension)"


@torch.no_grad()
def draw_pictures(
    model: Any, wishes: Sequence[Wish], settings: DrawingSettings, progress: Progress | None = None
) -> list[Drawn]:
    """Draw what is wished, side by side, place after place: all wishes have a picture, or none has.

    The noise is that of `settings.seed` for all wishes together.
    """
    device, config, count = device_of(model), model.config, settings.pictures
    images = None
    if wishes[0].image is not None:
        images = torch.stack([wish.image for wish in wishes if wish.image is not None])
        images = images.to(device).repeat_interleave(count, 0)
    told = {}
    if config.class_conditional:
        told["classes"] = torch.tensor([wish.kind for wish in wishes], device=device).repeat_interleave(count)
    if config.small_size and images is not None:
        told["small"] = shrunk(images, config.small_size)
    known = 0 if images is None or config.small_size else known_places(model, settings.known)
    with evaluating(model):
        drawn = model.generate(
            len(wishes) * count, images=images if known else None, known=known, temperature=settings.temperature,
            generator=torch.Generator(device).manual_seed(settings.seed), progress=progress, **told,
        ).to(torch.uint8)  # fmt: skip
        bits = model(drawn, **told).double().sum(1) / (math.log(2) * drawn[0].numel())
    predictions = []
    for number, wish in enumerate(wishes):
        rows = slice(number * count, (number + 1) * count)
        first = {name: tensor[rows][:1] for name, tensor in told.items()}
        values = drawn[rows]
        explained = (gallery_of(model, wish, values, known), *blocks_of(model, values[:1], first, settings))
        shown, text = np.stack([as_bytes(picture) for picture in values]), _described(model, wish, known)
        predictions.append(Drawn(wish.name, text, float(bits[rows][0]), shown, values, first, explained))
    return predictions


def known_places(model: Any, share: float) -> int:
    """How many places come before the first one below the upper `share` of the picture."""
    side = model.config.image_size
    below = (model.order // (len(model.order) // side) >= round(share * side)).nonzero()
    return int(below[0]) if len(below) else len(model.order)


def gallery_of(model: Any, wish: Wish, values: UInt8[Tensor, "n c h w"], known: int) -> Gallery:
    """What was known, what was drawn, and the original, side by side."""
    drawn = [as_bytes(picture) for picture in values]
    names = [f"drawn {number}" for number in range(1, len(drawn) + 1)]
    if wish.image is None:
        return Gallery.of(np.stack(drawn)[None], columns=names, title=wish.name)
    original, side = as_bytes(wish.image), model.config.image_size
    if model.config.small_size:
        small = shrunk(wish.image.unsqueeze(0), model.config.small_size)
        start = as_bytes(F.interpolate(small.float(), size=(side, side), mode="nearest")[0].to(torch.uint8))
    else:
        places = model.values_of(wish.image.unsqueeze(0).to(model.order.device))
        places[:, known:] = GREY
        start = as_bytes(model.images_of(places)[0].to(torch.uint8))
    tiles = np.stack([start, *drawn, original])[None]
    return Gallery.of(tiles, columns=["known", *names, "picture"], title=wish.name)


@torch.no_grad()
def blocks_of(
    model: Any, image: Tensor, told: dict[str, Tensor], settings: DrawingSettings, *, all_layers: bool = False
) -> list[Blocks]:
    """For some pixels of a picture [1 c h w] the block that each could see, and the weights of a layer over it.

    A place gets the symbol before it as its input, so the weight of a place belongs to the symbol before it; that of
    the first place, which stands for the start, belongs to none.
    """
    side, size = model.config.image_size, len(model.order)
    inside = size // side**2  # places of a pixel
    pixels = [(min(round(down * side), side - 1), min(round(across * side), side - 1)) for down, across in SPOTS]
    asked = [int(model.back[(row * side + column) * inside]) for row, column in pixels]
    with evaluating(model), trace(model, layers=model.attention_layers, rows=asked, may_be_empty=True) as seen:
        model(image, **told)
    allowed = model.local.mask().dense(size, size, rows=torch.tensor(asked)).numpy()
    in_block = _by_pixel(model, allowed, side).max(-1)
    chosen = list(seen.items()) if all_layers else [list(seen.items())[_layer(settings.layer, len(seen))]]
    labels = [f"row {row}, column {column}" for row, column in pixels]
    explained = []
    for name, record in chosen:
        heads = np.asarray(record.weights)[0]  # [h r n]
        weights = heads.mean(0) if settings.head is None else heads[_head(settings.head, len(heads))]
        which = "mean of heads" if settings.head is None else f"head {settings.head}"
        summed = _by_pixel(model, weights, side).sum(-1) * in_block
        title = f"what pixels looked at: {name.removesuffix('.inner.inner')}, {which}"
        explained.append(Blocks(as_bytes(image[0]), summed, in_block, pixels, labels, title))
    return explained


def _by_pixel(model: Any, by_place: NDArray[Any], side: int) -> NDArray[np.float64]:
    """Numbers [r n] of places, in the order of generation, as numbers [r h w p] of the symbols that they took in."""
    symbols = np.zeros(by_place.shape)
    symbols[:, :-1] = by_place[:, 1:]
    return symbols[:, model.back.cpu().numpy()].reshape(len(by_place), side, side, -1)


def _layer(number: int, count: int) -> int:
    if not -count <= number < count:
        raise ConfigError("layer", got=number, expected=f"{-count} to {count - 1}")
    return number


def _head(number: int, count: int) -> int:
    if number >= count:
        raise ConfigError("head", got=number, expected=f"0 to {count - 1}")
    return number


def _described(model: Any, wish: Wish, known: int) -> str:
    config = model.config
    if wish.image is None:
        return "drawn anew"
    if config.small_size:
        return f"enlarged from {config.small_size}×{config.small_size} to {config.image_size}×{config.image_size}"
    return f"completed from {100 * known / len(model.order):.0f} % on"
