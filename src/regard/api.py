"""The one entry for command line, web page and notebooks: train a recipe, load a run, translate, evaluate.

>>> model = load("tatoeba-en-fr")
>>> found = model.translate("I lost my keys.")
>>> found.text, found.weights.shape == (len(found.tokens), len(found.source_tokens))
("J'ai perdu mes clés.", True)
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, overload

import torch
from numpy.typing import NDArray
from torch import nn

from regard.attention import trace
from regard.base import ConfigError, RegardError, did_you_mean, environment, to_json, write_atomically
from regard.data import Codec, SubwordCodec, WordCodec, collate
from regard.models import MODELS
from regard.recipes import Recipe, build_model, load_recipe, load_task, save_recipe
from regard.tasks import Prediction, Score, Search, Translation
from regard.train import (
    CheckpointError,
    Trainer,
    World,
    checkpoints,
    choose_device,
    load_checkpoint,
    load_tensors,
    load_weights,
)
from regard.train.records import METRICS
from regard.train.trainer import FINAL, Watch
from regard.viz import RunReport, Sample, report_page


@dataclass(frozen=True, eq=False)
class Model:
    """A trained model and all that it needs: what `load` gives."""

    name: str
    recipe: Recipe
    task: Translation
    module: nn.Module
    folder: Path

    @overload
    def translate(self, text: str, *, beam: int | None = None, nbest: int = 1, **search: Any) -> Prediction: ...

    @overload
    def translate(
        self, text: Sequence[str], *, beam: int | None = None, nbest: int = 1, **search: Any
    ) -> list[Prediction]: ...

    def translate(
        self, text: str | Sequence[str], *, beam: int | None = None, nbest: int = 1, **search: Any
    ) -> Prediction | list[Prediction]:
        """The translation of a text, or of each of several: `.text`, `.tokens`, and `.weights` [tokens, source tokens].

        `search` takes every setting of `Search`, such as length_penalty=1.0 or temperature=0.8.
        """
        several = self.nbest([text] if isinstance(text, str) else text, beam=beam, nbest=nbest, **search)
        best = [found[0] for found in several]
        return best[0] if isinstance(text, str) else best

    def nbest(
        self, texts: Sequence[str], *, beam: int | None = None, nbest: int = 5, **search: Any
    ) -> list[list[Prediction]]:
        """The best few translations of each text, best first."""
        if isinstance(texts, str):
            raise ConfigError("nbest takes several texts", got="one string", cure="nbest([text])[0]")
        for number, text in enumerate(texts, 1):
            _check_text(text, number)
        return self.task.predict(self.module, texts, how=self._search(beam, nbest, search))

    def evaluate(self, split: str = "test", *, beam: int | None = None, **search: Any) -> Score:
        """BLEU with signature, tokenised BLEU, chrF, BLEU by length, sentences a second."""
        how = self._search(beam, 1, search)
        score = self.task.evaluate(self.module, split, search=how, full=True)
        return replace(score, details={**score.details, "search": to_json(how)})

    @torch.no_grad()
    def heads(self, prediction: Prediction) -> dict[str, NDArray[Any]]:
        """All weights over the source behind a translation, by layer: [t k], or [h t k] where there are heads.

        The translation is fed to the model again, so that every layer sees it whole.
        """
        if not prediction.tokens:
            return {}
        source, target = self.task.codecs
        pair = _ids(source, prediction.source_tokens[:-1]), _ids(target, prediction.tokens)  # <eos> is added again
        batch = collate([pair]).to(next(self.module.parameters()).device)
        with trace(self.module, layers="*") as seen:
            self.module(batch.source, batch.source_lengths, batch.inputs)
        found = {}
        for name, record in seen.items():
            weights = record.weights[0] if record.axes[0] == "b" else record.weights
            looks_elsewhere = name.startswith("encoder") or name.endswith("inner")  # at itself, or at the output
            if not looks_elsewhere and weights.shape[-1] == batch.source.shape[1]:
                found[name] = weights[..., : len(prediction.tokens), :]
        return found

    @property
    def num_parameters(self) -> int:
        """How many numbers were learnt."""
        return sum(parameter.numel() for parameter in self.module.parameters())

    def _search(self, beam: int | None, nbest: int, settings: dict[str, Any]) -> Search:
        known = ["beam", *(name for name in Search.__dataclass_fields__ if name != "beams")]
        for name in settings:
            if name not in known:
                raise ConfigError(f"unknown setting {name!r} of the search", cure=did_you_mean(name, known))
        base = self.task.config.search
        beams = max(base.beams, nbest) if beam is None else beam
        return replace(base, beams=beams, nbest=nbest, **settings)


def shipped() -> dict[str, Path]:
    """Models inside the package, by name."""
    folder = Path(str(files("regard") / "recipes" / "shipped"))
    return {path.name: path for path in sorted(folder.glob("*")) if (path / "recipe.json").exists()}


def load(run: str | Path, *, device: str = "auto") -> Model:
    """The model of a run folder, or one that ships with the package ("tatoeba-en-fr").

    A run that has not ended gives its last checkpoint.
    """
    folder = Path(run)
    if not folder.exists() and str(run) in shipped():
        folder = shipped()[str(run)]
    if not folder.is_dir():
        names = [*shipped(), *(str(path) for path in Path("runs").glob("*"))]
        cure = did_you_mean(str(run), names) or f"train one, or load {' or '.join(shipped()) or 'another'}"
        raise RegardError(f"there is no run {run}", got="no such folder", cure=cure)
    recipe = load_recipe(folder)
    task = load_task(folder, recipe)
    module = build_model(recipe, task)
    load_weights(module, _weights(folder))
    return Model(folder.resolve().name, recipe, task, module.to(choose_device(device)).eval(), folder)


def train(
    recipe: Recipe, folder: Path, *, world: World | None = None, resume: bool = False, watch: Watch | None = None
) -> Model:
    """Train a recipe in a run folder, which then explains itself; see `load`."""
    world = world or World()
    resume = world.same(resume and (folder / "recipe.json").exists())
    _check_place(folder, resume)
    torch.manual_seed(recipe.train.seed)
    task = load_task(folder, recipe) if resume else Translation(recipe.task)
    module = build_model(recipe, task)
    if world.is_first and not resume:
        save_recipe(folder, recipe, task)
        write_atomically(folder / "environment.json", json.dumps(environment(), indent=1))
    world.wait()
    trainer = Trainer(module, task, recipe.train, folder, world, resume, watch)
    if world.is_first and resume:
        save_recipe(folder, recipe, task)  # with what was changed, now that it fits what was saved
    trainer.run()
    return Model(folder.resolve().name, recipe, task, module, folder)


def write_result(model: Model, score: Score, *, name: str | None = None) -> Path:
    """The figures of an evaluation, in the run folder: result_SPLIT.json, and the outputs beside it as text."""
    split = score.details["split"]
    write_atomically(model.folder / f"output_{split}.txt", "\n".join(score.details["outputs"]) + "\n")
    content = json.dumps(_content(model, score), indent=1)
    return write_atomically(model.folder / (name or f"result_{split}.json"), content)


def result(model: Model, split: str) -> dict[str, Any]:
    """The figures of a split: those in the run folder, or new ones where there are none, or older ones than weights."""
    path, final = model.folder / f"result_{split}.json", model.folder / FINAL
    if path.exists() and not (final.exists() and final.stat().st_mtime_ns > path.stat().st_mtime_ns):
        return _read_json(path, cure="delete it: the run is then evaluated again")
    score = model.evaluate(split)
    if is_writable(model.folder):
        write_result(model, score)
    return _content(model, score)


def report(runs: Sequence[Model], *, split: str = "test", samples: int = 8, title: str = "", intro: str = "") -> str:
    """One self-contained HTML page for several runs: scores, curves, BLEU by length, samples with alignments."""
    if samples < 0:
        raise ConfigError("samples", got=samples, expected="0 or more")
    names = _distinct([run.name for run in runs])
    views = [_view(run, name, split, samples) for run, name in zip(runs, names, strict=True)]
    return report_page(views, title=title or " · ".join(names), intro=intro)


def _content(model: Model, score: Score) -> dict[str, Any]:
    return {
        "run": model.name,
        "paper": model.recipe.paper,
        "parameters": model.num_parameters,
        **{key: value for key, value in score.details.items() if key != "outputs"},
        "figures": score.figures,
        "environment": environment(),
        "date": time.strftime("%Y-%m-%d"),
    }


def _view(model: Model, name: str, split: str, samples: int) -> RunReport:
    paper, found = MODELS[model.recipe.paper], result(model, split)
    figures, signatures = found["figures"], found["signatures"]
    records = _records(model.folder / METRICS)
    end: dict[str, Any] = next((record for record in records if record["kind"] == "end"), {})
    path = model.folder / "environment.json"
    machine = _read_json(path, cure="delete it") if path.exists() else {}
    beams = found.get("search", to_json(model.task.config.search))["beams"]
    scores = {
        "BLEU, tokenised": f"{figures['tokenized_bleu']:.1f}\n{signatures['tokenized_bleu']}",
        "BLEU": f"{figures['bleu']:.1f}\n{signatures['bleu']}",
        "chrF": f"{figures['chrf']:.1f}\n{signatures['chrf']}",
    }
    facts = {
        "Parameters": f"{model.num_parameters:,}",
        "Updates": f"{end['step']:,}" if end else "",
        "Training": f"{end['seconds'] / 60:.1f} min" if end else "",
        "Machine": machine.get("gpu") or (f"{machine['processor']}, {machine['threads']} threads" if machine else ""),
        "Decoding": f"{figures['sentences_per_second']:.0f} sentences/s\nbeam {beams}",
        "Test set": f"{model.recipe.task.corpus}, {split}\n{found['sentences']} sentences",
    }
    return RunReport(
        name,
        description=f"{paper.title} ({paper.year}) {paper.link}",
        scores=scores,
        facts={key: value for key, value in facts.items() if value},
        curves=[record for record in records if record["kind"] != "end"],
        lengths=length_curve(found),
        samples=_samples(model, split, _spread(model.task, split, samples)),
    )


def _samples(model: Model, split: str, numbers: list[int]) -> list[Sample]:
    lines, references = model.task.text(split).source, model.task.references(split)
    shown = []
    for place, found in enumerate(model.translate([lines[number] for number in numbers])):
        layers = model.heads(found) if place < 3 else {}
        several = {f"{name} · head {head}": panel for name, heads in layers.items() if heads.ndim == 3
                   for head, panel in enumerate(heads)}  # fmt: skip
        shown.append(
            Sample(
                found.source,
                "\n".join(references[numbers[place]][:3]),
                found.text,
                rows=found.tokens,
                columns=found.source_tokens,
                weights=found.weights,
                panels=several,
            )
        )
    return shown


def _spread(task: Translation, split: str, samples: int) -> list[int]:
    """Sentences of all lengths, evenly from the shortest to the longest, the same ones every time."""
    lines = task.text(split).source
    order = sorted(range(len(lines)), key=lambda number: (len(lines[number].split()), number))
    count = min(samples, len(order))
    lengths = [len(lines[number].split()) for number in order]
    chosen: list[int] = []
    for place in range(count):
        wanted = lengths[0] + place * (lengths[-1] - lengths[0]) / max(count - 1, 1)
        left = [rank for rank in range(len(order)) if rank not in chosen]
        chosen.append(min(left, key=lambda rank: abs(lengths[rank] - wanted)))
    return [order[rank] for rank in sorted(chosen)]


def _distinct(names: list[str]) -> list[str]:
    return [name if names.count(name) == 1 else f"{name} ({place + 1})" for place, name in enumerate(names)]


def _check_text(text: str, number: int) -> None:
    """Python lets bytes that are no UTF-8 into a string, as lone surrogates; models cannot read them."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        got = f"{error.object[error.start]!r} at position {error.start}"
        raise RegardError(f"text {number} is no Unicode", got=got, cure="give it in UTF-8") from error


