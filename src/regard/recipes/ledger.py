"""The ledger: what each recipe gave, on which machine, beside the published number. Read from results/*.json.

`bahdanau_multi30k_de_en.json` is what a recipe gave as it stands; `ram_cluttered60@4.json` is a variant of it, whose
settings, and perhaps another published number, stand inside.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from regard.base import parse_json
from regard.recipes.figures import SHOWN, kind_of


class Column(NamedTuple):
    """A column of results: figures of the summary, more than one parted by strokes."""

    label: str
    keys: tuple[str, ...]
    decimals: int = 1


class Table(NamedTuple):
    """How the results of one task are set out."""

    first: tuple[Column, ...]  # before what was published
    second: tuple[Column, ...]  # after it
    scores: dict[str, str]  # signatures that stand below the table, and of which column
    note: str  # what the figures are


BLEU = tuple(f"bleu_{n}" for n in range(1, 5))
TABLES: dict[str, Table] = {
    "translation": Table(
        (Column("BLEU, beam", ("tokenized_bleu",)), Column("BLEU, greedy", ("greedy_tokenized_bleu",))),
        (Column("sacreBLEU", ("bleu",)),),
        {"tokenized_bleu": "BLEU", "bleu": "sacreBLEU"},
        "BLEU is on our tokens, lower-cased.",
    ),
    "classification": Table(
        (Column("error, %", ("error",), 2),),
        (Column("label error, %", ("label_error",), 2), Column("glimpses", ("steps",))),
        {"error": "Error"},
        "Error is of whole answers; the label error is of single digits of a number.",
    ),
    "captioning": Table(
        (Column("BLEU-1 / 2 / 3 / 4", BLEU),),
        (
            Column("with brevity penalty", tuple(f"{key}_brevity" for key in BLEU)),
            Column("METEOR", ("meteor",), 2),
            Column("METEOR, exact and stem", ("meteor_exact_stem",), 2),
            Column("CIDEr-D", ("cider",)),
            Column("words", ("words",)),
        ),
        {"bleu": "BLEU", "bleu_brevity": "With brevity penalty", "meteor": "METEOR",
         "meteor_exact_stem": "METEOR, exact and stem", "cider": "CIDEr-D"},
        "BLEU is without brevity penalty, as in the paper.",
    ),
}  # fmt: skip


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
    found = [name + stem.removeprefix(short) for stem in stems if stem.startswith(f"{short}@")]
    return ([name] if short in stems else []) + found


def figure(name: str, key: str | Sequence[str] = "tokenized_bleu", *, split: str | None = None) -> str | None:
    """One figure of a recipe, on its first test set or on `split`: "38.8 ± 0.2 (3 seeds)", mean and spread.

    Several figures are parted by strokes. None where the recipe was not run, or not judged by it.
    """
    found = entry(name)
    if found is None:
        return None
    keys = (key,) if isinstance(key, str) else tuple(key)
    summary = found["summary"][split or next(iter(found["summary"]))]
    text = _means(summary, Column("", keys, _decimals(keys[0])))
    if text is None:
        return None
    return text + (f" ({found['seeds']} seeds)" if found["seeds"] > 1 else "")


def table(names: Sequence[str], published: Mapping[str, str], *, data: Mapping[str, str] | None = None) -> str:
    """Markdown: for each task a row for each recipe, variant and test set, ours beside the published number.

    Below it stands how it was measured. `published` and `data` ("multi30k de→en") are by recipe. Recipes without
    results are named at the end.
    """
    tasks: dict[str, dict[str, dict[str, Any]]] = {}
    for name in names:
        for variant in variants(name) or [name]:
            if (content := entry(variant)) is not None:
                tasks.setdefault(kind_of(next(iter(content["summary"].values()))), {})[variant] = content
    run = {variant.partition("@")[0] for found in tasks.values() for variant in found}
    parts = []
    for task in (task for task in SHOWN if task in tasks):
        parts += [_rows(TABLES[task], tasks[task], published, data or {}), _notes(TABLES[task], tasks[task])]
        parts.append(_commands(tasks[task]))
    if missing := [f"`{name}`" for name in names if name not in run]:
        parts.append(f"No results yet: {', '.join(missing)}.")
    return "\n\n".join(parts)


def _rows(
    shape: Table, found: Mapping[str, dict[str, Any]], published: Mapping[str, str], data: Mapping[str, str]
) -> str:
    summaries = [summary for content in found.values() for summary in content["summary"].values()]
    first, second = (
        [column for column in columns if any(column.keys[0] in summary for summary in summaries)]
        for columns in (shape.first, shape.second)
    )
    labels = ["recipe", "test set", *(column.label for column in first), "published"]
    labels += [*(column.label for column in second), "seeds", "parameters", "updates", "minutes"]
    lines = [f"| {' | '.join(labels)} |", "|---" * len(labels) + "|"]
    for variant, content in found.items():
        name, run = variant.partition("@")[0], content["runs"][0]
        minutes = [each["minutes_of_training"] for each in content["runs"]]
        how = [*run["settings"], *run.get("judged", ())]
        settings = " ".join(f"`{setting}`" for setting in how) if variant != name else ""
        for split, summary in content["summary"].items():
            cells = [
                f"`{name}` {settings}".strip(),
                f"{data.get(name, '')} {split}".strip(),
                *(_means(summary, column) or "–" for column in first),
                content.get("published") or (published.get(name) if variant == name else "") or "–",
                *(_means(summary, column) or "–" for column in second),
                str(content["seeds"]),
                f"{run['parameters'] / 1e6:.{1 if run['parameters'] >= 1e6 else 2}f} M",
                f"{run['steps']:,}",
                f"{sum(minutes) / len(minutes):.1f}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _notes(shape: Table, found: Mapping[str, dict[str, Any]]) -> str:
    """What the figures are, said once for all rows."""
    runs = [run for content in found.values() for run in content["runs"]]
    splits = [split for run in runs for split in run["splits"].values()]
    seeds = [content["seeds"] for content in found.values()]
    spread = "± is the standard deviation over seeds. " if max(seeds) > 1 else ""
    single = "A figure without ± is of one seed; small differences then mean little. " if min(seeds) == 1 else ""
    notes = [f"{spread}{single}{shape.note}"]
    for key, label in shape.scores.items():
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


def _commands(found: Mapping[str, dict[str, Any]]) -> str:
    """The commands of the runs, with every setting that differed from the recipe."""
    return "```sh\n" + "\n".join(_distinct(content["command"] for content in found.values())) + "\n```"


def _means(summary: Mapping[str, Mapping[str, float | None]], column: Column) -> str | None:
    """Means and spreads over seeds: "38.8 ± 0.2", or "67.0 / 47.5 ± 0.2 / 0.1" of several figures."""
    if any(key not in summary for key in column.keys):
        return None
    parts = [summary[key] for key in column.keys]
    means = " / ".join(f"{part['mean']:.{column.decimals}f}" for part in parts)
    spreads = " / ".join(f"{part['spread']:.{column.decimals}f}" for part in parts if part["spread"] is not None)
    return means + (f" ± {spreads}" if spreads else "")


def _decimals(key: str) -> int:
    columns = (column for shape in TABLES.values() for column in (*shape.first, *shape.second))
    return next((column.decimals for column in columns if key in column.keys), 1)


def _machine(environment: Mapping[str, str]) -> str:
    return f"{environment.get('gpu') or environment['processor']}, torch {environment['torch']}"


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
