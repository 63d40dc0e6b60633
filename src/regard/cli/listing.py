"""`regard list`: every recipe beside the number that it is compared with, task by task."""

from regard.datasets import DATASETS
from regard.recipes import RECIPES
from regard.recipes.figures import data_folder
from regard.recipes.ledger import OURS, lines

NOTES = {
    "translation": "BLEU of tokens, lower-cased, on the first test set; see docs/reproduction.md.",
    "classification": "Pictures of the test set with a wrong answer.",
    "captioning": "BLEU without brevity penalty, as the paper has it; docs/papers/show_attend_tell.md has it with.",
}


def listing() -> None:
    """Print a table for each task."""
    recipes = {name: build() for name, build in RECIPES.items()}
    every = lines(recipes)
    for task, columns in OURS.items():
        rows: list[tuple[str, ...]] = [("recipe", "paper", "data", *columns, "to compare with")]
        for line in every:
            if line.task == task:
                own = _is_own(data_folder(recipes[line.name.partition("@")[0]].task))
                rows.append((line.name, line.year, line.data + " *" * own, *line.ours, line.published))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        print(f"{task}\n")
        for row in rows:
            print("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
        print(f"\n{NOTES[task]}\n")
    print("* files of your own, below a folder that REGARD_DATA names; all others are in the package, or fetched once.")
    print("RECIPE@VARIANT is a recipe with other settings; docs/reproduction.md has them, and all that was run.")
    print("\nregard train RECIPE [--set train.steps=500 model.align=entmax …]")


def _is_own(name: str) -> bool:
    """Whether the user must bring the files of a data set."""
    return name in DATASETS and DATASETS[name].access == "bring"
