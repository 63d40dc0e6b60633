"""How a task is shown: its figures with their names, and the tables and curves that are made of them.

Every task has one `Display`. The command line, the list of recipes, the report, the ledger and the documents read it,
and know nothing else of the task's numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple


class Point(NamedTuple):
    """One point of a chart: the words below it, its height (None where there is no value), and how many it is of."""

    label: str
    value: float | None
    size: int | None = None


@dataclass(frozen=True)
class Figure:
    """One number of an evaluation, as people read it."""

    key: str  # its name among the figures
    label: str
    decimals: int = 2
    better: Literal["higher", "lower"] | None = None
    signature: str | None = None  # the signature that says how it was measured, where it is not that of its own name


@dataclass(frozen=True)
class Column:
    """A column of a table, or a row of a report: one figure, or several with strokes between them."""

    label: str
    keys: tuple[str, ...]
    decimals: int = 1


@dataclass(frozen=True)
class EvaluationChart:
    """A curve that an evaluation gives beside its figures, such as BLEU by the length of the sentence."""

    key: str  # its name among the details of an evaluation
    title: str
    x: str
    y: str
    points: Callable[[Mapping[str, Any]], Sequence[Point]]  # of the details of an evaluation that has the key
    things: str = ""  # what the sizes of its points count; empty: its points have no sizes
    decimals: int = 1


@dataclass(frozen=True)
class Display:
    """Everything that is said about the numbers of a task."""

    figures: tuple[Figure, ...]
    counts: str  # the key of the figure that chooses checkpoints and is drawn beside the loss
    unit: str  # what a batch counts: "tokens"
    things: str  # what a split consists of: "sentences"
    examples: str  # the heading of the examples in a report: "Translations"
    overview: tuple[Column, ...]  # in `regard list` and in docs/results.md
    table: tuple[Column, ...]  # in the documents, before the published number
    more: tuple[Column, ...] = ()  # in the documents, after the published number
    report: tuple[Column, ...] = ()  # rows of a report; empty: those of `table` and `more`
    signatures: Mapping[str, str] = field(default_factory=dict)  # those below a table, and what they belong to
    note: str = ""  # what the figures are, below a table
    list_note: str = ""  # the same below `regard list`; empty: `note`
    charts: tuple[EvaluationChart, ...] = ()
    speed: str | None = None  # the key of the figure that says how quick predictions are
    after_training: bool = True  # whether `regard train` ends with an evaluation and drawings; it may take minutes

    def figure(self, key: str) -> Figure:
        """The figure of this key; one that is not described here is shown under its own name."""
        return next((figure for figure in self.figures if figure.key == key), Figure(key, key.replace("_", " ")))

    @property
    def counted(self) -> Figure:
        """The figure that counts."""
        return self.figure(self.counts)

    @property
    def report_rows(self) -> tuple[Column, ...]:
        """The rows of a report."""
        return self.report or (*self.table, *self.more)

    def decimals(self, key: str) -> int:
        """With how many decimals the documents show a figure."""
        columns = (*self.table, *self.more, *self.overview)
        return next((column.decimals for column in columns if key in column.keys), 1)
