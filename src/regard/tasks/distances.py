"""How far back each head of a model of running text looks: the weight that it gives to near and to distant tokens."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.explanation import Matrix
from regard.metrics import mean_distance, weight_by_distance

TITLE = "how far back each head looks, and its mean distance"


def distance_matrix(weights: Mapping[str, NDArray[Any]]) -> Matrix | None:
    """A row for each head, a column for each group of distances, and the share of the weight that falls on it.

    `weights` [h q k] are by the name of the layer, in the order of layers; the label of a row has the mean distance.
    Each group of distances is about twice as wide as the one before. None where no layer has heads, or there is nothing
    to look at.

    >>> far = np.zeros((1, 3, 3)); far[0, :, 0] = 1
    >>> matrix = distance_matrix({"layers.0": far})
    >>> matrix.rows, matrix.columns, matrix.weights.round(2).tolist()
    (('layer 0 head 0: 1.0',), ('0', '1', '2'), [[0.33, 0.33, 0.33]])
    """
    heads = {name: each for name, each in weights.items() if each.ndim == 3 and each.size}
    if not heads:
        return None
    edges = group_edges(max(each.shape[-1] for each in heads.values()))
    rows, labels = [], []
    for layer, each in enumerate(heads.values()):
        shares = np.pad(weight_by_distance(each), [(0, 0), (0, edges[-1] - each.shape[-1])])
        rows.append(np.add.reduceat(shares, edges[:-1], axis=1))
        labels += [f"layer {layer} head {head}: {far:.1f}" for head, far in enumerate(mean_distance(each))]
    columns = [str(first) if end == first + 1 else f"{first}–{end - 1}" for first, end in itertools.pairwise(edges)]
    return Matrix(np.concatenate(rows), labels, columns, title=TITLE)


def group_edges(count: int) -> list[int]:
    """Where groups of the distances 0 to count − 1 begin, and the end of the last: 0, 1, 2, 3–4, 5–8, 9–16, …

    >>> group_edges(12)
    [0, 1, 2, 3, 5, 9, 12]
    """
    edges = [0]
    while edges[-1] < count:
        edges.append(min(count, max(edges[-1] + 1, 2 * edges[-1] - 1)))
    return edges
