"""Concepts: what each word of a text takes in of every other word, layer by layer, and what it is then made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from regard.base import ConfigError, shown
from regard.explanation.explanation import Explanation
from regard.explanation.values import as_labels, as_numbers, as_text

_SUM = 3  # words in a sum


class Neighbour(NamedTuple):
    """A word that another one takes in."""

    word: str
    place: int  # in the text, from 0
    weight: float


@dataclass(frozen=True, eq=False)
class Concepts(Explanation):
    """Weights [layers words words] of all pairs of words: row i says what word i takes in at a layer.

    `residual` is the share of a word that passes by a layer unchanged; the rest is what it takes in. Layer after layer,
    a word becomes a mixture of words: `made_of` says which. `heads` says of which heads the weights are.

    >>> concepts = Concepts([[[0.2, 0.8], [0.5, 0.5]], [[0.0, 1.0], [0.0, 1.0]]], ["black", "cat"], residual=0.0)
    >>> concepts.as_sum(1, 0)
    'black = 0.50 black + 0.50 cat'
    """

    kind: ClassVar[str] = "concepts"
    caption: ClassVar[str] = "what each word is made of"

    weights: Any  # [layers words words]
    words: Sequence[str]
    layers: Sequence[str] = ()  # their names; none: they are numbered
    residual: int | float = 0.5
    heads: str = ""  # such as "mean of 8 heads"
    title: str = ""

    def __post_init__(self) -> None:
        words = as_labels("words", self.words)
        weights = as_numbers("weights of concepts", self.weights, {3: "[layers words words]"})
        if weights.size == 0 and not words:
            weights = weights.reshape(len(weights), 0, 0)
        for axis in (1, 2):
            words = as_labels("words", words, weights.shape[axis])
        layers = as_labels("layers", self.layers) or tuple(f"layer {number + 1}" for number in range(len(weights)))
        self._set(
            weights=weights,
            words=words,
            layers=as_labels("layers", layers, len(weights)),
            residual=_share(self.residual),
            heads=as_text("the heads of concepts", self.heads),
            title=as_text("the title of concepts", self.title),
        )

    def neighbours(self, layer: int, word: int, count: int = _SUM) -> list[Neighbour]:
        """The words that a word takes in most at one layer, the largest weight first; itself may be among them."""
        return self._largest(self.weights[self._checked(layer, word)], count)

    def made_of(
        self, layer: int, word: int, count: int = _SUM, *, residual: int | float | None = None
    ) -> list[Neighbour]:
        """The words of the text that a word is made of after a layer, the largest share first."""
        return self._largest(self.through_layers(residual)[self._checked(layer, word)], count)

    def through_layers(self, residual: int | float | None = None) -> Float[ndarray, "layers words words"]:
        """Shares [layers words words]: what each word is made of after each layer, the layers before it included.

        The weights of all layers up to it are multiplied (attention rollout, Abnar & Zuidema 2020), each after
        `residual` of every word was left as it is; 0 multiplies the weights alone. Rows are non-negative and sum to 1.
        A word that takes in nothing stays what it is.
        """
        kept = self.residual if residual is None else _share(residual)
        shares = np.maximum(self.weights, 0)
        totals, alone = shares.sum(-1, keepdims=True), np.eye(len(self.words))
        shares = np.where(totals > 0, shares / np.where(totals > 0, totals, 1), alone)
        mixed, composed = alone, []
        for layer in kept * alone + (1 - kept) * shares:
            mixed = layer @ mixed
            composed.append(mixed)
        return np.array(composed).reshape(self.weights.shape)

    def as_sum(self, layer: int, word: int, count: int = _SUM) -> str:
        """What a word is made of after a layer, as a line of text; … stands for what is left out."""
        shares = [each for each in self.made_of(layer, word, count) if each.weight >= 0.005]
        terms = [f"{each.weight:.2f} {_plain(each.word)}" for each in shares]
        rest = 1 - sum(each.weight for each in shares)
        return f"{_plain(self.words[word])} = {' + '.join([*terms, *['…'] * (rest >= 0.005)])}"

    def html(self) -> str:
        """The matrix of all pairs, which answers to the pointer, and a table of what each word is made of at the end.

        The tables of the other layers are in elements that open.
        """
        from regard.explanation.svg import text  # both know some of the kinds
        from regard.explanation.widget import matrix_figure

        if not self.weights.size:
            return ""
        panels = dict(zip(_different(self.layers), self.weights, strict=True))
        heads = f" ({text(self.heads)})" if self.heads else ""
        *before, last = range(len(self.weights))
        body = matrix_figure(panels, self.words, self.words, f"what each word (left) takes in{heads}")
        body += f'<p class="said">after {text(self.layers[last])}</p>{self._table(last)}'
        for layer in before:
            body += f"<details><summary>after {text(self.layers[layer])}</summary>{self._table(layer)}</details>"
        return body

    def _table(self, layer: int) -> str:
        from regard.explanation.svg import text

        rows = []
        for number, shares in enumerate(self.through_layers()[layer]):
            left, bars = 0.0, []
            for share, place in sorted(zip(shares.tolist(), range(len(shares)), strict=True), reverse=True):
                shape = f'd="M{100 * left:.2f} 0h{100 * share:.2f}v1h-{100 * share:.2f}z"'
                tip = f"<title>{text(_plain(self.words[place]))} {share:.3f}</title>"
                bars.append(f'<path {shape} style="fill:hsl({hue(place)} 60% 50%)">{tip}</path>')
                left += share
            picture = (
                f'<svg width="160" height="10" viewBox="0 0 100 1" preserveAspectRatio="none">{"".join(bars)}</svg>'
            )
            rows.append(f'<tr><td>{picture}</td><td dir="auto">{text(self.as_sum(layer, number))}</td></tr>')
        return f'<div class="scroll" tabindex="0"><table class="facts"><tbody>{"".join(rows)}</tbody></table></div>'

    def _checked(self, layer: int, word: int) -> tuple[int, int]:
        """Numbers of a layer and of a word that are there; negative ones count from the end."""
        for what, number, size in (("layer", layer, len(self.weights)), ("word", word, len(self.words))):
            if not -size <= number < size:
                raise ConfigError(f"number of a {what}", got=shown(number), expected=f"from 0 to {size - 1}")
        return layer, word

    def _largest(self, row: Float[ndarray, " words"], count: int) -> list[Neighbour]:
        places = np.argsort(-row, kind="stable")[: max(count, 0)].tolist()
        return [Neighbour(self.words[place], place, float(row[place])) for place in places]


def hue(place: int) -> int:
    """The colour of the word at a place, in degrees: neighbours are far apart, and the first twelve differ.

    >>> sorted(hue(place) for place in range(12)) == list(range(0, 360, 30))
    True
    """
    return 150 * place % 360 if place < 12 else (150 * place + 15) % 360


def _share(residual: Any) -> float:
    """A residual share, checked."""
    share = float(as_numbers("the residual share of concepts", residual, {0: "one number"}))
    if not 0 <= share < 1:
        raise ConfigError("the residual share of concepts", got=share, expected="from 0 to below 1")
    return share


def _plain(word: str) -> str:
    """A word without the sign of a sub-word that begins a word."""
    return word.removeprefix("▁") or word


def _different(names: Sequence[str]) -> list[str]:
    """Names of which none comes twice: later ones get a number."""
    return [name if names.index(name) == place else f"{name} ({place + 1})" for place, name in enumerate(names)]
