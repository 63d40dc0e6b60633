"""The report: several runs of one task on one page, with figures, curves, examples and what they attended to."""

from collections.abc import Sequence
from typing import Any

from regard.api.examples import examples, is_exact, overviews, quality, telling
from regard.api.model import Model
from regard.api.pictures import charts
from regard.api.runs import ENVIRONMENT, count_of, first_test, result
from regard.base import ConfigError, RegardError, check_installed, read_json, to_json
from regard.models import MODELS
from regard.tasks import Display, Example, Progress
from regard.train.metrics_log import METRICS, read_records
from regard.viz import RunReport, Sample, report_page

DETAILED = 3  # examples whose layers and heads are shown too


def report(
    runs: Sequence[Model],
    *,
    split: str | None = "test",
    samples: int = 8,
    title: str = "",
    intro: str = "",
    explained_by: Model | None = None,
    progress: Progress | None = None,
) -> str:
    """One self-contained HTML page for several runs of one task: figures, curves, examples and their explanations.

    Without a `split` each run is shown on its usual test set. Figures that are in the run folders are read; a run
    without them is evaluated first. Apart from that only the examples are predicted. `explained_by` is a model whose
    predictions for the same inputs are shown and explained beside the runs, which are then shown without explanations.
    `progress` hears what is done of how much.
    """
    if samples < 0:
        raise ConfigError("samples", got=samples, expected="0 or more")
    if not runs:
        raise ConfigError("a report needs runs", got="none", expected="at least one")
    if len({run.entry.name for run in runs}) > 1:
        got = ", ".join(f"{run.name} ({run.entry.name})" for run in runs)
        raise RegardError("these runs are of different tasks", got=got, cure="make one report for each task")
    check_installed("matplotlib", "PIL", what="a report")
    display = runs[0].entry.display
    names = _distinct([run.name for run in [*runs, *([] if explained_by is None else [explained_by])]])
    same_data: dict[str, list[Model]] = {}
    for run in runs:
        same_data.setdefault(run.recipe.task.describe_data(), []).append(run)
    numbers = {data: telling(models, split or first_test(models[0]), samples) for data, models in same_data.items()}
    views = [
        _view(model, name, split or first_test(model), numbers[model.recipe.task.describe_data()], explained_by is None,
              _named(name, progress))
        for model, name in zip(runs, names, strict=False)
    ]  # fmt: skip
    if explained_by is not None:
        views.append(_explained(explained_by, names[-1], views[0].samples))
    return report_page(
        views,
        title=title or " · ".join(names),
        intro=intro,
        figure=(display.counts, display.report_rows[0].label if len(display.report_rows[0].keys) == 1 else
                display.counted.label),
        samples=display.examples,
    )  # fmt: skip


def _named(name: str, progress: Progress | None) -> Progress:
    """Tells the progress of one run under its name."""
    return lambda what, done, of: None if progress is None else progress(f"{name}: {what}", done, of)


def _view(model: Model, name: str, split: str, numbers: list[int], explained: bool, progress: Progress) -> RunReport:
    details = result(model, split, progress=progress)
    records = read_records(model.folder / METRICS)
    progress("examples", 0, len(numbers))
    shown = []
    for place, example in enumerate(examples(model, split, numbers)):
        shown.append(_sample(model, example, explained, place < DETAILED))
        progress("examples", place + 1, len(numbers))
    return RunReport(
        name,
        description=_paper(model),
        scores=_scores(model.entry.display, details),
        facts=_facts(model, split, details, records),
        curves=[record for record in records if record["kind"] != "end"],
        charts=charts(model, details),
        samples=shown,
        explanations=overviews(model, split),
        settings=_settings(model, details),
    )


