"""The layers of a translator that look at the source, all of them and the best aligned head of all.

A Transformer looks at the source in every layer with every head, and only some of these weights are an alignment. The
best aligned head is the one that agrees most with a word alignment which is learnt from the same held-out pairs and
knows nothing of the model: IBM model 1 (Brown et al. 1993) with a preference for the diagonal (Dyer et al. 2013).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray

from regard.attention import trace
from regard.base import ConfigError
from regard.data import Pair, collate, evaluation_batches
from regard.explanation import Matrix
from regard.nn import device_of, evaluating

SIDES = ("source", "target")
MOST_PAIRS, MOST_TRACED = 2000, 400  # of a split: to learn the word alignment from, and to compare heads on
_ROUNDS, _DIAGONAL, _NOTHING = 6, 4.0, 0.08  # of learning; how sharp the diagonal is; share of words without a source
_MEASURE = "share of the weights on the words that IBM model 1 with a diagonal prior aligns"


@dataclass(frozen=True)
class HeadChoice:
    """The best aligned head of a model, and how well every head is aligned: from 0 (never) to 1 (always)."""

    layer: str
    head: int
    agreements: dict[str, list[float]]  # of each layer, by head
    pairs: int  # sentence pairs that were looked at
    measure: str = _MEASURE

    @property
    def agreement(self) -> float:
        """That of the best aligned head."""
        return self.agreements[self.layer][self.head]


@torch.no_grad()
def source_layers(model: Any, pair: Pair, rows: Sequence[str], columns: Sequence[str]) -> list[Matrix]:
    """All weights over the source behind a pair of encoded sentences, one matrix [t k] or [h t k] for each layer."""
    return _traced(model, pair, model.source_layers, rows, columns, ("translation", "source"))


@torch.no_grad()
def self_layers(model: Any, pair: Pair, words: Sequence[str], side: str) -> list[Matrix]:
    """What the words of the source, or those of the translation, take from each other, a matrix for each layer.

    Words of a translation see those before them: the row of a word is the step that wrote it, and its columns are
    <bos> and the words that were written before.
    """
    pattern = getattr(model, {"source": "self_attention_layers", "target": "target_self_layers"}[side], "")
    if not pattern:
        cure = "load a Transformer, such as tatoeba-en-fr"
        raise ConfigError(f"the words of the {side} do not attend to each other", got=type(model).__name__, cure=cure)
    if side == "source":
        return _traced(model, pair, pattern, words, words, ("source", "source"))
    return _traced(model, pair, pattern, words, ("<bos>", *words[:-1]), ("translation", "words before"))


def _traced(
    model: Any, pair: Pair, pattern: str, rows: Sequence[str], columns: Sequence[str], axes: tuple[str, str]
) -> list[Matrix]:
    """The translation is fed to the model again, so that every layer sees all of it."""
    batch = collate([pair]).to(device_of(model))  # <eos> is added
    with evaluating(model), trace(model, layers=pattern, may_be_empty=True) as seen:
        model(batch.source, batch.source_lengths, batch.inputs)
    rows, columns = tuple(rows), tuple(columns)
    return [
        Matrix(record.item(0).weights[..., : len(rows), : len(columns)], rows, columns, layer=name, axes=axes)
        for name, record in seen.items()
    ]


@torch.no_grad()
def best_head(model: Any, pairs: Sequence[Pair]) -> HeadChoice | None:
    """The head that is best aligned on these encoded pairs; None for a model that has no heads to choose from."""
    pairs = [pair for pair in pairs if pair[0] and pair[1]][:MOST_PAIRS]
    if not getattr(model, "can_choose_head", False) or not pairs:
        return None
    aligned = word_alignments(pairs)
    shown = range(min(len(pairs), MOST_TRACED))
    sums: dict[str, Float[ndarray, " heads"]] = {}
    total = sum(float(aligned[number].sum()) for number in shown)
    with evaluating(model):
        for batch in evaluation_batches([pairs[number] for number in shown], max_tokens=2048):
            here = batch.to(device_of(model))
            with trace(model, layers=model.source_layers) as seen:
                model(here.source, here.source_lengths, here.inputs)
            for layer, record in seen.items():
                for row, number in enumerate(batch.indices):
                    links = aligned[number]
                    weights = np.asarray(record.weights[row])[:, : links.shape[0], : links.shape[1]]
                    part = np.einsum("htk,tk->h", weights, links)
                    sums[layer] = sums.get(layer, np.zeros(len(weights))) + part
    agreements = {layer: (each / max(total, 1e-9)).round(4).tolist() for layer, each in sums.items()}
    layer, head = max(
        ((name, place) for name, each in agreements.items() for place in range(len(each))),
        key=lambda place: agreements[place[0]][place[1]],
    )
    return HeadChoice(layer, head, agreements, len(shown))


def word_alignments(pairs: Sequence[Pair]) -> list[Float[ndarray, "t k"]]:
    """How likely each target token comes from each source token: learnt from these pairs alone, without a model.

    A row sums to one less the probability that the token comes from nothing.

    >>> one, two, both = word_alignments([([5], [8]), ([6], [9]), ([5, 6], [8, 9])] * 5)[-3:]
    >>> both.argmax(1).tolist()
    [0, 1]
    """
    shapes = [(len(target), len(source)) for source, target in pairs]
    sizes = [high * (wide + 1) for high, wide in shapes]
    words = np.concatenate([np.tile([*source, 0], len(target)) for source, target in pairs])  # 0: nothing
    others = np.concatenate([np.repeat(target, len(source) + 1) for source, target in pairs])
    prior = np.concatenate([_prior(*shape).ravel() for shape in shapes])
    owner = np.concatenate([np.repeat(np.arange(high), wide + 1) for high, wide in shapes])
    owner += np.repeat(np.cumsum([0, *(high for high, _ in shapes[:-1])]), sizes)
    kinds, place = np.unique(words.astype(np.int64) * (int(others.max()) + 1) + others, return_inverse=True)
    sources = kinds // (int(others.max()) + 1)
    table = np.ones(len(kinds))
    for _ in range(_ROUNDS):
        share = _shares(table[place] * prior, owner)
        counts = np.bincount(place, share, minlength=len(kinds)) + 1e-9
        table = counts / np.bincount(sources, counts)[sources]
    parts = np.split(_shares(table[place] * prior, owner), np.cumsum(sizes)[:-1])
    return [part.reshape(high, wide + 1)[:, :-1] for part, (high, wide) in zip(parts, shapes, strict=True)]


def _prior(high: int, wide: int) -> Float[ndarray, "t k"]:
    """How likely a place of the target comes from each place of the source, and in the last column from nothing."""
    down, across = (np.arange(high) + 0.5) / high, (np.arange(wide) + 0.5) / wide
    near = np.exp(-_DIAGONAL * np.abs(down[:, None] - across[None, :]))
    near *= (1 - _NOTHING) / near.sum(1, keepdims=True)
    return np.concatenate([near, np.full((high, 1), _NOTHING)], 1)


def _shares(values: Float[ndarray, " n"], owner: Int[ndarray, " n"]) -> Float[ndarray, " n"]:
    """Each value as a share of all those of its owner."""
    shares: ndarray = values / np.bincount(owner, values)[owner]
    return shares


def chosen_head(matrices: Sequence[Matrix], layer: int | None, head: int | None) -> Matrix:
    """One matrix [rows columns] of the layers of a model: of a layer (None: the last), of a head (None: their mean)."""
    if not matrices:
        raise ConfigError("there is no layer to choose", got="a model without attention", cure="draw a model that has")
    number = len(matrices) - 1 if layer is None else layer
    names = ", ".join(f"{place} ({matrix.layer})" for place, matrix in enumerate(matrices))
    if not 0 <= number < len(matrices):
        raise ConfigError("there is no such layer", got=number, expected=f"one of {names}")
    matrix = matrices[number]
    if matrix.weights.ndim == 2:
        if head not in (None, 0):
            raise ConfigError(f"{matrix.layer} has one head", got=f"head {head}", cure="leave --head out")
        return matrix
    count = len(matrix.weights)
    if head is None:
        weights, name = matrix.weights.mean(0), f"mean of the {count} heads of {matrix.layer}"
    elif 0 <= head < count:
        weights, name = matrix.weights[head], f"{matrix.layer}, head {head}"
    else:
        raise ConfigError(f"there is no such head in {matrix.layer}", got=head, expected=f"0 to {count - 1}")
    return Matrix(weights, matrix.rows, matrix.columns, layer=name, title=matrix.title, axes=matrix.axes)
