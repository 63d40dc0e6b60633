"""The ledger: what each recipe gave, on which machine, beside the published number. Read from results/*.json."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

HEAD = (
    "| recipe | test set | BLEU, beam | BLEU, greedy | published | sacreBLEU | seeds | parameters | updates | minutes |"
)
SCORES = {"tokenized_bleu": "BLEU", "bleu": "sacreBLEU"}  # columns whose signatures stand below the table


@cache
def entry(name: str) -> dict[str, Any] | None:
    """The results of a recipe over its seeds, or None where it was not run."""
    path = files("regard") / "recipes" / "results" / f"{name.replace('/', '_')}.json"
    if not path.is_file():
        return None
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def figure(name: str, key: str = "tokenized_bleu", *, split: str | None = None) -> str | None:
    """One figure of a recipe, on its first test set or on `split`: "38.8 ± 0.2 (3 seeds)", mean and spread."""
    found = entry(name)
    if found is None:
        return None
    summary = found["summary"][split or next(iter(found["summary"]))][key]
    return _mean(summary) + (f" ({found['seeds']} seeds)" if found["seeds"] > 1 else "")


def table(names: Sequence[str], published: Mapping[str, str], *, data: Mapping[str, str] | None = None) -> str:
    """Markdown: a row for each recipe and test set, ours beside the published number; below it how it was measured.

    `published` and `data` ("multi30k de→en") are by recipe. Recipes without results are named at the end.
    """
    found = {name: content for name in names if (content := entry(name)) is not None}
    missing = [f"`{name}`" for name in names if name not in found]
    parts = [_rows(found, published, data or {}), _notes(found), _commands(found)] if found else []
    if missing:
        parts.append(f"No results yet: {', '.join(missing)}.")
    return "\n\n".join(parts)


def _rows(found: Mapping[str, dict[str, Any]], published: Mapping[str, str], data: Mapping[str, str]) -> str:
    lines = [HEAD, "|---" * (HEAD.count("|") - 1) + "|"]
    for name, content in found.items():
        run = content["runs"][0]
        minutes = [each["minutes_of_training"] for each in content["runs"]]
        for split, summary in content["summary"].items():
            cells = [
                f"`{name}`",
                f"{data.get(name, '')} {split}".strip(),
                _mean(summary["tokenized_bleu"]),
                _mean(summary["greedy_tokenized_bleu"]),
                published.get(name) or "–",
                _mean(summary["bleu"]),
                str(content["seeds"]),
                f"{run['parameters'] / 1e6:.1f} M",
                f"{run['steps']:,}",
                f"{sum(minutes) / len(minutes):.1f}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _notes(found: Mapping[str, dict[str, Any]]) -> str:
    """What the figures are, said once for all rows."""
    runs = [run for content in found.values() for run in content["runs"]]
    seeds = [content["seeds"] for content in found.values()]
    spread = "± is the standard deviation over seeds. " if max(seeds) > 1 else ""
    single = "A figure without ± is of one seed; small differences then mean little. " if min(seeds) == 1 else ""
    notes = [f"{spread}{single}BLEU is on our tokens, lower-cased."]
    for key, label in SCORES.items():
        signatures = _distinct(split["signatures"][key] for run in runs for split in run["splits"].values())
        notes.append(f"{label}: {', '.join(f'`{signature}`' for signature in signatures)}.")
    machines = _distinct(_machine(run["environment"]) for run in runs)
    dates = _distinct(sorted(run["date"] for run in runs))
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    notes.append(
        f"{'; '.join(machines)}; {when}. Minutes are of training alone, without evaluation, saving and the recording "
        "of graphs, and `--jobs` trainings shared the machine."
    )
    return "\n".join(f"- {note}" for note in notes)


def _commands(found: Mapping[str, dict[str, Any]]) -> str:
    """The commands of the runs, with every setting that differed from the recipe."""
    return "```sh\n" + "\n".join(content["command"] for content in found.values()) + "\n```"


def _mean(summary: Mapping[str, float | None]) -> str:
    spread = "" if summary["spread"] is None else f" ± {summary['spread']:.1f}"
    return f"{summary['mean']:.1f}{spread}"


def _machine(environment: Mapping[str, str]) -> str:
    return f"{environment.get('gpu') or environment['processor']}, torch {environment['torch']}"


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