def _sample(model: Model, example: Example, explained: bool, detailed: bool) -> Sample:
    """An example for the page; the layers of a model are many, so only some examples show them."""
    explanations = list(example.prediction.explanations) if explained else []
    if explained and detailed:
        explanations += model.layers(example.prediction)
    near = quality(model, example)
    return Sample(
        example.source,
        example.reference,
        example.output,
        image=example.image,
        explanations=tuple(explanations),
        quality=near,
        mistaken=is_exact(model) and near < 1,
    )


def _explained(model: Model, name: str, samples: Sequence[Sample]) -> RunReport:
    """What a model makes of the inputs of these samples: its examples, and nothing else."""
    predictions = model.predict([sample.source_text for sample in samples])
    shown = [
        _sample(model, Example(one.source, sample.reference_text, one.text, one), True, place < DETAILED)
        for place, (one, sample) in enumerate(zip(predictions, samples, strict=True))
    ]
    return RunReport(name, description=_paper(model), samples=shown)


def _paper(model: Model) -> str:
    paper = MODELS[model.recipe.paper]
    return f"{paper.title} ({paper.year}) {paper.link}".rstrip()


def _scores(display: Display, details: dict[str, Any]) -> dict[str, str]:
    """Figures with their signatures, or with the reason why there is none."""
    figures, signatures, missing = details["figures"], details["signatures"], details.get("missing", {})
    scores = {}
    for row in display.report_rows:
        first = row.keys[0]
        if all(key in figures for key in row.keys):
            signature = signatures.get(display.figure(first).signature or first, "")
            values = " / ".join(f"{figures[key]:.{row.decimals}f}" for key in row.keys)
            scores[row.label] = values + (f"\n{signature}" if signature else "")
        elif first in missing:
            scores[row.label] = f"–\n{missing[first]}"
    return scores


def _facts(model: Model, split: str, details: dict[str, Any], records: list[dict[str, Any]]) -> dict[str, str]:
    end: dict[str, Any] = next((record for record in records if record["kind"] == "end"), {})
    path, display = model.folder / ENVIRONMENT, model.entry.display
    machine = read_json(path, cure="delete it") if path.exists() else {}
    processor = ", ".join(str(machine[key]) for key in ("processor", "threads") if key in machine)
    if "threads" in machine:
        processor += "\u00a0thread" if str(machine["threads"]) == "1" else "\u00a0threads"
    speed = ""
    if display.speed is not None and display.speed in details["figures"]:
        speed = f"{details['figures'][display.speed]:.0f} {display.figure(display.speed).label}"
        speed += f"\n{details['how']}" if details.get("how") else ""
    facts = {
        "Parameters": f"{model.num_parameters:,}",
        "Updates": f"{end['step']:,}" if end else "",
        "Training": _time(end.get("seconds")),
        "Seed": str(model.recipe.train.seed),
        "Machine": str(machine.get("gpu") or processor),
        "Speed": speed,
        "Test set": f"{model.recipe.task.describe_data()}, {split}\n{count_of(details):,} {display.things}",
        "Evaluated": str(details.get("date", "")),
    }
    return {key: value for key, value in facts.items() if value}


def _settings(model: Model, details: dict[str, Any]) -> dict[str, str]:
    """Every setting of the recipe by its name, as --set takes it; then those of the predictions that were judged."""
    recipe = to_json(model.recipe)
    settings = _flat({part: recipe[part] for part in ("model", "task", "train") if part in recipe})
    return settings | {f"evaluation: {name}": value for name, value in _flat(details.get("settings") or {}).items()}


def _flat(values: dict[str, Any], before: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{before}{name}.")
        else:
            found[before + name] = (
                "none"
                if value is None
                else str(value).lower()
                if value in (True, False) and isinstance(value, bool)
                else ", ".join(map(str, value))
                if isinstance(value, list)
                else str(value)
            )
    return found


def _time(seconds: object) -> str:
    if not isinstance(seconds, int | float):
        return ""
    return f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds:.0f} s"


def _distinct(names: list[str]) -> list[str]:
    return [name if names.count(name) == 1 else f"{name} ({place + 1})" for place, name in enumerate(names)]
