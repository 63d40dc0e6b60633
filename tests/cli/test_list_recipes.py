import json

import pytest

from regard.cli.main import main
from regard.datasets import DATASETS
from regard.models import MODELS
from regard.recipes import RECIPES, entry, figure, find_recipe
from regard.recipes.costs import cost
from regard.recipes.ledger import shown
from regard.recipes.zoo import shipped
from regard.tasks import TASKS

OWN = [name for name, dataset in DATASETS.items() if dataset.access == "bring"]  # no address publishes them


def test_every_recipe_has_a_line_below_its_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    seen = []
    for task in TASKS.values():
        ours = task.display.overview
        start = lines.index(task.name) + 2
        head = lines[start]
        labels = ("paper", "data", "CPU", "memory", "GPU", *(column.label for column in ours), "to compare")
        columns = [head.index(name) for name in labels]
        for line in lines[start + 1 : lines.index("", start)]:
            name = line.split()[0]
            recipe = RECIPES[name.partition("@")[0]]()
            year, data, cpu, memory, gpu, *figures, published = (
                line[left:right].strip() for left, right in zip(columns, [*columns[1:], None], strict=True)
            )
            assert recipe.entry is task
            paid = cost(find_recipe(name, RECIPES)) if name in RECIPES else None
            assert (cpu, memory, gpu) == (
                ("",) * 3 if paid is None else (paid.cpu_text, paid.memory_text, paid.gpu_text)
            )
            assert year == str(MODELS[recipe.paper].year)
            described = (entry(name) or {}).get("data") or recipe.task.describe_data()
            assert data == described + (" *" if described.split()[0].strip(",") in OWN else "")
            assert figures == [figure(name, column) or "" for column in ours]
            theirs = (entry(name) or {}).get("published")
            assert published == (theirs or (recipe.published if "@" not in name else ""))
            seen.append(name)
    tasks = {name: build().entry.name for name, build in RECIPES.items()}
    assert seen == [each for task in TASKS for name in RECIPES if tasks[name] == task for each in shown(name) or [name]]
    assert {name.partition("@")[0] for name in seen} == set(RECIPES)
    assert lines[-1].startswith("regard show RECIPE; regard train RECIPE")


@pytest.mark.parametrize(("filters", "names"), [
    (["captioning"], [name for name in RECIPES if name.startswith("show_attend_tell/")]),
    (["ram"], [name for name in RECIPES if name.startswith("ram/")]),
    (["ram/cl*"], ["ram/cluttered60", "ram/cluttered100"]),
    (["multi30k", "luong"], [name for name in RECIPES if name.startswith("luong/") and "small" not in name]),
])  # fmt: skip
def test_filters(filters: list[str], names: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", *filters, "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)
    assert list(dict.fromkeys(line["name"].partition("@")[0] for line in lines)) == names
    for line in lines:
        assert len(line["ours"]) == len(line["columns"])


def test_a_filter_that_matches_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "captionin"]) == 2
    assert "no recipe matches: got captionin" in capsys.readouterr().err


def test_models_that_ship(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--models"]) == 0
    text = capsys.readouterr().out
    assert main(["list", "--models", "--json"]) == 0
    models = json.loads(capsys.readouterr().out)
    assert [model["name"] for model in models] == sorted(shipped())
    for model in models:
        for part in ("name", "task", "does", "figure", "licence", "example"):
            assert model[part] in text
        assert model["num_bytes"] > 10_000


def test_models_of_a_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--models", "translation", "--json"]) == 0
    assert {model["task"] for model in json.loads(capsys.readouterr().out)} == {"translation"}
    assert main(["list", "--models", "babi-storys"]) == 2
    assert "no model matches: got babi-storys. Did you mean 'babi-stories'?" in capsys.readouterr().err
