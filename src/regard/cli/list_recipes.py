"""`regard list`: every recipe beside the number that it is compared with, task by task; or the models that ship."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from fnmatch import fnmatchcase

from regard.base import ConfigError, did_you_mean

HELP = "every recipe: paper, data, our numbers, and what they compare with"


def add(command: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    command.add_argument("filters", nargs="*", metavar="filter",
                         help="a task, a paper, a data set, or a pattern such as 'ram/*' (default: all)")  # fmt: skip
    command.add_argument("--models", action="store_true", help="the trained models that ship with the package")
    command.add_argument("--json", action="store_true", help="print the lines as JSON")


def run(asked: argparse.Namespace) -> None:
    """Print a table for each task, or one of the models."""
    if asked.models:
        _tell_models(asked)
        return
    from regard.recipes import RECIPES
    from regard.recipes.costs import cost, machine
    from regard.recipes.ledger import lines
    from regard.tasks import TASKS

    recipes = {name: replace(build(), name=name) for name, build in RECIPES.items()}
    chosen = {
        name: recipe
        for name, recipe in recipes.items()
        if all(_matches(each, name, recipe.entry.name, recipe.task.describe_data()) for each in asked.filters)
    }
    if not chosen:
        known = [*TASKS, *{name.partition("/")[0] for name in recipes}, *recipes]
        cure = did_you_mean(asked.filters[0], known) or "run `regard list` without a filter to see them all"
        raise ConfigError("no recipe matches", got=" ".join(asked.filters), cure=cure)
    every, costs = lines(chosen), {name: cost(recipe) for name, recipe in chosen.items()}
    if asked.json:
        content = [
            line._asdict()
            | {"columns": _columns(TASKS[line.task])}
            | {"cost": costs[line.name]._asdict() if line.name in costs else None}
            for line in every
        ]
        print(json.dumps(content, indent=1))
        return
    for task in TASKS.values():
        rows: list[tuple[str, ...]] = [
            ("recipe", "paper", "data", "CPU", "memory", "GPU", *_columns(task), "to compare with")
        ]
        for line in every:
            if line.task == task.name:
                own = _is_own(chosen[line.name.partition("@")[0]].task.data_set())
                paid = costs.get(line.name)  # of a variant nobody knows
                cells = ("",) * 3 if paid is None else (paid.cpu_text, paid.memory_text, paid.gpu_text)
                rows.append((line.name, line.year, line.data + " *" * own, *cells, *line.ours, line.published))
        if len(rows) == 1:
            continue
        print(f"{task.name}\n")
        print("\n".join(_aligned(rows)))
        print(f"\n{task.display.list_note or task.display.note}\n")
    print("* files of your own, below a folder that REGARD_DATA names; all others are in the package, or fetched once.")
    print(f"CPU: one thread, ≈ estimated from measured updates ({machine()}); GPU: minutes of training that were run.")
    print("RECIPE@VARIANT is a recipe with other settings; docs/reproduction.md has them, and all that was run.")
    print("\nregard show RECIPE; regard train RECIPE [--set train.steps=500 model.align=entmax …]")


def _tell_models(asked: argparse.Namespace) -> None:
    """A row for each model that ships and that all filters name."""
    from regard.recipes.zoo import zoo
    from regard.tasks import TASKS

    every = zoo()
    chosen = [
        each for each in every if all(_matches(pattern, each.name, each.task, each.recipe) for pattern in asked.filters)
    ]
    if not chosen:
        cure = did_you_mean(asked.filters[0], [*(each.name for each in every), *TASKS])
        cure = cure or "run `regard list --models` without a filter to see them all"
        raise ConfigError("no model matches", got=" ".join(asked.filters), cure=cure)
    if asked.json:
        print(json.dumps([asdict(each) for each in chosen], indent=1, ensure_ascii=False))
        return
    rows = [("model", "task", "figure, on a test set inside the package", "MB", "licence")]
    for each in chosen:
        figure, size = f"{each.figure} ({each.split})", f"{each.num_bytes / 1e6:.2g}"
        rows.append((each.name, each.task, figure, f"{size:>4}", each.licence))
    first, *others = _aligned(rows)
    print(first)
    for each, row in zip(chosen, others, strict=True):
        print(f"{row}\n    {each.does}\n    {each.example}\n")
    print("regard show MODEL; regard evaluate MODEL; regard report MODEL; in Python: regard.load(MODEL)")


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Columns below one another, two blanks between them."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _columns(task: object) -> list[str]:
    return [column.label for column in task.display.overview]  # type: ignore[attr-defined]


def _matches(pattern: str, name: str, task: str, data: str) -> bool:
    """Whether a filter names a recipe: by a pattern, its paper, its task or its data."""
    words = [name, name.partition("/")[0], task, data, data.split()[0].strip(",")]
    return any(fnmatchcase(word, pattern) for word in words)


def _is_own(name: str) -> bool:
    """Whether the user must bring the files of a data set."""
    from regard.datasets import DATASETS

    return name in DATASETS and DATASETS[name].access == "bring"
