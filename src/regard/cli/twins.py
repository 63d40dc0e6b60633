"""The work of `regard demo`: an attention translator and its twin without attention, trained, compared and drawn.

The first is trained here, the second at the same time in a process beside it.
"""

import math
import multiprocessing
import shutil
import signal
from collections.abc import Mapping
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from regard import api
from regard.base import ConfigError, RegardError, check_installed, write_atomically
from regard.cli.progress import Counter, Progress
from regard.recipes import RECIPES, Recipe
from regard.tasks.translation import length_points
from regard.viz import chart_curves, draw, save

TWINS = {"with attention": "bahdanau/plain_en_fr", "without attention": "encoder_decoder/plain_en_fr"}
SHIPPED = "tatoeba-en-fr"  # whose alignment is shown where time was too short to learn one
STEPS = 900  # updates of each; on two cores the two take about three minutes
SENTENCE = "I did not know that you could speak French so well."
INTRO = (
    "Two translators of the same size learnt English–French on the embedded corpus, with {updates:,} updates each on "
    "the same sentences. One looks back at the source before each word (Bahdanau 2015); the other has all of it in one "
    "vector (Cho 2014). Hover over a word to see where {who} looked."
)
LATE = (
    "Training was stopped after {time}, because this machine is slow or was busy: {made}, where {wanted:,} updates "
    "each were wanted. So this is no comparison of what the two can learn, and the alignment shown is not theirs, but "
    "that of {shipped}, the model that ships with the package. Run `regard demo` again on an idle machine."
)


def compare_twins(out: str, seconds: float) -> None:
    """Train both with the same number of updates, print the comparison, and end with the path of the report.

    Training stops after so many `seconds`, whatever was reached; page and terminal then say so.
    """
    check_installed("matplotlib", "sacrebleu", "sentencepiece", what="regard demo")
    if not 0 < seconds < math.inf:
        raise ConfigError("--seconds", got=seconds, expected="more than 0", cure="leave it out for the default, 1200")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # of each: more gain little on idle cores, and lose much on busy ones
    try:
        _demo(Path(out), seconds)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("regard: the demo was stopped; it cannot go on, `regard demo` starts it anew") from None
    finally:
        torch.set_num_threads(threads)


def _demo(folder: Path, seconds: float) -> None:
    models, updates = _train_both(folder, seconds)
    for name, model in models.items():
        with Counter(name) as progress:
            api.write_result(model, model.evaluate("test", progress=progress))
    _compare(models, updates)
    late = _late(updates, seconds) if min(updates.values()) < STEPS else ""
    if late:
        print(f"\n{late}")
    teacher = replace(api.load(api.shipped()[SHIPPED]), name=SHIPPED) if late else None
    pictures = [_draw(teacher or models["with attention"], folder), _curves(models, folder)]
    intro = INTRO.format(updates=min(updates.values()), who="the third one" if late else "the first one")
    with Counter("report") as progress:
        page = api.report(
            list(models.values()),
            title="Attention, and the same model without it",
            intro=f"{late}\n\n{intro}" if late else intro,
            explained_by=teacher,
            progress=progress,
        )
    print("\nPictures:", *pictures, sep="\n  ")
    print("\nReport:", write_atomically(folder / "report.html", page).resolve(), sep="\n")


def _train_both(folder: Path, seconds: float) -> tuple[dict[str, api.Model], dict[str, int]]:
    """The models, and how many updates each had: the same number, unless time is over."""
    recipes, places = {}, {}
    for name, recipe_name in TWINS.items():
        places[name] = folder / name.replace(" ", "_")
        if (places[name] / "recipe.json").exists():
            shutil.rmtree(places[name])  # of an earlier demo
        recipes[name] = _sized(RECIPES[recipe_name](), STEPS, seconds)
        print(f"{name}: {recipe_name}, {STEPS:,} updates", flush=True)
    first, second = TWINS
    spawn = multiprocessing.get_context("spawn")
    heard, told = spawn.Pipe(duplex=False)
    beside = spawn.Process(target=_train_beside, args=(recipes[second], places[second], told), daemon=True)
    beside.start()
    told.close()  # here; so the end of that process is the end of the pipe
    try:
        one, first_updates = _train(recipes[first], places[first], first)
        second_updates = _follow(heard, recipes[second], second)
    finally:
        beside.terminate()
        beside.join()
    two = replace(api.load(places[second]), name=second)
    return {first: one, second: two}, {first: first_updates, second: second_updates}


