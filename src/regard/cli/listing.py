"""`regard list`: every recipe beside the number that it is compared with, task by task."""

from regard.data import SOURCES
from regard.models import MODELS
from regard.recipes import RECIPES, figure
from regard.recipes.figures import data_folder, data_name

OURS = {  # which figures of the ledger stand in the columns of each task
    "translation": {"ours, beam": ["tokenized_bleu"], "ours, greedy": ["greedy_tokenized_bleu"]},
    "classification": {"ours, error in %": ["error"], "glimpses": ["steps"]},
    "captioning": {"ours, BLEU-1 to 4": [f"bleu_{n}" for n in range(1, 5)], "METEOR": ["meteor"]},
}
NOTES = {
    "translation": "BLEU of tokens, lower-cased, on the first test set; see docs/reproduction.md.",
    "classification": "Pictures of the test set with a wrong answer.",
    "captioning": "BLEU without brevity penalty, as the paper has it; docs/papers/show_attend_tell.md has it with.",
}


def listing() -> None:
    """Print a table for each task."""
    recipes = {name: build() for name, build in RECIPES.items()}
    for task, columns in OURS.items():
        rows: list[tuple[str, ...]] = [("recipe", "paper", "data", *columns, "to compare with")]
        for name, recipe in recipes.items():
            if MODELS[recipe.paper].task != task:
                continue
            data = data_name(recipe.task) + (" *" if _is_own(data_folder(recipe.task)) else "")
            ours = [figure(name, keys) or "" for keys in columns.values()]
            rows.append((name, str(MODELS[recipe.paper].year), data, *ours, recipe.published))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        print(f"{task}\n")
        for row in rows:
            print("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
        print(f"\n{NOTES[task]}\n")
    print("* files of your own, below a folder that REGARD_DATA names; all others are in the package, or fetched once.")
    print("\nregard train RECIPE [--set train.steps=500 model.align=entmax …]")


def _is_own(folder: str) -> bool:
    """Whether no address publishes the files of a data set."""
    urls = [source.url for name, source in SOURCES.items() if name.partition("/")[0] == folder]
    return bool(urls) and not any(urls)
