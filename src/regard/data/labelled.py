r"""Texts with a label each, or pairs of texts: read from files that may be broken, and split.

A file has one example a line: tab-separated (`label<TAB>text` or `label<TAB>text<TAB>second text`, with or without a
line of names above), or JSON (`{"label": "good", "text": "…"}`, or `premise` and `hypothesis` in place of `text`).
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.base import RegardError, parse_json, shown
from regard.data.parallel import OPENERS, DataError, ParallelText, Place, read_lines, split_by_source

LABELS = ("label", "gold_label", "class", "stars")  # names of the column of labels
TEXTS = (  # names of the columns of texts: of one text, and of two
    ("text",), ("sentence",), ("review",), ("premise", "hypothesis"), ("sentence1", "sentence2"), ("text", "second"),
    ("text1", "text2"),
)  # fmt: skip
MAX_CLASSES = 1000


@dataclass(frozen=True, eq=False)
class LabelledTexts:
    """One split: the texts, one list for each side (two for pairs), the number of each label, and the classes' names.

    >>> reviews = LabelledTexts((["fine", "dull"],), [1, 0], ("negative", "positive"))
    >>> reviews.size, reviews.sides, reviews.name(0)
    (2, 1, 'positive')
    """

    texts: tuple[list[str], ...]
    labels: list[int]
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        lengths = [len(side) for side in self.texts]
        if not lengths or set(lengths) != {len(self.labels)}:
            got = f"{' and '.join(map(str, lengths))} texts, {len(self.labels)} labels"
            raise DataError("texts and labels do not fit together", got=got, expected="a label for each text")

    @property
    def size(self) -> int:
        """The number of examples."""
        return len(self.labels)

    @property
    def sides(self) -> int:
        """How many texts an example has: 1, or 2 for pairs."""
        return len(self.texts)

    def name(self, number: int) -> str:
        """The label of an example in words."""
        return self.classes[self.labels[number]]

    def example(self, number: int) -> tuple[str, ...]:
        """The texts of one example."""
        return tuple(side[number] for side in self.texts)

    def take(self, rows: Sequence[int]) -> "LabelledTexts":
        """These examples, in this order."""
        texts = tuple([side[row] for row in rows] for side in self.texts)
        return LabelledTexts(texts, [self.labels[row] for row in rows], self.classes)


def hold_out(texts: LabelledTexts, sizes: Mapping[str, int], *, seed: int, run: int = 1) -> dict[str, LabelledTexts]:
    """A split "train" and others of these sizes, drawn at random by a seed; the rows of each keep their order.

    With `run` examples are drawn in runs of so many that follow one another, and only a run that must fill a size may
    be cut: for files in which texts about one thing stand together.

    >>> whole = LabelledTexts((list("abcdef"),), [0, 1] * 3, ("no", "yes"))
    >>> {name: split.size for name, split in hold_out(whole, {"valid": 2, "test": 1}, seed=0).items()}
    {'train': 3, 'valid': 2, 'test': 1}
    """
    if sum(sizes.values()) >= texts.size:
        got = f"{texts.size} examples, of which {sum(sizes.values())} are held out"
        raise DataError("nothing is left to train on", got=got, cure="read more data")
    runs = np.random.default_rng(seed).permutation(-(-texts.size // run))
    order = (runs[:, None] * run + np.arange(run)).ravel()
    order = order[order < texts.size]
    splits, start = {}, 0
    for name, size in sizes.items():
        splits[name] = texts.take(np.sort(order[start : start + size]).tolist())
        start += size
    return {"train": texts.take(np.sort(order[start:]).tolist()), **splits}


def split_labelled(texts: LabelledTexts, *, valid: int, test: int) -> dict[str, LabelledTexts]:
    """Three splits by a hash of the first text, so that equal texts are in one split whatever their order."""
    rows = ParallelText(texts.texts[0], [str(row) for row in range(texts.size)], {})
    splits = split_by_source(rows, valid=valid, test=test)
    return {str(name): texts.take([int(row) for row in split.target]) for name, split in splits.items()}


def read_labelled(path: Place, *, classes: Sequence[str] | None = None) -> LabelledTexts:
    """The examples of a file: tab-separated, or JSON lines where its name ends in .jsonl or .json.

    With `classes` a label must be one of them; else they are those of the file, in the order of numbers or letters.
    Whatever is wrong is an error with file and line.
    """
    read = _json_rows if _suffix(path) in (".jsonl", ".json", ".ndjson") else _table_rows
    rows = list(read(path))
    labels = sorted({label for _, label, _ in rows}, key=_order)
    if classes is None and not 2 <= len(labels) <= MAX_CLASSES:
        got = f"{len(labels)} different labels, such as {shown(labels[0])}"
        cure = "the label comes first: label<TAB>text"
        raise DataError(f"{os.fspath(path)}: these are not classes", got=got, expected=f"2 to {MAX_CLASSES}", cure=cure)
    names = tuple(labels if classes is None else classes)
    numbers = {name: number for number, name in enumerate(names)}
    for line, label, _ in rows:
        if label not in numbers:
            expected = f"one of {', '.join(names[:20])}"
            cure = "take the line out, or train with this label too"
            raise _wrong(path, line, "unknown label", got=shown(label), expected=expected, cure=cure)
    sides = tuple([texts[side] for _, _, texts in rows] for side in range(len(rows[0][2])))
    return LabelledTexts(sides, [numbers[label] for _, label, _ in rows], names)


Row = tuple[int, str, tuple[str, ...]]  # line, label, texts


def _table_rows(path: Place) -> Iterator[Row]:
    """The rows of a tab-separated file."""
    places: tuple[int, ...] | None = None
    width = 0
    for line, text in enumerate(read_lines(path), 1):
        cells = text.split("\t")
        if places is None:
            width, header = len(cells), _header([cell.strip().lower() for cell in cells])
            if header is None and width not in (2, 3):
                expected, cure = "label<TAB>text, or label<TAB>text<TAB>second text", _named_columns()
                got = f"{width} column{'s' * (width != 1)}: {shown(text)}"
                raise _wrong(path, line, "unknown columns", got=got, expected=expected, cure=cure)
            places = header or tuple(range(width))
            if header is not None:
                continue
        if len(cells) != width:
            cure = "a text must not hold a tab: write a space in its place"
            got, expected = f"{len(cells)} columns", f"{width}, as in the first line"
            raise _wrong(path, line, "wrong number of columns", got=got, expected=expected, cure=cure)
        yield line, *_checked(path, line, [cells[place] for place in places])
    if places is None or (line == 1 and header is not None):
        raise DataError(f"{os.fspath(path)}: there are no examples", got="only names of columns", expected="examples")


def _header(names: list[str]) -> tuple[int, ...] | None:
    """Where label and texts stand, if this line has the names of columns."""
    label = next((name for name in LABELS if name in names), None)
    columns = max((each for each in TEXTS if set(each) <= set(names)), key=len, default=None)
    return None if label is None or columns is None else tuple(names.index(name) for name in (label, *columns))


def _json_rows(path: Place) -> Iterator[Row]:
    """The rows of a file with a JSON object a line."""
    columns: tuple[str, ...] | None = None
    for line, text in enumerate(read_lines(path), 1):
        expected, cure = 'an object such as {"label": "good", "text": "…"}', "one object a line"
        try:
            content = parse_json(text)
        except RegardError as error:
            raise _wrong(path, line, "this is not JSON", got=error.got, expected=expected, cure=cure) from None
        if not isinstance(content, dict):
            raise _wrong(path, line, "this is not an example", got=shown(content), expected=expected, cure=cure)
        label = next((name for name in LABELS if name in content), None)
        fitting = max((each for each in TEXTS if set(each) <= set(content)), key=len, default=None)
        if label is None or fitting is None or fitting != (columns or fitting):
            got = f"the fields {', '.join(map(str, content)) or 'none'}"
            wanted = f"label and {' and '.join(columns)}" if columns else "label and text"
            raise _wrong(path, line, "fields are missing", got=got, expected=wanted, cure=_named_columns())
        columns = fitting
        yield line, *_checked(path, line, [content[name] for name in (label, *fitting)])


def _checked(path: Place, line: int, cells: Sequence[Any]) -> tuple[str, tuple[str, ...]]:
    """The label and the texts of an example, none of them empty."""
    label = cells[0] if isinstance(cells[0], str) else str(cells[0]) if isinstance(cells[0], int | bool) else None
    if label is None or not label.strip():
        raise _wrong(path, line, "the label is missing", got=shown(cells[0]), expected="a word or a whole number")
    for text in cells[1:]:
        if not isinstance(text, str) or not text.strip():
            raise _wrong(path, line, "the text is empty", got=shown(text), expected="a text", cure="take the line out")
    return label.strip(), tuple(text.strip() for text in cells[1:])


def _wrong(path: Place, line: int, what: str, *, got: object, expected: str, cure: str | None = None) -> DataError:
    return DataError(f"{os.fspath(path)}, line {line}: {what}", got=got, expected=expected, cure=cure)


def _named_columns() -> str:
    return f"call the columns label and {', or '.join(' and '.join(each) for each in TEXTS[:4])}"


def _suffix(path: Place) -> str:
    name = Path(path)
    return (name.with_suffix("") if name.suffix.lower() in OPENERS else name).suffix.lower()


def _order(label: str) -> tuple[float, str]:
    """Numbers in their order, then words."""
    try:
        return float(int(label)), label
    except ValueError:
        return float("inf"), label
