"""Shaded text: how much each word of a text was looked at, by several hops and by all of them together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from regard.explanation.explanation import Explanation
from regard.explanation.values import as_labels, as_numbers, as_text


@dataclass(frozen=True, eq=False)
class Shading(Explanation):
    """Weights [hops words] over the words of one text, in the order of the text.

    `answer` is what was made of the text, such as its class.

    >>> shading = Shading([[0.9, 0.1, 0.0], [0.1, 0.1, 0.8]], ["not", "so", "good"], answer="negative")
    >>> shading.together().round(2).tolist()
    [0.5, 0.1, 0.4]
    """

    kind: ClassVar[str] = "shading"

    weights: Any  # [hops words]
    words: Sequence[str]
    answer: str = ""
    title: str = ""

    def __post_init__(self) -> None:
        words = as_labels("words", self.words)
        weights = as_numbers("weights of shaded text", self.weights, {2: "[hops words]"})
        if weights.size == 0 and not words:
            weights = weights.reshape(len(weights), 0)
        self._set(
            weights=weights,
            words=as_labels("words", words, weights.shape[1]),
            answer=as_text("the answer of shaded text", self.answer),
            title=as_text("the title of shaded text", self.title),
        )

    def together(self) -> Float[ndarray, " words"]:
        """The mean weight of each word over all hops: the sum of the hops, normalised as in the paper's figures."""
        count = max(len(self.weights), 1)
        mean: ndarray = self.weights.sum(0) / count
        return mean

    def sharpest(self, count: int) -> list[int]:
        """The numbers of the hops that look at the fewest words, by their entropy, in the order of the hops."""
        shares = np.maximum(self.weights, 0) / np.maximum(self.weights.sum(1, keepdims=True), 1e-12)
        entropy = -(shares * np.log(np.maximum(shares, 1e-12))).sum(1)
        return sorted(np.argsort(entropy, kind="stable")[:count].tolist())
