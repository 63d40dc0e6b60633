"""The ledger: what each recipe gave, on which machine, beside the published number. Read from results/*.json.

`bahdanau_multi30k_de_en.json` is what a recipe gave as it stands; `ram_cluttered60@4.json` is a variant of it, whose
settings, and perhaps another published number, stand inside. `"tried": true` marks a variant that was weighed against
the recipe on the validation set: beside the row of the recipe its figures on test sets are not printed.

`lines` is the one source of `regard list` and of the tables of docs/results.md, `table` that of the pages.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from regard.base import parse_json
from regard.models import MODELS
from regard.recipes.recipe import Recipe
from regard.tasks import TASKS, Column, Display

VALID = "valid"  # the name of the validation set of pictures
NOT_COMPARED = (VALID, "train")  # splits whose figures no paper prints


class Line(NamedTuple):
    """What a recipe gave, in one line."""

    name: str  # of the recipe, and after @ that of the variant
    task: str  # of TASKS
    year: str  # of the paper
    data: str
    ours: tuple[str, ...]  # the overview columns of its task; "" where there is no figure
    published: str
    parameters: str
    updates: str


@cache
def entry(name: str) -> dict[str, Any] | None:
    """The results of a recipe over its seeds, or None where it was not run; "ram/cluttered60@4" names a variant."""
    path = files("regard") / "recipes" / "results" / f"{name.replace('/', '_')}.json"
    if not path.is_file():
        return None
    content: dict[str, Any] = parse_json(path.read_text(encoding="utf-8"))
    return content


@cache
def variants(name: str) -> list[str]:
    """The names of what was run of a recipe: as it stands, and with other settings."""
    short = name.replace("/", "_")
    folder = files("regard") / "recipes" / "results"
    stems = sorted(path.name.removesuffix(".json") for path in folder.iterdir() if path.name.endswith(".json"))
    variant_names = [name + stem.removeprefix(short) for stem in stems if stem.startswith(f"{short}@")]
    return ([name] if short in stems else []) + variant_names


def figure(name: str, column: Column, *, split: str | None = None) -> str | None:
    """A cell of a table of results, on the first test set or on `split`: "38.8 ± 0.2 (3 seeds)", mean and spread.

    Several figures have strokes between them. None where the recipe was not run, or was not judged by them.
    """
    content = entry(name)
    if content is None:
        return None
    text = _means(content["summary"][split or next(iter(content["summary"]))], column)
    if text is None:
        return None
    return text + (f" ({content['seeds']} seeds)" if content["seeds"] > 1 else "")


def shown(name: str) -> list[str]:
    """The rows of a recipe that are compared with a published number: as it stands, and variants that have their own.

    Where it was not run as it stands, the first variant stands for it. What was tried beside it is left out.
    """
    every = variants(name)
    own = [name] if name in every else []
    contents = {variant: entry(variant) or {} for variant in every if variant != name}
    compared = [
        variant
        for variant, content in contents.items()
        if content.get("published") and not (own and content.get("tried"))
    ]
    return own + compared or every[:1]


def lines(recipes: Mapping[str, Recipe]) -> list[Line]:
    """A line for each recipe, and for each variant of it that is `shown`; without figures where it was not run."""
    made = []
    for name, recipe in recipes.items():
        for variant in shown(name) or [name]:
            content = entry(variant)
            made.append(
                Line(
                    name=variant,
                    task=recipe.entry.name,
                    year=str(MODELS[recipe.paper].year),
                    data=_data(recipe, content),
                    ours=tuple(figure(variant, column) or "" for column in recipe.entry.display.overview),
                    published=(content or {}).get("published") or (recipe.published if variant == name else ""),
                    parameters="" if content is None else _short(content["runs"][0]["parameters"]),
                    updates="" if content is None else f"{content['runs'][0]['steps']:,}",
                )
            )
    return made


def overview(recipes: Mapping[str, Recipe]) -> str:
    """Markdown: the lines of these recipes, a table for each task."""
    parts = []
    for task in TASKS.values():
        chosen = [line for line in lines(recipes) if line.task == task.name]
        if not chosen:
            continue
        columns = [column.label for column in task.display.overview]
        labels = ["recipe", "data", *columns, "published", "parameters", "updates"]
        rows = [
            [f"`{line.name}`", line.data, *line.ours, line.published, line.parameters, line.updates] for line in chosen
        ]
        cells = [[cell or "–" for cell in row] for row in rows]
        parts.append("\n".join(f"| {' | '.join(row)} |" for row in [labels, ["---"] * len(labels), *cells]))
    return "\n\n".join(parts)


def table(recipes: Mapping[str, Recipe]) -> str:
    """Markdown: for each task a row for each recipe, variant and test set, ours beside the published number.

    Below it stands how it was measured. Recipes without results are named at the end.
    """
    tasks: dict[str, dict[str, dict[str, Any]]] = {}
    for name, recipe in recipes.items():
        for variant in variants(name) or [name]:
            if (content := entry(variant)) is not None:
                tasks.setdefault(recipe.entry.name, {})[variant] = content
    run = {variant.partition("@")[0] for contents in tasks.values() for variant in contents}
    blocks = []
    for task in (task for task in TASKS if task in tasks):
        display, contents = TASKS[task].display, tasks[task]
        blocks += [_rows(display, contents, recipes), _notes(display, contents), _commands(contents)]
    if missing := [f"`{name}`" for name in recipes if name not in run]:
        blocks.append(f"No results yet: {', '.join(missing)}.")
    return "\n\n".join(blocks)


def _rows(display: Display, contents: Mapping[str, dict[str, Any]], recipes: Mapping[str, Recipe]) -> str:
    summaries = [summary for content in contents.values() for summary in content["summary"].values()]
    first, second = (
        [column for column in columns if any(column.keys[0] in summary for summary in summaries)]
        for columns in (display.table, display.more)
    )
    labels = ["recipe", "test set", *(column.label for column in first), "published"]
    labels += [*(column.label for column in second), "seeds", "parameters", "updates", "minutes"]
    lines = [f"| {' | '.join(labels)} |", "|---" * len(labels) + "|"]
    for variant, content in contents.items():
        name, run = variant.partition("@")[0], content["runs"][0]
        tried = name in contents and content.get("tried")
        minutes = [each["minutes_of_training"] for each in content["runs"]]
        how = [*run["settings"], *run.get("judged", ())]
        settings = " ".join(f"`{setting}`" for setting in how) if variant != name else ""
        for split, summary in content["summary"].items():
            if tried and split != VALID:
                continue
            theirs = content.get("published") or (recipes[name].published if variant == name else "")
            cells = [
                f"`{name}` {settings}".strip(),
                f"{_data(recipes[name], content)} {split}",
                *(_means(summary, column) or "–" for column in first),
                theirs if theirs and split not in NOT_COMPARED else "–",
                *(_means(summary, column) or "–" for column in second),
                str(content["seeds"]),
                _short(run["parameters"]),
                f"{run['steps']:,}",
                f"{sum(minutes) / len(minutes):.1f}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _data(recipe: Recipe, content: Mapping[str, Any] | None) -> str:
    """What a row was trained on, in words; a row that joins others says it itself."""
    data: str = (content or {}).get("data") or recipe.task.describe_data()
    return data


def _notes(display: Display, contents: Mapping[str, dict[str, Any]]) -> str:
    """What the figures are, said once for all rows."""
    runs = [run for content in contents.values() for run in content["runs"]]
    splits = [split for run in runs for split in run["splits"].values()]
    seeds = [content["seeds"] for content in contents.values()]
    spread = "± is the standard deviation over seeds. " if max(seeds) > 1 else ""
    single = "A figure without ± is of one seed; small differences then mean little. " if min(seeds) == 1 else ""
    notes = [f"{spread}{single}{display.note}"]
    if by := _distinct(content["chosen"]["by"] for content in contents.values() if "chosen" in content):
        notes.append(
            f"Before brackets stands the restart that is best on the split `{'`, `'.join(by)}`; in them, all restarts."
        )
    for key, label in display.signatures.items():
        if signatures := _distinct(split["signatures"][key] for split in splits if key in split["signatures"]):
            notes.append(f"{label}: {', '.join(f'`{signature}`' for signature in signatures)}.")
        if reasons := _distinct(split["missing"][key] for split in splits if key in split.get("missing", {})):
            notes.append(f"{label} was not measured: {', '.join(reasons)}.")
    machines = _distinct(_machine(run["environment"]) for run in runs)
    dates = _distinct(sorted(run["date"] for run in runs))
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    notes.append(
        f"{'; '.join(machines)}; {when}. Minutes are of training alone, without evaluation, saving and the recording "
        "of graphs; with `--jobs` and `--together` several trainings shared the machine."
    )
    return "\n".join(f"- {note}" for note in notes)


def _commands(contents: Mapping[str, dict[str, Any]]) -> str:
    """The commands of the runs, with every setting that differed from the recipe."""
    return "```sh\n" + "\n".join(_distinct(content["command"] for content in contents.values())) + "\n```"


def _means(summary: Mapping[str, Mapping[str, float | None]], column: Column) -> str | None:
    """Means and spreads over seeds: "38.8 ± 0.2", or "67.0 / 47.5 ± 0.2 / 0.1" of several figures.

    Where one of several restarts was chosen, its figure stands first: "12.3 (of all 13.1 ± 0.6)".
    """
    if any(key not in summary for key in column.keys):
        return None
    parts = [summary[key] for key in column.keys]
    if all("chosen" in cell for cell in parts):
        chosen = " / ".join(f"{cell['chosen']:.{column.decimals}f}" for cell in parts)
        every = [{name: cell[name] for name in ("mean", "spread")} for cell in parts]
        return f"{chosen} (of all {_means(dict(zip(column.keys, every, strict=True)), column)})"
    means = " / ".join(f"{cell['mean']:.{column.decimals}f}" for cell in parts)
    spreads = " / ".join(f"{cell['spread']:.{column.decimals}f}" for cell in parts if cell["spread"] is not None)
    return means + (f" ± {spreads}" if spreads else "")


def _short(parameters: int) -> str:
    """A number of parameters in millions, and below 0.1 million in thousands: "1.3 M", "0.21 M", "2.0 k"."""
    if parameters < 100_000:
        return f"{parameters / 1e3:.1f} k"
    return f"{parameters / 1e6:.{1 if parameters >= 1e6 else 2}f} M"


def _machine(environment: Mapping[str, str]) -> str:
    return f"{environment.get('gpu') or environment['processor']}, torch {environment['torch']}"


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