def _ids(codec: Codec, tokens: list[str]) -> list[int]:
    """The numbers of tokens; of one that is unknown, that of <unk>."""
    if isinstance(codec, WordCodec):
        return codec.vocabulary.encode(tokens)
    assert isinstance(codec, SubwordCodec)
    return [codec._processor.piece_to_id(token) for token in tokens]


def _records(path: Path) -> list[dict[str, Any]]:
    """What a training wrote, with the figure that the page draws under the page's name for it."""
    records = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            record = json.loads(line)
        except ValueError:
            continue  # a process is writing this line, or was killed while it did
        records.append({**record, "bleu": record["tokenized_bleu"]} if "tokenized_bleu" in record else record)
    return records


def _read_json(path: Path, *, cure: str) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError(type(content).__name__)
    except (OSError, ValueError) as error:
        raise RegardError(f"{path} cannot be read", got=str(error), cure=cure) from error
    return content


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    final, saved = folder / FINAL, checkpoints(folder / "checkpoints")
    if final.exists():
        try:
            return load_tensors(final)
        except CheckpointError as error:
            cure = f"delete it: {saved[-1].name} is loaded then" if saved else "the run has to start anew"
            raise CheckpointError(error.what, got=error.got, expected=error.expected, cure=cure) from error
    if not saved:
        raise RegardError(f"{folder} has no weights yet", cure="wait for its first checkpoint")
    found, _ = load_checkpoint(saved[-1])
    return {**found["model"], **found.get("mean", {})}


