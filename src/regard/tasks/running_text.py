"""Lines of a running text: the first ones, the short ones, their characters, and how well each was predicted."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.data import TextUnits
from regard.metrics.language import perplexity

LOOKED_AT = 2000  # lines among which short ones are looked for
LONGEST = 40  # tokens of a short line


def first_lines(text: str, units: TextUnits, limit: int) -> str:
    """The first lines of a text, with so many tokens at most; one line at least."""
    ends = np.cumsum([len(sentence) + 1 for sentence in units.sentences(text)])
    count = max(1, int(np.searchsorted(ends, limit, side="right")))
    return "".join(f"{line}\n" for line in text.split("\n")[:count])


def short_lines(text: str, units: TextUnits) -> list[list[str]]:
    """The tokens of each line that has 2 to 40; where no line is so short, the first 40 tokens of each."""
    lines = [units.tokens(line) for line in text.split("\n")[:LOOKED_AT]]
    short = [line for line in lines if 2 <= len(line) <= LONGEST]
    return short or [line[:LONGEST] for line in lines if len(line) >= 2]


def characters_of(text: str) -> int:
    """The characters of a text with its line ends; 1 at least.

    >>> characters_of("ab\\ncd\\n")
    6
    """
    return max(1, sum(len(line) + 1 for line in text.split("\n")) - 1)


def lines_told(text: str, nats: Sequence[NDArray[np.float64]]) -> list[str]:
    """For each line of a text its perplexity, and the line; `nats` has −log p of the tokens of each line."""
    lines = text.split("\n")
    return [f"{perplexity(float(each.sum()), len(each)):.2f}\t{line}" for each, line in zip(nats, lines, strict=False)]