def _train(recipe: Recipe, folder: Path, name: str) -> tuple[api.Model, int]:
    """The model, and how many updates it had."""
    ends: list[int] = []

    def told(kind: str, facts: Mapping[str, Any]) -> None:
        watch(kind, facts)
        if kind == "end":
            ends.append(facts["step"])

    with Progress(replace(recipe.train, seconds=None), name) as watch:  # a bar of updates, not of the limit
        model = api.train(recipe, folder, watch=told)
    return replace(model, name=name), ends[-1]


def _train_beside(recipe: Recipe, folder: Path, told: Connection) -> None:
    """The work of the other process. It tells what happens now and then, and whatever error ended it."""

    def tell(kind: str, facts: Mapping[str, Any]) -> None:
        if kind != "step":
            told.send((kind, dict(facts)))

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process, which ends this one
    torch.set_num_threads(1)
    try:
        api.train(recipe, folder, watch=tell)
    except Exception as error:
        told.send(("error", str(error)))


def _follow(heard: Connection, recipe: Recipe, name: str) -> int:
    """Shows what the other process has told until now and still tells; the number of its updates."""
    with Progress(replace(recipe.train, seconds=None), name) as watch:
        while True:
            try:
                kind, facts = heard.recv()
            except EOFError:
                kind, facts = "error", "its process ended early"
            if kind == "error":
                cure = "run `regard demo` again"
                raise RegardError(f"the training {name} failed", got=facts, cure=cure)
            if kind == "train":
                watch("step", facts)
            watch(kind, facts)
            if kind == "end":
                return int(facts["step"])


def _sized(recipe: Recipe, steps: int, seconds: float) -> Recipe:
    train = replace(recipe.train, steps=steps, seconds=seconds, evaluate_every=1_000_000, save_every=1_000_000)
    return replace(recipe, train=replace(train, log_every=50))


def _compare(models: dict[str, api.Model], updates: dict[str, int]) -> None:
    results = {name: api.result(model, "test") for name, model in models.items()}
    first, second = results.values()
    print(f"\nBLEU on {first['count']} unseen sentences (tokenised, lower-cased, all references):\n")
    print(
        f"  {'words of the source':22} {'sentences':>9} " + " ".join(f"{name:>18}" for name in models) + f" {'gap':>6}"
    )
    for (label, one, count), (_, two, _) in zip(length_points(first), length_points(second), strict=True):
        if one is not None and two is not None:
            print(f"  {label:22} {count:9} {one:18.1f} {two:18.1f} {one - two:6.1f}")
    scores = [result["figures"]["tokenized_bleu"] for result in results.values()]
    print(f"  {'all':22} {first['count']:9} {scores[0]:18.1f} {scores[1]:18.1f} {scores[0] - scores[1]:6.1f}")
    for what, counts in (
        ("parameters", [model.num_parameters for model in models.values()]),
        ("updates", updates.values()),
    ):
        print(f"  {what:33}" + " ".join(f"{count:18,}" for count in counts))


def _late(updates: Mapping[str, int], seconds: float) -> str:
    """What terminal and page say where time was over before the training was."""
    made = " and ".join(f"{count:,} {name}" for name, count in updates.items())
    limit = f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:g} seconds"
    return LATE.format(time=limit, made=f"there were {made}", wanted=STEPS, shipped=SHIPPED)


def _draw(model: api.Model, folder: Path) -> Path:
    translation = model.translate(SENTENCE, min_steps=2)  # a word at least, before the end
    print(f"\n  {SENTENCE}\n  → {translation.text}  ({model.name})")
    return save(draw(translation.explanations[0]), folder / "alignment.png").resolve()


def _curves(models: dict[str, api.Model], folder: Path) -> Path:
    curves = {name: api.charts(model, api.result(model, "test"))[0] for name, model in models.items()}
    return save(chart_curves(curves), folder / "bleu_by_length.png").resolve()
