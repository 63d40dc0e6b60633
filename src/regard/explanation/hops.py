"""Hops over a memory: which sentences of a story were looked at, one look after the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from regard.explanation.explanation import Explanation
from regard.explanation.values import as_indices, as_labels, as_numbers, as_text


@dataclass(frozen=True, eq=False)
class Hops(Explanation):
    """Weights [hops, slots] over the slots of a memory, each of which holds a text.

    `marked` are the numbers of the slots that hold the supporting facts, where they are known.

    >>> story = ["Mary went to the garden.", "John took the milk."]
    >>> Hops([[0.1, 0.9], [0.8, 0.2]], story, marked=[1], question="Where is the milk?", answer="garden").marked
    (1,)
    """

    kind: ClassVar[str] = "hops"
    caption: ClassVar[str] = "what was looked at, hop by hop"

    weights: Any  # [hops slots]
    slots: Sequence[str]
    marked: Sequence[int] = ()
    question: str = ""
    answer: str = ""
    title: str = ""

    def __post_init__(self) -> None:
        slots = as_labels("slots", self.slots)
        weights = as_numbers("weights of hops", self.weights, {2: "[hops slots]"})
        if weights.size == 0 and not slots:
            weights = weights.reshape(len(weights), 0)
        self._set(
            weights=weights,
            slots=as_labels("slots", slots, weights.shape[1]),
            marked=tuple(as_indices("marked slots", self.marked, len(slots)).tolist()),
            question=as_text("the question of hops", self.question),
            answer=as_text("the answer of hops", self.answer),
            title=as_text("the title of hops", self.title),
        )
