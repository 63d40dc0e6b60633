"""Rewrite the tables of results in the documents from src/regard/recipes/results/*.json.

    python tools/make_ledger.py            rewrite what is stale, and name it
    python tools/make_ledger.py --check    change nothing; exit status 1 if a page is stale

A table stands between `<!-- ledger: recipe, recipe -->` and `<!-- end -->`; `all` stands for every recipe that has
results. Variants of a recipe (results/RECIPE@VARIANT.json) follow it. docs/results.md has short
ones, `<!-- lines: recipe, recipe -->`: the lines of `regard list`. docs/zoo.md has what trainings
cost, `<!-- costs: all -->`, and the models that ship, `<!-- models: all -->`. Where a table of results names its
recipes, a table of what they cost follows it.
"""

import argparse
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from regard.base import write_atomically
from regard.recipes import RECIPES, find_recipe, overview, table
from regard.recipes.costs import cost, machine
from regard.recipes.ledger import variants
from regard.recipes.zoo import zoo

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(<!-- (?P<kind>ledger|lines|costs|models): (?P<names>.*?) -->\n).*?(<!-- end -->)", re.DOTALL)


def pages() -> list[Path]:
    """Documents that may hold tables."""
    docs = ROOT / "docs"
    return [
        *sorted((docs / "papers").glob("*.md")),
        *(docs / f"{name}.md" for name in ("reproduction", "results", "zoo")),
    ]


def rewritten(text: str) -> str:
    """The page with its tables made anew."""
    return BLOCK.sub(lambda match: f"{match[1]}\n{made(match['kind'], match['names'])}\n\n<!-- end -->", text)


def made(kind: str, names: str) -> str:
    """The table of these recipes: all that was run, or their lines in `regard list`."""
    if kind == "models":
        return models()
    if kind == "costs":
        known = [name for name in RECIPES if is_known(name)]
        return f"{costs(known)}\n\nMeasured on {machine()}: `python tools/measure_costs.py`."
    chosen = [name.strip() for name in names.split(",")]
    if chosen == ["all"]:  # the pages of the papers name those without results too
        chosen = [name for name in RECIPES if variants(name)]
    if unknown := [name for name in chosen if name not in RECIPES]:
        raise SystemExit(f"there is no recipe {unknown[0]!r}")
    recipes = {name: RECIPES[name]() for name in chosen}
    if kind == "lines":
        return overview(recipes)
    if names == "all":
        return table(recipes)
    link = "[how it is measured](../zoo.md#what-trainings-cost)"
    return f"{table(recipes)}\n\nWhat they cost to train ({link}):\n\n{costs(recipes)}"


def models() -> str:
    """A row for each model that ships."""
    rows = ["| model | what it does | figure | MB | learnt from |", "|---|---|---|---|---|"]
    for model in zoo():
        card = f"../src/regard/recipes/shipped/{model.name}/card.md"
        learnt = model.licence.partition("; ")[2]
        rows.append(
            f"| [`{model.name}`]({card}) | {model.does} | {model.figure} (`{model.split}`) "
            f"| {model.num_bytes / 1e6:.2g} | {learnt} |"
        )
    return "\n".join(rows)


def costs(names: Iterable[str]) -> str:
    """A row for each of these recipes."""
    rows = ["| recipe | CPU, one thread | memory | GPU | data | remark |", "|---|---|---|---|---|---|"]
    for name in names:
        paid = cost(find_recipe(name, RECIPES))
        cells = [cell or "–" for cell in (paid.cpu_text, paid.memory_text, paid.gpu_text)]
        rows.append(f"| `{name}` | {' | '.join(cells)} | {paid.data} | {paid.remark} |")
    return "\n".join(rows)


def is_known(name: str) -> bool:
    """Whether a recipe was measured, or run on a GPU."""
    paid = cost(find_recipe(name, RECIPES))
    return bool(paid.cpu_text or paid.gpu_text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit status 1 if a page is stale")
    asked = parser.parse_args()
    stale = [page for page in pages() if rewritten(page.read_text()) != page.read_text()]
    for page in stale:
        print(f"{page.relative_to(ROOT)} {'is stale: run tools/make_ledger.py' if asked.check else 'is new'}")
        if not asked.check:
            write_atomically(page, rewritten(page.read_text()))
    return 1 if stale and asked.check else 0


if __name__ == "__main__":
    sys.exit(main())
