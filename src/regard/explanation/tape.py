"""A tape: the weights of reading and writing heads over the slots of a memory, step by step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from regard.explanation.explanation import Explanation
from regard.explanation.values import as_labels, as_layers, as_text


@dataclass(frozen=True, eq=False)
class Tape(Explanation):
    """Weights [t n] over n slots at each of t steps, by the name of their head: "read 0", "write 0".

    What came in, went out, was read or added at each step may stand beside them, under other names.

    `steps` says what came in at each step, or is empty.

    >>> Tape({"read 0": [[0.0, 1.0], [1.0, 0.0]]}, steps=["a", "b"]).length
    2
    """

    kind: ClassVar[str] = "tape"
    caption: ClassVar[str] = "where it read and wrote"

    weights: Mapping[str, Any]  # [t n]
    steps: Sequence[str] = ()
    title: str = ""

    def __post_init__(self) -> None:
        weights = as_layers("weights of a tape", self.weights, "[steps slots]")
        steps = as_labels("steps", self.steps)
        length = len(next(iter(weights.values()), ()))
        self._set(
            weights=weights,
            steps=as_labels("steps", steps, length if steps else None),
            title=as_text("the title of a tape", self.title),
        )

    @property
    def length(self) -> int:
        """Gives how many steps in time there are."""
        return len(next(iter(self.weights.values()), ()))
