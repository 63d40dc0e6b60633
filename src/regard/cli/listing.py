"""`regard list`: every recipe beside the number that it is compared with."""

from regard.data import SOURCES
from regard.models import MODELS
from regard.recipes import RECIPES, figure

OWN_FOLDER = {name.partition("/")[0] for name, source in SOURCES.items() if source.url is None}  # nobody publishes them


def listing() -> None:
    """Print the table."""
    rows: list[tuple[str, ...]] = [("recipe", "paper", "data", "ours, beam", "ours, greedy", "to compare with")]
    for name, build in RECIPES.items():
        recipe = build()
        star = " *" if recipe.task.corpus in OWN_FOLDER else ""
        data = f"{recipe.task.corpus} {recipe.task.source}→{recipe.task.target}{star}"
        ours = [figure(name, key) or "" for key in ("tokenized_bleu", "greedy_tokenized_bleu")]
        rows.append((name, str(MODELS[recipe.paper].year), data, *ours, recipe.published))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    print("\nBLEU of tokens, lower-cased, on the first test set; see docs/reproduction.md.")
    print("* files of your own, below a folder that REGARD_DATA names; all others are in the package, or fetched once.")
    print("\nregard train RECIPE [--set train.steps=500 model.align=entmax …]")
