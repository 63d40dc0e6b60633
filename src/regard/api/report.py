"""The report: several runs of one task on one page, with figures, curves, examples and pictures."""

from collections.abc import Sequence
from typing import Any

from regard.api.examples import Drawing, Example, chosen, examples, overviews
from regard.api.model import Model
from regard.api.pictures import animated, as_png, rendered
from regard.api.runs import ENVIRONMENT, length_curve, result
from regard.base import ConfigError, RegardError, check_installed, read_json, to_json
from regard.models import MODELS
from regard.recipes.figures import SHOWN, data_name
from regard.tasks import Progress
from regard.train.metrics_log import METRICS, read_records
from regard.viz import RunReport, Sample, report_page
from regard.viz.embed import Picture, PlaceMap

SCORES = {  # rows of the table, several figures in one where they belong together; `regard evaluate` has them all
    "translation": {"BLEU, tokenised": ["tokenized_bleu"], "BLEU": ["bleu"], "chrF": ["chrf"]},
    "classification": {
        "Error, %": ["error"], "Error of labels, %": ["label_error"], "Glimpses a picture": ["steps"],
    },
    "captioning": {
        "BLEU-1 to 4": [f"bleu_{n}" for n in range(1, 5)],
        "with brevity penalty": [f"bleu_{n}_brevity" for n in range(1, 5)],
        "METEOR": ["meteor"], "METEOR, exact and stem": ["meteor_exact_stem"], "CIDEr-D": ["cider"],
    },
}  # fmt: skip
CURVES = {"translation": "BLEU", "classification": "Error, %", "captioning": "BLEU-4"}
SPEED = {"sentences_per_second": "sentences/s", "captions_per_second": "captions/s"}


def report(
    runs: Sequence[Model],
    *,
    split: str = "test",
    samples: int = 8,
    title: str = "",
    intro: str = "",
    alignments_of: Model | None = None,
    progress: Progress | None = None,
) -> str:
    """One self-contained HTML page for several runs of one task: scores, curves, examples with what they attend to.

    Figures that are in the run folders are read; a run without them is evaluated first. Apart from that only the
    examples are decoded. `alignments_of` is a translator whose translations and alignments of the same sentences are
    shown beside the runs, which then have none; `progress` hears what is done of how much.
    """
    if samples < 0:
        raise ConfigError("samples", got=samples, expected="0 or more")
    if not runs:
        raise ConfigError("a report needs runs", got="none", expected="at least one")
    if len({run.kind for run in runs}) > 1:
        got = ", ".join(f"{run.name} ({run.kind})" for run in runs)
        raise RegardError("these runs are of different tasks", got=got, cure="make one report for each task")
    shown = SHOWN[runs[0].kind]
    check_installed("matplotlib", *([] if runs[0].kind == "translation" else ["PIL"]), what="a report")
    names = _distinct([run.name for run in [*runs, *([] if alignments_of is None else [alignments_of])]])
    views = [
        _view(model, name, split, samples, run, alignments_of is None, _named(name, progress))
        for run, (model, name) in enumerate(zip(runs, names, strict=False))
    ]
    if alignments_of is not None:
        views.append(_aligned(alignments_of, names[-1], views[0].samples))
    return report_page(
        views,
        title=title or " · ".join(names),
        intro=intro,
        figure=(shown.counts, CURVES[runs[0].kind]),
        samples=shown.samples,
    )


def _named(name: str, progress: Progress | None) -> Progress:
    """Tells the progress of one run under its name."""
    return lambda what, done, of: None if progress is None else progress(f"{name}: {what}", done, of)


def _view(model: Model, name: str, split: str, samples: int, run: int, aligned: bool, progress: Progress) -> RunReport:
    found = result(model, split, progress=progress)
    records = read_records(model.folder / METRICS)
    numbers = chosen(model, split, samples)
    progress("examples", 0, len(numbers))
    shown = []
    for place, example in enumerate(examples(model, split, numbers)):
        shown.append(_sample(model, example, place, aligned))
        progress("examples", place + 1, len(numbers))
    return RunReport(
        name,
        description=_paper(model),
        scores=_scores(model.kind, found),
        facts=_facts(model, split, found, records),
        curves=[record for record in records if record["kind"] != "end"],
        lengths=length_curve(found) if "lengths" in found else (),
        samples=shown,
        pictures=[_picture(drawing) for drawing in overviews(model, split, run=run, figures=found)],
    )


