"""A matrix of weights: an alignment of two sentences, or what the words of a sentence attend to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from jaxtyping import Float
from numpy import ndarray

from regard.explanation.explanation import Explanation
from regard.explanation.values import as_labels, as_numbers, as_text

_AXES = {2: "[rows columns]", 3: "[heads rows columns]"}


@dataclass(frozen=True, eq=False)
class Matrix(Explanation):
    """Weights of labelled rows over labelled columns: [rows columns], or with heads [heads rows columns].

    Rows attend to columns: the words of a translation to those of its source, the words of a sentence to each other.
    `layer` names where the weights come from, and `axes` what rows and columns are, such as ("translation", "source").

    >>> Matrix([[0.9, 0.1], [0.2, 0.8]], ["la", "maison"], ["the", "house"]).weights.shape
    (2, 2)
    """

    kind: ClassVar[str] = "matrix"

    weights: Any  # [*heads rows columns]
    rows: Sequence[str]
    columns: Sequence[str]
    layer: str = ""
    title: str = ""
    axes: Sequence[str] = ()

    added: ClassVar[frozenset[str]] = frozenset({"axes"})

    def __post_init__(self) -> None:
        weights = as_numbers("weights of a matrix", self.weights, _AXES)
        rows, columns = as_labels("rows", self.rows), as_labels("columns", self.columns)
        if weights.size == 0 and 0 in (len(rows), len(columns)):  # an empty list does not say how wide it is
            weights = weights.reshape(*weights.shape[:-2], len(rows), len(columns))
        axes = as_labels("axes of a matrix", self.axes)
        self._set(
            weights=weights,
            axes=as_labels("axes of a matrix", axes, 2, cure="name rows and columns") if axes else (),
            rows=as_labels("rows", rows, weights.shape[-2]),
            columns=as_labels("columns", columns, weights.shape[-1]),
            layer=as_text("the layer of a matrix", self.layer),
            title=as_text("the title of a matrix", self.title),
        )

    def panels(self) -> dict[str, Float[ndarray, "rows columns"]]:
        """One matrix for each head, by a name that says layer and head.

        >>> list(Matrix([[[1.0]], [[1.0]]], ["a"], ["b"], layer="decoder.0").panels())
        ['decoder.0 · head 0', 'decoder.0 · head 1']
        """
        if self.weights.ndim == 2:
            return {self.layer or self.title or "weights": self.weights}
        before = f"{self.layer} · " if self.layer else ""
        return {f"{before}head {head}": weights for head, weights in enumerate(self.weights)}
