"""Gates of channels: how open each one is for each picture, by layer (squeeze-and-excitation)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from regard.base import ConfigError, ShapeError, shown
from regard.explanation.explanation import Explanation
from regard.explanation.values import as_indices, as_labels, as_layers, as_text

_MOST = 10**9  # classes that have no names


@dataclass(frozen=True, eq=False)
class Gates(Explanation):
    """Gates [n c] of n pictures and c channels, from 0 (shut) to 1 (open), by the name of their layer.

    `labels` [n] are the classes of the pictures, and `classes` what these are called; without names they are numbers.

    >>> Gates({"stages.0.0": [[0.5, 0.25], [0.5, 0.75]]}, [0, 1], ["cat", "dog"]).names()
    {0: 'cat', 1: 'dog'}
    """

    kind: ClassVar[str] = "gates"
    caption: ClassVar[str] = "how open the gates are"

    values: Mapping[str, Any]  # [n c]
    labels: Any  # [n]
    classes: Sequence[str] = ()
    title: str = ""

    def __post_init__(self) -> None:
        values = as_layers("gates", self.values, "[pictures channels]")
        for name, gates in values.items():
            if gates.size and not (gates.min() >= 0 and gates.max() <= 1):
                got = f"{gates.min():g} to {gates.max():g}"
                raise ConfigError(f"gates of {shown(name)}", got=got, expected="0 to 1, what a sigmoid gives")
        classes = as_labels("classes", self.classes)
        labels = as_indices("classes of pictures", self.labels, len(classes) or _MOST)
        count = len(next(iter(values.values()), labels))
        if len(labels) != count:
            got = f"{len(labels)} labels for {count} pictures"
            raise ShapeError("each picture needs the number of its class", got=got, expected=count)
        title = as_text("the title of gates", self.title)
        self._set(values=values, labels=labels, classes=classes, title=title)

    def names(self) -> dict[int, str]:
        """The classes that there are pictures of, in order, with their names."""
        numbers = sorted(set(self.labels.tolist()))
        return {number: self.classes[number] if self.classes else str(number) for number in numbers}
