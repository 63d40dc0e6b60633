"""Boxes on a picture, each with its label above it."""

from typing import TYPE_CHECKING

from regard.base import require
from regard.explanation.boxes import Boxes
from regard.viz.theme import DARK, LIGHT, frame, headline, headroom, new_figure, panel, words

if TYPE_CHECKING:
    import matplotlib.axes

_GAP, _LONG = 0.14, 4.8  # inches around, and of the longer side of the picture
COLOUR = "#e69f00"  # of the frames: it shows on light and dark grounds


def draw(boxes: Boxes, *, dark: bool = False) -> "matplotlib.axes.Axes":
    """Draw the picture with its boxes and labels. Returns the axes, in pixels.

    >>> import numpy as np
    >>> ax = draw(Boxes(np.zeros((8, 16, 3), dtype=np.uint8), [[1, 2, 4, 8]], ["exit"]))
    >>> [text.get_text() for text in ax.texts]
    ['exit']
    """
    palette = DARK if dark else LIGHT
    height, width = boxes.image.shape[:2]
    wide, high = _LONG * width / max(height, width), _LONG * height / max(height, width)
    head = headroom(boxes.title or None)
    figure = new_figure(wide + 2 * _GAP, head + high + 2 * _GAP, palette)
    ax = panel(figure, _GAP, head + _GAP, wide, high)
    ax.imshow(boxes.image, interpolation="nearest", aspect="auto")
    patches, effects = (require(f"matplotlib.{part}", extra="viz") for part in ("patches", "patheffects"))
    outline = [effects.withStroke(linewidth=2.4, foreground="black")]
    for number, (top, left, tall, broad) in enumerate(boxes.boxes.tolist()):
        corner = (left - 0.5, top - 0.5)
        ax.add_patch(patches.Rectangle(corner, broad, tall, fill=False, edgecolor=COLOUR, linewidth=1.6))
        if boxes.labels:
            label = ax.text(left, max(top - 2.0, 2.0), ".", fontsize=8, color=COLOUR, va="bottom", ha="left")
            label.set(**words(boxes.labels[number], 40))
            label.set_path_effects(outline)
    ax.set_xlim(-0.5, width - 0.5)
    ax.set_ylim(height - 0.5, -0.5)
    frame(ax, palette.rule)
    headline(figure, boxes.title or None, _GAP, palette)
    return ax