def _check_place(folder: Path, resume: bool) -> None:
    """Before any work: nothing that was trained is written over, and the folder takes files."""
    saved = checkpoints(folder / "checkpoints")
    if not resume and (saved or (folder / FINAL).exists()):
        raise ConfigError(
            f"{folder} holds a run already",
            got=saved[-1].name if saved else FINAL,
            cure="go on with it by --resume, or choose another folder by --out",
        )
    if resume and not saved and (folder / FINAL).exists():
        got = f"{FINAL}, but no checkpoints"
        raise ConfigError(f"{folder} cannot go on", got=got, cure="choose another folder by --out")
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        got = f"{there}, " + ("which is read-only" if there.is_dir() else "which is a file")
        raise RegardError(f"{folder} cannot be written", got=got, cure="choose another folder by --out")


def length_curve(result: Mapping[str, Any]) -> list[tuple[str, float | None, int]]:
    """BLEU by length of the source, as pictures take it: label, BLEU, sentences."""
    return [
        (f"{each['low']}–{each['high']}" if each["high"] else f"{each['low']}+", each["bleu"], each["count"])
        for each in result["lengths"]
    ]


def first_test(model: Model) -> str:
    """The first test set of a run's text: "test", "test2016", …"""
    return next(name for name in model.task.splits if name.startswith("test"))


def is_writable(folder: Path) -> bool:
    """Whether results may be written there; models inside the package are left as they are."""
    return folder.resolve() not in {path.resolve() for path in shipped().values()}


def fit_device(recipe: Recipe, world: World) -> Recipe:
    """The recipe for this machine: graphs are captured on one GPU only, and pure bfloat16 needs one too."""
    train, task = recipe.train, recipe.task
    if world.device.type != "cuda" or world.size > 1:
        half = world.device.type == "cuda" and train.precision != "float32"
        train = replace(train, capture=False, precision="bfloat16" if half else "float32")
        task = replace(task, fit=None)
    return replace(recipe, train=train, task=task)