def _aligned(model: Model, name: str, samples: Sequence[Sample]) -> RunReport:
    """What a model makes of the sentences of these samples, and where it looks: its examples, and nothing else."""
    said = model.translate([sample.source_text for sample in samples])
    shown = [
        _translation(model, Example(one.source, sample.reference_text, one.text, said=one), place)
        for place, (one, sample) in enumerate(zip(said, samples, strict=True))
    ]
    return RunReport(name, description=_paper(model), samples=shown)


def _paper(model: Model) -> str:
    paper = MODELS[model.recipe.paper]
    return f"{paper.title} ({paper.year}) {paper.link}"


def _scores(kind: str, found: dict[str, Any]) -> dict[str, str]:
    """Figures with their signatures, or with the reason why there is none."""
    figures, signatures, missing = found["figures"], found["signatures"], found.get("missing", {})
    decimals, scores = 2 if kind == "classification" else 1, {}
    for label, keys in SCORES[kind].items():
        first = keys[0]
        if first in figures:
            text = signatures.get(SHOWN[kind].figures[first].signature or first, "")
            scores[label] = " / ".join(f"{figures[key]:.{decimals}f}" for key in keys) + (f"\n{text}" if text else "")
        elif first in missing:
            scores[label] = f"–\n{missing[first]}"
    return scores


def _facts(model: Model, split: str, found: dict[str, Any], records: list[dict[str, Any]]) -> dict[str, str]:
    end: dict[str, Any] = next((record for record in records if record["kind"] == "end"), {})
    path = model.folder / ENVIRONMENT
    machine = read_json(path, cure="delete it") if path.exists() else {}
    processor = ", ".join(str(machine[key]) for key in ("processor", "threads") if key in machine)
    if "threads" in machine:
        processor += "\u00a0thread" if machine["threads"] == 1 else "\u00a0threads"
    speed = [f"{found['figures'][key]:.0f} {unit}" for key, unit in SPEED.items() if key in found["figures"]]
    decoding = ""
    if speed:
        beams = found.get("search", to_json(model.task.config.search))["beams"]
        decoding = f"{speed[0]}\nbeam {beams}"
    count = found.get("count", found.get("sentences"))
    facts = {
        "Parameters": f"{model.num_parameters:,}",
        "Updates": f"{end['step']:,}" if end else "",
        "Training": _time(end.get("seconds")),
        "Machine": str(machine.get("gpu") or processor),
        "Decoding": decoding,
        "Test set": f"{_data(model)}, {split}\n{count:,} {SHOWN[model.kind].things}",
    }
    return {key: value for key, value in facts.items() if value}


def _time(seconds: object) -> str:
    if not isinstance(seconds, int | float):
        return ""
    return f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds:.0f} s"


def _data(model: Model) -> str:
    return str(model.recipe.task.corpus) if model.kind == "translation" else data_name(model.recipe.task)


def _sample(model: Model, example: Example, place: int, aligned: bool) -> Sample:
    if model.kind == "translation" and not aligned:
        return Sample(example.source, example.reference, example.output)
    if model.kind == "translation":
        return _translation(model, example, place)
    pictures = [_picture(drawing) for drawing in example.drawings]
    if place == 0:
        moving = [drawing for drawing in example.drawings if drawing.animate is not None]
        pictures += [
            Picture("step by step", animated(drawing, dark=False), animated(drawing, dark=True)) for drawing in moving
        ]
    small = b"" if example.image is None else as_png(example.image)
    maps = [PlaceMap(f"what each place attends to, {name}", small, weights) for name, weights in example.maps.items()]
    return Sample(example.source, example.reference, example.output, thumbnail=small, pictures=pictures, maps=maps)


def _translation(model: Model, example: Example, place: int) -> Sample:
    found = example.said
    layers = model.heads(found) if place < 3 else {}
    several = {f"{name} · head {head}": panel for name, heads in layers.items() if heads.ndim == 3
               for head, panel in enumerate(heads)}  # fmt: skip
    return Sample(
        example.source,
        example.reference,
        example.output,
        rows=found.tokens,
        columns=found.source_tokens,
        weights=found.weights,
        panels=several,
    )


def _picture(drawing: Drawing) -> Picture:
    return Picture(drawing.title, rendered(drawing, dark=False), rendered(drawing, dark=True))


def _distinct(names: list[str]) -> list[str]:
    return [name if names.count(name) == 1 else f"{name} ({place + 1})" for place, name in enumerate(names)]
