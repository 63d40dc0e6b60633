"""The range of a setting, written into its type: which values make sense, and how to say so.

>>> Rate = Annotated[float, Range(above=0, cure="use 0.001, a usual value")]
>>> Range(least=1).check("train.steps", 0)
Traceback (most recent call last):
    ...
regard.base.errors.ConfigError: train.steps: got 0; expected 1 or more
>>> Range(least=0, below=1).check("model.dropout", math.nan)
Traceback (most recent call last):
    ...
regard.base.errors.ConfigError: model.dropout: got nan; expected 0 ≤ dropout < 1

`regard.base.check_settings` reads the types of a dataclass and checks every field.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from regard.base.errors import ConfigError, did_you_mean, shown

Number = int | float
LARGEST_INT = 2**31 - 1  # of a setting that says nothing else: counts, sizes, steps
LARGEST_FLOAT = 1e15  # the same: its square is still a float32
TELLING = 1000  # a limit below this says something about the setting, one above it is only there for the machine


@dataclass(frozen=True, kw_only=True, repr=False)
class Range:
    """Numbers from `least` or `above` up to `most` or `below`. Infinity and NaN are never in it."""

    least: Number | None = None
    above: Number | None = None
    most: Number | None = None
    below: Number | None = None
    cure: str | None = None  # what to try, such as "use 0.9, a usual value"

    def __repr__(self) -> str:
        limits = {name: value for name, value in vars(self).items() if value is not None and name != "cure"}
        return f"Range({', '.join(f'{name}={value}' for name, value in limits.items())})"

    def check(self, where: str, value: Number) -> None:
        """An error that names the setting, unless `value` is in the range."""
        ceiling, finite = self._ceiling(value), isinstance(value, int) or math.isfinite(value)
        inside = (
            finite
            and (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
            and -ceiling <= value <= ceiling
        )
        if not inside:
            expected = self._expected(where.rpartition(".")[2], value, ceiling if finite else None)
            raise ConfigError(where, got=shown(value), expected=expected, cure=self.cure)

    def _ceiling(self, value: Number) -> Number:
        if self.most is not None:
            return self.most
        return LARGEST_INT if isinstance(value, int) else LARGEST_FLOAT

    def _expected(self, name: str, value: Number, ceiling: Number | None) -> str:
        strict = self.above is not None and (self.least is None or not value > self.above)
        low = self.above if strict else self.least
        high = self.most if self.below is None else self.below
        if low is not None and high is not None and high < TELLING:
            if not strict and self.below is None:
                return f"{low} to {high}"
            if strict and self.below is not None:
                return f"between {low} and {high}"
            return f"{low} < {name} ≤ {high}" if strict else f"{low} ≤ {name} < {high}"
        if ceiling is not None and value > ceiling:
            return f"at most {ceiling:,}" if isinstance(value, int) else f"at most {ceiling:g}"
        if ceiling is not None and low is None:
            return f"at least {-ceiling:,}" if isinstance(value, int) else f"at least {-ceiling:g}"
        finite = "a finite number" if ceiling is None else ""
        least = "" if low is None else f"more than {low}" if strict else f"{low} or more"
        return ", ".join(bound for bound in (finite, least) if bound)


@dataclass(frozen=True)
class OneOf:
    """A setting that takes one of the names of a menu."""

    menu: Iterable[str]

    def check(self, where: str, value: str) -> None:
        """An error that lists the menu, and says which name was meant, unless `value` is on it."""
        if value not in (names := list(self.menu)):
            expected, cure = f"one of {', '.join(names)}", did_you_mean(value, names)
            raise ConfigError(where, got=shown(value), expected=expected, cure=cure)


@dataclass(frozen=True)
class PathMark:
    """Marks a setting that names a file or a folder of the user: it is followed only where the user gave it."""

    def check(self, where: str, value: str) -> None:
        """Any name will do: whether the file is there is asked when it is read."""


UserPath = Annotated[str, PathMark()]
UserFiles = UserPath | tuple[UserPath, ...]  # a path or a pattern such as corpus.*.de.gz, or several of them
Seed = Annotated[int, Range(least=0, most=2**63 - 1)]  # what torch and numpy both take
Natural = Annotated[int, Range(least=0)]
Count = Annotated[int, Range(least=1)]
BatchSize = Annotated[int, Range(least=1, most=2**20)]  # rows that are held together
VOCABULARY = Range(least=5, most=1_000_000, cure="use 8000, a usual size; four are <pad>, <bos>, <eos> and <unk>")
VocabularySize = Annotated[int, VOCABULARY]
Vocabulary = Annotated[int, Range(least=0)]  # of a model; 0 until the data has filled it in
Width = Annotated[int, Range(least=1, most=2**20)]  # of a layer; what fits into memory is asked when a model is built
Few = Annotated[int, Range(least=1, most=1000)]  # layers, heads, glimpses: a module or a step of a loop each
Pixels = Annotated[int, Range(least=1, most=2**14)]  # of a side
Scales = Annotated[int, Range(least=1, most=16)]  # each twice as wide as the one before
Margin = Annotated[int, Range(least=0, most=2**14)]  # pixels, or none
Positive = Annotated[float, Range(above=0)]
Weight = Annotated[float, Range(least=0)]  # of a term of a loss, or a penalty
Share = Annotated[float, Range(least=0, below=1)]  # of which something is left, such as dropout
UpToOne = Annotated[float, Range(least=0, most=1)]
CERTAINTY = Range(above=0, below=1, cure="use 0.5, a usual value")  # how likely a stop must be
Certainty = Annotated[float, CERTAINTY]
Alpha = Annotated[float, Range(least=0, cure="use a number from 0.5 to 5")]  # of R-Drop
