"""Boxes on a picture: where words were found, and what each of them says."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from regard.base import ConfigError, ShapeError, shown
from regard.explanation.explanation import Explanation
from regard.explanation.png import data_address, to_png
from regard.explanation.svg import text
from regard.explanation.values import as_image, as_labels, as_numbers, as_text


@dataclass(frozen=True, eq=False)
class Boxes(Explanation):
    """A picture [h w 3] with n boxes [n 4] (top, left, height, width, in pixels) and a label for each.

    >>> import numpy as np
    >>> Boxes(np.zeros((8, 16, 3), dtype=np.uint8), [[1, 2, 4, 8]], ["exit"]).labels
    ('exit',)
    """

    kind: ClassVar[str] = "boxes"
    caption: ClassVar[str] = "what was found"

    image: Any  # [h w 3], bytes
    boxes: Any  # [n 4]
    labels: Sequence[str] = ()
    title: str = ""

    def __post_init__(self) -> None:
        boxes = as_numbers("boxes", self.boxes, {2: "[n 4]: top, left, height and width of each", 1: "none"})
        boxes = boxes.reshape(0, 4) if boxes.size == 0 else boxes
        if boxes.ndim != 2 or boxes.shape[1] != 4:
            raise ShapeError("boxes", got=f"shape {list(boxes.shape)}", expected="[n 4]: top, left, height and width")
        if boxes.size and boxes[:, 2:].min() <= 0:
            raise ConfigError("a box has no size", got=shown(boxes.tolist()), expected="heights and widths above 0")
        labels = () if isinstance(self.labels, str) and not self.labels else as_labels("labels", self.labels)
        self._set(
            image=as_image(self.image),
            boxes=boxes,
            labels=as_labels("labels", labels, len(boxes) if labels else None),
            title=as_text("the title of boxes", self.title),
        )

    def html(self) -> str:
        """The picture with a frame around each box, and its label above it."""
        height, width = self.image.shape[:2]
        size = max(4.0, height / 24)
        parts = [f'<image href="{data_address(to_png(self.image))}" width="{width}" height="{height}"/>']
        for number, (top, left, high, wide) in enumerate(self.boxes.tolist()):
            label = self.labels[number] if self.labels else ""
            frame = f'x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{high:.1f}"'
            parts.append(f'<rect {frame} style="fill:none;stroke:#e69f00;stroke-width:{size / 6:.1f}"/>')
            if label:
                place = f'x="{left:.1f}" y="{max(top - size / 4, size):.1f}" font-size="{size:.1f}"'
                parts.append(f'<text {place} style="fill:#e69f00">{text(label)}</text>')
        view = f'viewBox="0 0 {width} {height}" width="{min(480, 3 * width)}"'
        return f'<svg {view} role="img" aria-label="boxes">{"".join(parts)}</svg>'
