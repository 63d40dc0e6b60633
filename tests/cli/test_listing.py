import pytest

from regard.cli.main import main
from regard.models import MODELS
from regard.recipes import RECIPES, entry, figure
from regard.recipes.figures import data_name
from regard.recipes.ledger import OURS, shown

OWN = ("tatoeba", "europarl", "svhn", "flickr8k")  # no address publishes them


def test_every_recipe_has_a_line_below_its_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    seen = []
    for task, ours in OURS.items():
        start = lines.index(task) + 2
        head = lines[start]
        columns = [head.index(name) for name in ("paper", "data", *ours, "to compare")]
        for line in lines[start + 1 : lines.index("", start)]:
            name = line.split()[0]
            recipe = RECIPES[name.partition("@")[0]]()
            year, data, *figures, published = (
                line[left:right].strip() for left, right in zip(columns, [*columns[1:], None], strict=True)
            )
            assert MODELS[recipe.paper].task == task
            assert year == str(MODELS[recipe.paper].year)
            own = " *" if data_name(recipe.task).split()[0].strip(",") in OWN else ""
            assert data == data_name(recipe.task) + own
            assert figures == [figure(name, keys) or "" for keys in ours.values()]
            theirs = (entry(name) or {}).get("published")
            assert published == (theirs or (recipe.published if "@" not in name else ""))
            seen.append(name)
    assert seen == [each for task in OURS for name in RECIPES if MODELS[RECIPES[name]().paper].task == task
                    for each in shown(name) or [name]]  # fmt: skip
    assert {name.partition("@")[0] for name in seen} == set(RECIPES)
    assert lines[-1].startswith("regard train RECIPE")


def test_columns_are_figures_of_their_task() -> None:
    assert next(iter(OURS["captioning"].values())) == ("bleu_1", "bleu_2", "bleu_3", "bleu_4")
    assert "error" in OURS["classification"]["ours, error in %"]
