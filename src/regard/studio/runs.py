"""Trainings and their results: curves while they go on, figures of evaluations, and the ledger of all recipes."""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from regard.base import RegardError, did_you_mean, parse_json, shown
from regard.base.files import inside
from regard.studio.library import named

MOST_POINTS = 600  # of a curve
_FILE = 64_000_000  # bytes of a log that are read at most: the last ones
Point = list[int | float]  # of a curve: a step and a value
_NOT_CURVES = ("kind", "step")


class Runs:
    """The run folders that a studio shows, by name: those it was started with, and those below `runs`."""

    def __init__(self, folders: Iterable[Path], below: Path | None = None) -> None:
        self.folders, self.below = list(folders), below

    def by_name(self) -> dict[str, Path]:
        """The folders that are there now; a training that began a moment ago is among them."""
        known = {path.resolve() for path in self.folders}
        new = sorted(self.below.glob("*")) if self.below is not None and self.below.is_dir() else []
        new = [path for path in new if path.is_dir() and path.resolve() not in known]
        every = [
            path
            for path in [*self.folders, *new]
            if (path / "metrics.jsonl").is_file() or (path / "recipe.json").is_file()
        ]
        return named(every)

    def lines(self) -> list[dict[str, Any]]:
        """A line for each run: its recipe, its last step, and whether it has ended."""
        return [self._line(name, folder) for name, folder in self.by_name().items()]

    def get(self, name: object, *, after: int = 0) -> dict[str, Any]:
        """The curves of one run after a step, and its results."""
        folders = self.by_name()
        if not isinstance(name, str) or name not in folders:
            cure = did_you_mean(name, folders) if isinstance(name, str) else None
            raise RegardError("the studio has no such run", got=shown(name), cure=cure or "look at the list of runs")
        folder = folders[name]
        records = [record for record in read_log(folder) if record["step"] > after]
        return {**self._line(name, folder), "curves": curves(records), "results": results(folder)}

    def _line(self, name: str, folder: Path) -> dict[str, Any]:
        recipe = _json(folder / "recipe.json") or {}
        last = read_log(folder, tail=20_000)
        train = recipe.get("train") if isinstance(recipe.get("train"), dict) else {}
        steps = train.get("steps") if isinstance(train, dict) else None
        task = recipe.get("task") if isinstance(recipe.get("task"), dict) else {}
        return {
            "name": name,
            "paper": _word(recipe.get("paper")),
            "recipe": _word(recipe.get("name")),
            "data": _word(task.get("corpus") or task.get("dataset")) if isinstance(task, dict) else None,
            "steps": steps if type(steps) is int else None,
            "step": last[-1]["step"] if last else 0,
            "ended": any(record["kind"] == "end" for record in last),
        }


def read_log(folder: Path, *, tail: int | None = None) -> list[dict[str, Any]]:
    """The events of metrics.jsonl; with `tail` only those in so many of its last bytes."""
    path = folder / "metrics.jsonl"
    try:
        with open(inside(path), "rb") as file:
            size = file.seek(0, 2)
            start = max(0, size - min(tail or _FILE, _FILE))
            file.seek(start)
            lines = file.read().splitlines()[1 if start else 0 :]
    except (OSError, RegardError):
        return []
    records = []
    for line in lines:
        try:
            record = parse_json(line)
        except RegardError:
            continue  # a line that is being written now
        if isinstance(record, dict) and isinstance(record.get("kind"), str) and type(record.get("step")) is int:
            records.append(record)
    return records


def curves(records: Iterable[Mapping[str, Any]]) -> dict[str, list[Point]]:
    """For each figure of each kind of event, such as "train/loss", its points [step, value], not too many."""
    found: dict[str, list[Point]] = {}
    for record in records:
        for name, value in record.items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            if name not in _NOT_CURVES and is_number:
                found.setdefault(f"{record['kind']}/{name}", []).append([record["step"], value])
    return {name: thinned(points) for name, points in sorted(found.items())}


def thinned(points: list[Point], most: int = MOST_POINTS) -> list[Point]:
    """At most so many of the points, at even distances; the last one is among them.

    >>> thinned([[0, 1.0], [1, 2.0], [2, 3.0], [3, 4.0]], 2)
    [[1, 2.0], [3, 4.0]]
    """
    if len(points) <= most:
        return points
    return [points[(place + 1) * len(points) // most - 1] for place in range(most)]


def results(folder: Path) -> dict[str, Any]:
    """The evaluations in a run folder by split: figures, how they were measured, BLEU by length if it is there."""
    found = {}
    for path in sorted(folder.glob("result_*.json"))[:40]:
        content = _json(path)
        if content is not None and isinstance(content.get("figures"), dict):
            kept = ("figures", "signatures", "lengths", "count", "date", "seconds", "how")
            split = path.stem.removeprefix("result_")
            found[split] = {name: content[name] for name in kept if name in content}
    return found


def ledger() -> list[dict[str, Any]]:
    """Every recipe: paper, data, our figures and the published one; the lines of `regard list`."""
    from regard.recipes import RECIPES
    from regard.recipes.ledger import lines
    from regard.tasks import TASKS

    recipes = {name: build() for name, build in RECIPES.items()}
    return [
        {**line._asdict(), "columns": [column.label for column in TASKS[line.task].display.overview]}
        for line in lines(recipes)
    ]


def _json(path: Path) -> dict[str, Any] | None:
    try:
        if inside(path).stat().st_size > _FILE:
            return None
        content = parse_json(path.read_bytes())
        json.dumps(content, allow_nan=False)
    except (OSError, RegardError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _word(value: object) -> str | None:
    return value[:200] if isinstance(value, str) else None
