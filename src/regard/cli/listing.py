"""`regard list`: every recipe beside the number that it is compared with."""

from regard.models import MODELS
from regard.recipes import RECIPES, figure


def listing() -> None:
    """Print the table."""
    width = max(map(len, RECIPES))
    print(f"{'recipe':{width}}  paper  {'data':20}  ours (tokenised BLEU)  published")
    for name, build in RECIPES.items():
        recipe = build()
        data = f"{recipe.task.corpus} {recipe.task.source}→{recipe.task.target}"
        line = f"{name:{width}}  {MODELS[recipe.paper].year}   {data:20}  {figure(name) or '':21}  {recipe.published}"
        print(line.rstrip())
    print("\nregard train RECIPE [--set train.steps=500 model.align=entmax …]")
