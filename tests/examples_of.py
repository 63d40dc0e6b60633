"""Examples for the tests of all scores, all alignments and all kinds of explanation.

Those of scores and alignments are read from the tables of docs/scores.md and docs/alignments.md: a row says how a
class is built and what holds for it. So a new class enters the tests by its row, and `without_row` names the classes
that have none. What else a test wants to see of a class, such as a learnt key strength, is a variant, which it writes
down itself. Examples of a new kind of explanation are in its own test, where `mirror_of` finds them.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from regard.align import ALIGNS, Align
from regard.score import SCORES, Cosine, Score

DOCS = Path(__file__).parents[1] / "docs"
CELL = re.compile(r"(?<!\\)\|")  # a bar that is not written as \|
YES_OR_NO = {"yes": True, "no": False}
Part = TypeVar("Part")
AS_INSIDE = {"as `score`": {"over edges": "yes", "fused": "dot"}}  # the score inside is a Cosine here


@dataclass(frozen=True)
class ScoreExample:
    """One row of the table in docs/scores.md: how a score is built, and what holds for it."""

    code: str  # such as "General(query_dim, key_dim)"
    kind: type[Score]
    any_widths: bool  # query and keys may differ in width
    over_edges: bool  # it has a form over edge lists
    fused: str  # the form that fused kernels take: "dot", "additive", or "–" for none

    def __call__(self, query_dim: int, key_dim: int | None = None) -> Score:
        """The score for queries and keys of these widths; equal ones, unless both are told."""
        values: dict[str, Any] = {
            "query_dim": query_dim,
            "key_dim": query_dim if key_dim is None else key_dim,
            "hidden_dim": query_dim + 2,
            "dim": query_dim,
            "v": query_dim,
            "max_keys": 64,
            "strength": 3.0,
            "score": Cosine(2.0),
            "σ": query_dim**0.5,  # so that random vectors of any width are neither near nor far
        }
        return build(self.code, self.kind, values, "docs/scores.md")


@dataclass(frozen=True)
class AlignExample:
    """One row of the table in docs/alignments.md: how an alignment is built, and what holds for it."""

    code: str  # such as "Softmax(temperature)"
    kind: type[Align]
    over_edges: bool  # it has a form over edge lists
    sums_to_one: bool  # so do the weights of every row in which a key may be attended to
    is_smooth: bool  # its gradient is that of its weights, so finite differences agree with it

    def __call__(self, query_dim: int) -> Align:
        """The alignment for queries of this width, without noise."""
        values: dict[str, Any] = {
            "query_dim": query_dim,
            "temperature": 0.7,
            "alpha": 1.5,
            "offset": -1.0,
            "k": 2,
            "estimator": "argmax",
            "window": 2,
            "noise": 0.0,
        }
        return build(self.code, self.kind, values, "docs/alignments.md")


def build(code: str, kind: type[Part], values: Mapping[str, Any], page: str) -> Part:
    """What the code of a row makes, with these words as arguments."""
    try:
        part = eval(code, {kind.__name__: kind, **values})
    except NameError as error:
        known = ", ".join(values)
        raise AssertionError(f"{page}, row `{code}`: {error}; arguments may be {known}, or name=number") from None
    assert isinstance(part, kind)
    return part


def score_examples(page: str) -> dict[str, ScoreExample]:
    """The rows of the page on scores by name: that of the menu, and of several rows of a class also their word."""
    examples = {}
    for row in rows(page):
        code = row["class"].strip("`")
        edges, fused = (AS_INSIDE.get(row[column], row)[column] for column in ("over edges", "fused"))
        kind = class_of(code, SCORES, "docs/scores.md")
        assert row["widths"] in ("any", "equal"), f"{code}: widths are “any” or “equal”, not {row['widths']!r}"
        assert fused in ("dot", "additive", "–"), f"{code}: fused is “dot”, “additive” or “–”, not {fused!r}"
        assert edges in YES_OR_NO, f"{code}: over edges is “yes” or “no”, not {edges!r}"
        examples[name_of(code, SCORES, kind)] = ScoreExample(
            code, kind, row["widths"] == "any", YES_OR_NO[edges], fused
        )
    return examples


def align_examples(page: str) -> dict[str, AlignExample]:
    """The rows of the page on alignments by name."""
    examples = {}
    for row in rows(page):
        code = row["class"].strip("`")
        kind = class_of(code, ALIGNS, "docs/alignments.md")
        assert row["over edges"] in YES_OR_NO, f"{code}: over edges is “yes” or “no”, not {row['over edges']!r}"
        facts = YES_OR_NO[row["over edges"]], row["sum of a row"] == "1", row["gradient"] == "exact"
        examples[name_of(code, ALIGNS, kind)] = AlignExample(code, kind, *facts)
    return examples


def mirror_of(kind: str) -> ModuleType:
    """The test of a kind of explanation, which has an `EXAMPLE` of it and makes others: `random_example(rng)`."""
    path = Path(__file__).parent / "explanation" / f"test_{kind}.py"
    assert path.exists(), f"{kind} is on the menu of explanations, and has no test {path.name}"
    spec = spec_from_file_location(f"mirror_{kind}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in ("EXAMPLE", "random_example"):
        assert hasattr(module, name), f"{path.name} has no {name}, which the tests of all kinds take from it"
    return module


def rows(page: str) -> list[dict[str, str]]:
    """The first table of a page: its cells by the heads of their columns."""
    lines = [line for line in page.partition("\n## ")[0].splitlines() if line.startswith("|")]
    head, _, *others = ([cell.strip() for cell in CELL.split(line)[1:-1]] for line in lines)
    return [dict(zip(head, cells, strict=True)) for cells in others]


def class_of(code: str, menu: Mapping[str, type], page: str) -> Any:
    """The class that the code of a row builds, which is on the menu."""
    kinds = {kind.__name__: kind for kind in menu.values()}
    name = code.partition("(")[0]
    assert name in kinds, f"{page} has a row for {name}, which is not on the menu"
    return kinds[name]


def name_of(code: str, menu: Mapping[str, type], kind: type) -> str:
    """The name on the menu, with the word in quotation marks of the code: distance_gaussian."""
    name = next(name for name, other in menu.items() if other is kind)
    return "_".join([name, *re.findall(r'"(\w+)"', code)])


def without_row(menu: Mapping[str, type], examples: Iterable[ScoreExample | AlignExample]) -> list[str]:
    """The names of the classes of a menu that no row of the page builds."""
    kinds = {example.kind for example in examples}
    return [kind.__name__ for kind in menu.values() if kind not in kinds]


SCORE_EXAMPLES = score_examples((DOCS / "scores.md").read_text())
ALIGN_EXAMPLES = align_examples((DOCS / "alignments.md").read_text())


def scores(width: int, **variants: Callable[[], Score]) -> dict[str, Callable[[], Score]]:
    """What builds each score for queries and keys of one width, and then the variants of a test."""
    return {name: _late(example, width) for name, example in SCORE_EXAMPLES.items()} | variants


def edge_scores(width: int, **variants: Callable[[], Score]) -> dict[str, Callable[[], Score]]:
    """The same, of those that work over edge lists."""
    return {name: _late(each, width) for name, each in SCORE_EXAMPLES.items() if each.over_edges} | variants


def aligns(width: int, **variants: Callable[[], Align]) -> dict[str, Callable[[], Align]]:
    """What builds each alignment for queries of this width, and then the variants of a test."""
    return {name: _late(example, width) for name, example in ALIGN_EXAMPLES.items()} | variants


def edge_aligns(width: int, **variants: Callable[[], Align]) -> dict[str, Callable[[], Align]]:
    """The same, of those that work over edge lists."""
    return {name: _late(each, width) for name, each in ALIGN_EXAMPLES.items() if each.over_edges} | variants


def _late(example: Callable[[int], Any], width: int) -> Callable[[], Any]:
    return lambda: example(width)
