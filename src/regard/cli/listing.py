"""`regard list`: every recipe beside the number that it is compared with."""

from regard.models import MODELS
from regard.recipes import RECIPES, figure


def listing() -> None:
    """Print the table."""
    width = max(map(len, RECIPES))
    print(f"{'recipe':{width}}  paper  {'data':20}  {'ours, beam':18}  {'ours, greedy':18}  to compare with")
    for name, build in RECIPES.items():
        recipe = build()
        data = f"{recipe.task.corpus} {recipe.task.source}→{recipe.task.target}"
        beam, greedy = figure(name) or "", figure(name, "greedy_tokenized_bleu") or ""
        line = f"{name:{width}}  {MODELS[recipe.paper].year}   {data:20}  {beam:18}  {greedy:18}  {recipe.published}"
        print(line.rstrip())
    print("\nBLEU of tokens, lower-cased, on the first test set; see docs/reproduction.md.")
    print("\nregard train RECIPE [--set train.steps=500 model.align=entmax …]")
