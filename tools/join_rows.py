"""Join rows of the ledger that were trained apart into one row: the tasks of bAbI, each with restarts of its own.

    for task in $(seq 20); do echo "memn2n/babi@$task task.tasks=$task"; done > alone.txt
    python tools/reproduce.py --grid alone.txt --seeds 10 --together --splits test valid train --choose train
    python tools/join_rows.py memn2n/babi --variants $(seq 20) --data "babi, tasks alone" --ledger

The figures of a restart are means over the variants; so is what was chosen, and each variant has chosen
a restart of its own. The figure that counts is also kept for each variant: `error_7` is that of variant 7. Minutes
are sums.
"""

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

LEDGER = Path(__file__).parents[1] / "src" / "regard" / "recipes" / "results"
Content = dict[str, Any]  # what reproduce.py writes for a row


def join(recipe: str, rows: Mapping[str, Content], counted: str) -> Content:
    """One row of these variants, which have the same splits and the same number of restarts."""
    first = next(iter(rows.values()))
    splits, seeds = list(first["summary"]), first["seeds"]
    for variant, row in rows.items():
        if (list(row["summary"]), row["seeds"]) != (splits, seeds):
            got = f"{row['seeds']} seeds on {', '.join(row['summary'])}"
            raise SystemExit(f"variant {variant} has {got}; the first one has {seeds} on {', '.join(splits)}")
    runs = [_joined_run([row["runs"][seed] for row in rows.values()], list(rows), counted) for seed in range(seeds)]
    summary: Content = {}
    for split in splits:
        values = [run["splits"][split]["figures"] for run in runs]
        summary[split] = {key: _over(values, key) for key in values[0]}
        if "chosen" in first:
            chosen = [{key: each["chosen"] for key, each in row["summary"][split].items()} for row in rows.values()]
            for key, value in _mean_figures(chosen, list(rows), counted).items():
                summary[split][key]["chosen"] = value
    content = {"recipe": recipe, "seeds": seeds, "command": first["command"], "summary": summary, "runs": runs}
    if "chosen" in first:
        content["chosen"] = {
            "seed": {variant: row["chosen"]["seed"] for variant, row in rows.items()},
            "by": first["chosen"]["by"],
        }
    return content


def _joined_run(runs: Sequence[Content], variants: Sequence[str], counted: str) -> Content:
    """The restarts of one seed as one."""
    splits: Content = {}
    for split, judged in runs[0]["splits"].items():
        figures = [run["splits"][split]["figures"] for run in runs]
        splits[split] = {**judged, "figures": _mean_figures(figures, variants, counted)}
        said = {key: f"{text}, mean over {len(runs)} trainings" for key, text in judged.get("signatures", {}).items()}
        splits[split]["signatures"] = said
    sums = {key: sum(run[key] for run in runs) for key in runs[0] if key.startswith("minutes")}
    return {**runs[0], **sums, "settings": [], "splits": splits}


def _mean_figures(figures: Sequence[Mapping[str, float]], variants: Sequence[str], counted: str) -> dict[str, float]:
    """Means over the variants, and the figure that counts of each.

    >>> _mean_figures([{"error": 1.0}, {"error": 4.0}], ["1", "2"], "error")
    {'error': 2.5, 'error_1': 1.0, 'error_2': 4.0}
    """
    means = {key: statistics.fmean(each[key] for each in figures) for key in figures[0]}
    if "failed" in means:  # a count of tasks, not a mean
        means["failed"] = sum(each["failed"] for each in figures)
    each_one = {f"{counted}_{variant}": each[counted] for variant, each in zip(variants, figures, strict=True)}
    return {**means, **each_one}


def _over(values: Sequence[Mapping[str, float]], key: str) -> dict[str, float | None]:
    numbers = [value[key] for value in values]
    spread = statistics.stdev(numbers) if len(numbers) > 1 else None
    return {"mean": statistics.fmean(numbers), "spread": spread}


def main() -> None:
    from regard.recipes import RECIPES, find_recipe

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--variants", nargs="+", required=True, help="the names of the rows, without RECIPE@")
    parser.add_argument("--data", help="what the joined row was trained on, in the words of the ledger")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="where their results are")
    parser.add_argument("--ledger", action="store_true", help="write to the ledger, and not to OUT")
    asked = parser.parse_args()
    counted = find_recipe(asked.recipe, RECIPES).entry.display.counted.key
    short = asked.recipe.replace("/", "_")
    rows = {}
    for variant in asked.variants:
        path = asked.out / f"{short}@{variant}.json"
        if not path.exists():
            raise SystemExit(f"{path} is missing: train that row by tools/reproduce.py first")
        rows[variant] = json.loads(path.read_text())
    content = join(asked.recipe, rows, counted)
    content["command"] += f"  # the first of {len(rows)} variants"
    content["command"] += f"\npython tools/join_rows.py {asked.recipe} --variants {' '.join(asked.variants)}"
    if asked.data:
        content["data"] = asked.data
        content["command"] += f' --data "{asked.data}"'
    (LEDGER if asked.ledger else asked.out).joinpath(f"{short}.json").write_text(json.dumps(content, indent=1))
    for split, figures in content["summary"].items():
        print(f"{asked.recipe} {split}: {counted} {figures[counted]}")


if __name__ == "__main__":
    main()
