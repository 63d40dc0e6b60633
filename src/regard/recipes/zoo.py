"""The zoo: trained models inside the package, each in a folder of `shipped/` with its card, and what it costs to keep.

A folder is a run folder without checkpoints, and beside it `card.md` for people and `card.json` for `regard list`:
what the model does, its figure on a test set that the package holds, and its licence. `tools/ship_run.py` makes one.
"""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from regard.base import read_json
from regard.models import MODELS
from regard.recipes.recipe import RECIPE, load_recipe

CARD = "card.json"
CURE = "install regard anew"  # files of the package are not the user's


@dataclass(frozen=True)
class ShippedModel:
    """What `regard list --models` says of a model."""

    name: str
    task: str  # of TASKS
    paper: str  # its title and year
    recipe: str  # by which it was trained
    does: str  # what it does, in a few words
    split: str  # a test set that the package holds
    figure: str  # its main figure there, in words: "BLEU 51.5"
    num_bytes: int  # of the folder
    licence: str
    example: str  # a command that works after the installation


@cache
def shipped() -> dict[str, Path]:
    """The folders of the models inside the package, by name."""
    folder = Path(str(files("regard") / "recipes" / "shipped"))
    return {path.name: path for path in sorted(folder.glob("*")) if (path / RECIPE).exists()}


def card_of(folder: Path) -> dict[str, Any]:
    """The facts of a model that ships; nothing for any other run folder."""
    if folder.name not in shipped() or folder.resolve() != shipped()[folder.name].resolve():
        return {}
    facts: dict[str, Any] = read_json(folder / CARD, cure=CURE)
    return facts


def zoo() -> list[ShippedModel]:
    """Every model that ships with the package, by name; `regard.load` takes the name."""
    made = []
    for name, folder in shipped().items():
        recipe, card = load_recipe(folder), card_of(folder)
        figure, paper = recipe.entry.display.figure(card["figure"]), MODELS[recipe.paper]
        made.append(
            ShippedModel(
                name=name,
                task=recipe.entry.name,
                paper=f"{paper.title} ({paper.year})",
                recipe=card["recipe"],
                does=card["does"],
                split=card["split"],
                figure=f"{figure.label} {card['value']:.{figure.decimals}f}",
                num_bytes=sum(path.stat().st_size for path in folder.iterdir()),
                licence=card["licence"],
                example=card["example"],
            )
        )
    return made
