"""Weights on the edges of a graph: how much each node takes from its neighbours."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from regard.base import ShapeError
from regard.explanation.explanation import Explanation
from regard.explanation.values import as_indices, as_labels, as_numbers, as_text


@dataclass(frozen=True, eq=False)
class EdgeWeights(Explanation):
    """Weights [e] of edges between labelled nodes, or with heads [heads, e].

    Edge number k goes from node `sources[k]` to node `targets[k]`, which attends to it.

    >>> graph = EdgeWeights([0.7, 0.3], sources=[1, 2], targets=[0, 0], nodes=["paper", "cites", "is cited"])
    >>> graph.layout().round(2).tolist()
    [[0.0, 0.0], [0.0, 1.0], [0.0, -1.0]]
    """

    kind: ClassVar[str] = "edges"
    caption: ClassVar[str] = "what nodes take from each other"

    weights: Any  # [*heads e]
    sources: Any  # [e]
    targets: Any  # [e]
    nodes: Sequence[str]
    title: str = ""

    def __post_init__(self) -> None:
        nodes = as_labels("nodes", self.nodes)
        weights = as_numbers("weights of edges", self.weights, {1: "[edges]", 2: "[heads edges]"})
        ends = {
            name: as_indices(f"{name} of edges", getattr(self, name), len(nodes)) for name in ("sources", "targets")
        }
        for name, numbers in ends.items():
            if len(numbers) != weights.shape[-1]:
                got = f"{len(numbers)} {name} for {weights.shape[-1]} weights"
                raise ShapeError("each edge needs a source and a target", got=got, expected=weights.shape[-1])
        self._set(weights=weights, nodes=nodes, title=as_text("the title of edges", self.title), **ends)

    def layout(self) -> Float[ndarray, "n 2"]:
        """Where the nodes are drawn, (x, y) with y upwards, within −1 and 1.

        Nodes stand on a circle, the first on top, and go round like a clock. A node that is the only target stands in
        the middle of the others. Where no node is both, sources are on the left and targets on the right.
        """
        count = len(self.nodes)
        heads, tails = set(self.targets.tolist()), set(self.sources.tolist())
        if len(heads) == 1 and count > 2:
            [centre] = heads
            places = np.zeros((count, 2))
            places[[node for node in range(count) if node != centre]] = _circle(count - 1)
            return places
        if heads and not heads & tails:
            places = np.zeros((count, 2))
            right = sorted(heads)
            left = [node for node in range(count) if node not in heads]
            for side, nodes in ((-1.0, left), (1.0, right)):
                places[nodes] = [(side, 1 - 2 * (place + 0.5) / len(nodes)) for place in range(len(nodes))]
            return places
        return _circle(count)


def _circle(count: int) -> ndarray:
    angles = np.pi / 2 - 2 * np.pi * np.arange(count) / max(count, 1)
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1) + 0.0  # no −0
