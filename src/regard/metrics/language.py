"""How well a text was predicted: perplexity, over all tokens and by their place in the line, from −log p of each."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

LARGEST = 700.0  # nats a token: what is beyond has a perplexity that no float holds

Nats = Float[ndarray, "..."]  # −log p of tokens [n]


class PerplexityGroup(NamedTuple):
    """Tokens at some places of their lines."""

    places: str  # "6–10", counted from 1
    size: int  # tokens
    perplexity: float


def perplexity(total: float, count: int) -> float:
    """e to the mean of −log p: among so many equally likely tokens, guessing would be as hard.

    >>> round(perplexity(3 * math.log(20), 3), 6)
    20.0
    """
    return math.exp(min(total / max(count, 1), LARGEST))


def bits_per_character(total: float, characters: int) -> float:
    """−log₂ p of a text, divided by the number of its characters.

    >>> bits_per_character(8 * math.log(2), 4)
    2.0
    """
    return total / math.log(2) / max(characters, 1)


def cut_after(numbers: Nats, tokens: Int[ndarray, "..."], end: int) -> list[Nats]:
    """Numbers of a running text, cut after each token `end`.

    >>> [line.tolist() for line in cut_after(np.array([1.0, 2.0, 3.0]), np.array([7, 2, 8]), end=2)]
    [[1.0, 2.0], [3.0]]
    """
    lines = np.split(numbers, np.flatnonzero(tokens == end) + 1)
    return lines if len(lines[-1]) else lines[:-1]


def perplexity_by_position(lines: Sequence[Nats], edges: Sequence[int]) -> list[PerplexityGroup]:
    """Perplexity by the place of a token in its line; `edges` are the last places of all groups but the last.

    >>> lines = [np.log([2.0, 4.0, 8.0]), np.log([2.0])]
    >>> [(group.places, group.size, round(group.perplexity, 3)) for group in perplexity_by_position(lines, [1])]
    [('1', 2, 2.0), ('from 2', 2, 5.657)]
    """
    groups, start = [], 0
    for edge in (*edges, None):
        group = np.concatenate([np.empty(0), *(line[start:edge] for line in lines)])
        single = f"{start + 1}" if edge == start + 1 else f"{start + 1}–{edge}"
        places = f"from {start + 1}" if edge is None else single
        if len(group):
            groups.append(PerplexityGroup(places, len(group), perplexity(float(group.sum()), len(group))))
        start = edge or start
    return groups
