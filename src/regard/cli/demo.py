"""`regard demo`: an attention translator and its twin without attention, trained, compared and drawn."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard import api
from regard.base import write_atomically
from regard.cli.progress import Progress
from regard.recipes import RECIPES, Recipe
from regard.viz import heatmap, length_curves, save

TWINS = {"with attention": "bahdanau/plain_en_fr", "without attention": "encoder_decoder/plain_en_fr"}
BUSY = 2.5  # times the updates: undisturbed, the one without attention has about 1.5 times as many
SENTENCE = "I did not know that you could speak French so well."
INTRO = (
    "Two translators of the same size learnt English–French on the embedded corpus, for the same time. One looks back "
    "at the source before each word (Bahdanau 2015); the other has all of it in one vector (Cho 2014). Hover over a "
    "word to see where the first one looked."
)


def demo(out: str, seconds: float) -> None:
    """Train both, print the comparison, and end with the path of the report."""
    folder = Path(out)
    models, updates = {}, {}
    for name, recipe_name in TWINS.items():
        place = folder / name.replace(" ", "_")
        if (place / "recipe.json").exists():
            shutil.rmtree(place)  # of an earlier demo
        recipe = _timed(RECIPES[recipe_name](), seconds)
        print(f"{name}: {recipe_name}, {seconds:.0f} s of training")
        models[name], updates[name] = _train(recipe, place, name)
        api.write_result(models[name], models[name].evaluate("test"))
    _compare(models, updates)
    pictures = [_draw(models["with attention"], folder), _curves(models, folder)]
    page = api.report(list(models.values()), title="Attention, and the same model without it", intro=INTRO)
    print("\nPictures:", *pictures, sep="\n  ")
    print("\nReport:", write_atomically(folder / "report.html", page).resolve(), sep="\n")


def _train(recipe: Recipe, folder: Path, name: str) -> tuple[api.Model, int]:
    """The model, and how many updates it had."""
    ends: list[int] = []

    def told(kind: str, facts: Mapping[str, Any]) -> None:
        watch(kind, facts)
        if kind == "end":
            ends.append(facts["step"])

    with Progress(recipe.train, name) as watch:
        model = api.train(recipe, folder, watch=told)
    return replace(model, name=name), ends[-1]


def _timed(recipe: Recipe, seconds: float) -> Recipe:
    train = replace(recipe.train, steps=1_000_000, seconds=seconds, evaluate_every=1_000_000, save_every=1_000_000)
    return replace(recipe, train=replace(train, log_every=50))


def _compare(models: dict[str, api.Model], updates: dict[str, int]) -> None:
    results = {name: api.result(model, "test") for name, model in models.items()}
    first, second = results.values()
    print(f"\nBLEU on {first['sentences']} unseen sentences (tokenised, lower-cased, all references):\n")
    print(
        f"  {'words of the source':22} {'sentences':>9} " + " ".join(f"{name:>18}" for name in models) + f" {'gap':>6}"
    )
    for (label, one, count), (_, two, _) in zip(api.length_curve(first), api.length_curve(second), strict=True):
        if one is not None and two is not None:
            print(f"  {label:22} {count:9} {one:18.1f} {two:18.1f} {one - two:6.1f}")
    scores = [result["figures"]["tokenized_bleu"] for result in results.values()]
    print(f"  {'all':22} {first['sentences']:9} {scores[0]:18.1f} {scores[1]:18.1f} {scores[0] - scores[1]:6.1f}")
    for what, counts in (
        ("parameters", [model.num_parameters for model in models.values()]),
        ("updates", updates.values()),
    ):
        print(f"  {what:33}" + " ".join(f"{count:18,}" for count in counts))
    if max(updates.values()) > BUSY * min(updates.values()):
        print("\n  One of them had far fewer updates: the machine was busy. This is no comparison; run it again.")


def _draw(model: api.Model, folder: Path) -> Path:
    found = model.translate(SENTENCE, min_steps=2)  # a word at least, before the end
    print(f"\n  {SENTENCE}\n  → {found.text}")
    return save(heatmap(found.weights, found.tokens, found.source_tokens), folder / "alignment.png").resolve()


def _curves(models: dict[str, api.Model], folder: Path) -> Path:
    curves = {name: api.length_curve(api.result(model, "test")) for name, model in models.items()}
    return save(length_curves(curves, title="BLEU by source length"), folder / "bleu_by_length.png").resolve()
