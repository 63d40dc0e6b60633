"""`regard show`: every setting of a recipe or of a run, with its meaning and its default."""

import argparse
import json
from pathlib import Path
from typing import Any

HELP = "every setting of a recipe or a run, with its meaning"


def add(command: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    command.add_argument("recipe", help="the name of a recipe, a run folder, or a model that ships with the package")
    command.add_argument("--json", action="store_true", help="print the settings as JSON")


def run(asked: argparse.Namespace) -> None:
    """Print the settings of the model, of the task, of the training, and of predictions."""
    from regard.api import shipped, verb_of
    from regard.base.meanings import described
    from regard.models import MODELS
    from regard.recipes import RECIPES, find_recipe, load_recipe
    from regard.recipes.costs import cost
    from regard.recipes.zoo import card_of

    folder = shipped().get(asked.recipe, Path(asked.recipe))
    is_run = (folder / "recipe.json").exists()
    recipe = load_recipe(folder) if is_run else find_recipe(asked.recipe, RECIPES, besides=shipped())
    paper, entry = MODELS[recipe.paper], recipe.entry
    sections: dict[str, Any] = {"model": recipe.model, "task": recipe.task, "train": recipe.train}
    settings = {f"{name}.{each.name}": each for name, config in sections.items() for each in described(config)}
    if asked.json:
        print(json.dumps({name: {"value": each.value, "default": each.default, "meaning": each.meaning}
                          for name, each in settings.items()}, indent=1, ensure_ascii=False))  # fmt: skip
        return
    if card := card_of(folder):
        _tell_card(asked.recipe, card, folder, entry.display.figure(card["figure"]))
    print(f"{recipe.name or asked.recipe}: {recipe.note}".rstrip(": "))
    print(f"{paper.title} ({paper.year})" + (f", {paper.link}" if paper.link else ""))
    print(f"task {entry.name}, data {recipe.task.describe_data()}")
    if recipe.name in RECIPES:
        print(f"cost of its training: {cost(recipe).sentence()}")
    if recipe.published:
        print(f"published: {recipe.published}")
    width = max(len(f"{name}={each.value}") for name, each in settings.items() if len(f"{each.value}") < 30)
    for section in sections:
        print(f"\n{section}: {type(sections[section]).__name__}, changed by --set {section}.NAME=VALUE\n")
        for name, each in settings.items():
            if name.startswith(f"{section}."):
                default = "" if each.value == each.default else f" (default: {each.default})"
                print(f"  {f'{name}={each.value}':{width}}  {each.meaning}{default}".rstrip())
    predicting = [each for each in described(entry.task.settings_type()) if each.name not in entry.task.unused_settings]
    if predicting:
        call = f"model.{verb_of(entry)}(…, NAME=VALUE)"
        print(f"\npredictions: changed by `regard evaluate RUN --set NAME=VALUE`, or in `{call}`\n")
    for each in predicting:
        print(f"  {f'{each.name}={each.value}':{width}}  {each.meaning}".rstrip())


def _tell_card(name: str, card: dict[str, Any], folder: Path, figure: Any) -> None:
    """What a model that ships does, before its settings."""
    size = (folder / "model.safetensors").stat().st_size / 1e6
    print(f"{name} {card['does']}; it ships with the package.\n")
    rows = {
        "figure": f"{figure.label} {card['value']:.{figure.decimals}f} on {card['split']}: regard evaluate {name}",
        "trained": card["trained"],
        "weights": f"{size:.1f} MB, stored as {card['stored']}, computed in float32",
        "licence": card["licence"],
        "try": card["example"],
        "card": str(folder / "card.md"),
    }
    for label, text in rows.items():
        print(f"  {label:8} {text}")
    print()
