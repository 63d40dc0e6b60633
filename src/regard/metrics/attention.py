"""What weights are like: how spread, how sparse, and how near to the word alignment of a human."""

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.base import ConfigError, ShapeError

Link = tuple[int, ...]  # (target position, source position); over a corpus (sentence, target, source)


def entropy(weights: NDArray[Any]) -> NDArray[np.float64]:
    """H = −Σ_j w_j log w_j in nats, of each row: weights [*b k] → [*b]. One key is 0, k equal ones are log k.

    >>> entropy(np.array([[1.0, 0.0], [0.5, 0.5]])).round(4) + 0
    array([0.    , 0.6931])
    """
    weights = _checked(weights)
    logs = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
    return np.asarray(-(weights * logs).sum(-1))


def support_size(weights: NDArray[Any], threshold: float = 0.0) -> NDArray[np.int64]:
    """How many keys have more weight than `threshold`, in each row: weights [*b k] → [*b].

    >>> support_size(np.array([[0.7, 0.3, 0.0], [0.5, 0.25, 0.25]]))
    array([2, 3])
    """
    return np.asarray((_checked(weights) > threshold).sum(-1))


def hard_links(weights: NDArray[Any]) -> set[Link]:
    """Links (t, s) from each target word to the source word of most weight: weights [t s] → a set.

    Of equals it is the first one. An empty row, all zeros, links to nothing.

    >>> sorted(hard_links(np.array([[0.9, 0.1], [0.2, 0.8], [0.0, 0.0]])))
    [(0, 0), (1, 1)]
    """
    weights = _checked(weights)
    if weights.ndim != 2:
        raise ShapeError(
            "links come from one matrix",
            got=list(weights.shape),
            expected="[target words, source words]",
            cure="take one sentence, and one head or the mean over heads",
        )
    if weights.shape[1] == 0:
        return set()
    return {(t, int(s)) for t, s in enumerate(weights.argmax(1)) if weights[t, s] > 0}


def weight_by_distance(weights: NDArray[Any]) -> NDArray[np.float64]:
    """The share of the weight that falls on each distance, a mean over the queries: weights [*b q k] → [*b k].

    The queries are the last of the keys, as with a memory: query i looks i + k − q − j back at key j. Weight on later
    keys is not counted. Queries whose row is empty do not count either.

    >>> weight_by_distance(np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.25, 0.75]])).round(4)
    array([0.75, 0.25, 0.  ])
    """
    weights = _checked(weights)
    if weights.ndim < 2 or weights.shape[-2] > weights.shape[-1]:
        raise ShapeError(
            "distances need the queries among the keys", got=list(weights.shape), expected="[..., q, k] with q ≤ k"
        )
    num_queries, num_keys = weights.shape[-2:]
    shares = np.zeros((*weights.shape[:-2], num_keys))
    for query in range(num_queries):
        end = query + num_keys - num_queries + 1
        shares[..., :end] += weights[..., query, :end][..., ::-1]
    return np.asarray(shares / np.maximum(1, (weights.sum(-1) > 0).sum(-1))[..., None])


def mean_distance(weights: NDArray[Any]) -> NDArray[np.float64]:
    """How many keys back a query looks, on the mean over its weight and over queries: weights [*b q k] → [*b].

    >>> mean_distance(np.array([[1.0, 0.0], [0.5, 0.5]]))
    array(0.25)
    """
    shares = weight_by_distance(weights)
    return np.asarray(shares @ np.arange(shares.shape[-1], dtype=np.float64))


def alignment_error_rate(links: Collection[Link], sure: Collection[Link], possible: Collection[Link]) -> float:
    """AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|), of links A, sure links S and possible links P (Och and Ney 2003).

    Sure links are possible too, whether `possible` says so or not. 0 is best; nothing found and nothing sure is 0.
    Over a corpus, put the number of the sentence first in every link.

    >>> alignment_error_rate({(0, 0), (1, 2), (2, 1)}, sure={(0, 0), (1, 1)}, possible={(1, 2)})
    0.4
    """
    for name, pairs in (("links", links), ("sure", sure), ("possible", possible)):
        if wrong := [link for link in pairs if not isinstance(link, tuple) or len(link) < 2]:
            raise ConfigError(f"{name} must hold pairs", got=repr(wrong[0]), expected="(target, source)")
    predicted, certain = set(links), set(sure)
    allowed = certain | set(possible)
    total = len(predicted) + len(certain)
    return (total - len(predicted & certain) - len(predicted & allowed)) / total if total else 0.0


def _checked(weights: NDArray[Any]) -> NDArray[np.float64]:
    weights = np.asarray(weights, dtype=np.float64)
    if weights.ndim == 0:
        raise ShapeError("weights need an axis of keys", got="one number", expected="[..., keys]")
    if not (weights >= 0).all():
        raise ConfigError(
            "weights", got=f"a smallest of {weights.min()}", expected="0 or more", cure="pass weights, not scores"
        )
    return weights
