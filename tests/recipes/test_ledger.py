import json
import math
import re
from dataclasses import replace
from importlib.resources import files

import pytest
from table import cases

from regard.recipes import RECIPES, change, entry, figure, ledger, overview, table
from regard.recipes.ledger import lines, shown, variants
from regard.recipes.recipe import Recipe
from regard.tasks import TASKS, Column, Display

BLEU = Column("BLEU", ("tokenized_bleu",))
RUN = [name for recipe in RECIPES for name in variants(recipe)]


def display_of(name: str) -> Display:
    return RECIPES[name.partition("@")[0]]().entry.display


def like(recipe: str, published: str = "", data: str | None = None) -> Recipe:
    """A recipe of the same task as `recipe`, with another published number, on a data set of that name."""
    made = replace(RECIPES[recipe](), published=published)
    return made if data is None else replace(made, task=replace(made.task, dataset=data))


def test_every_result_belongs_to_a_recipe() -> None:
    folder = files("regard") / "recipes" / "results"
    names = [path.name for path in folder.iterdir() if path.name.endswith(".json")]
    assert sorted(names) == sorted(f"{name.replace('/', '_')}.json" for name in RUN)
    assert RUN


@cases("name", RUN)
def test_results_tell_how_they_were_made(name: str) -> None:
    found = entry(name)
    assert found is not None
    recipe = name.partition("@")[0]
    assert found["recipe"] == recipe
    assert found["command"].startswith(f"python tools/reproduce.py {recipe}")
    assert found["seeds"] == len(found["runs"])
    for run in found["runs"]:
        assert {"torch", "processor"} <= set(run["environment"])
        for split in run["splits"].values():
            counted = display_of(name).counted
            most = 100 if "%" in counted.label or "BLEU" in counted.label else math.inf
            assert 0 <= split["figures"][counted.key] <= most
            assert split["signatures"][counted.signature or counted.key]


@cases("name", RUN)
def test_a_figure_is_the_mean_over_seeds(name: str) -> None:
    found = entry(name)
    assert found is not None
    split, summary = next(iter(found["summary"].items()))
    counts = display_of(name).counts
    decimals = 2 if counts == "error" else 1
    text = figure(name, Column("", (counts,), decimals))
    assert text is not None
    assert counts in summary
    values = [run["splits"][split]["figures"][counts] for run in found["runs"]]
    mean = f"{sum(values) / len(values):.{decimals}f}"
    chosen = summary[counts].get("chosen")
    assert text.startswith(mean if chosen is None else f"{chosen:.{decimals}f} (of all {mean}")
    assert ("±" in text) == ("seeds" in text) == (len(values) > 1)


@cases("name", RUN)
def test_a_row_is_what_its_command_gives(name: str) -> None:
    """The settings of a row, put on the recipe as it stands now, are what was run: the numbers of updates agree."""
    found = entry(name)
    assert found is not None
    settings = [setting for setting in found["runs"][0]["settings"] if not setting.startswith("start=")]
    recipe = change(RECIPES[found["recipe"]](), settings)
    steps = {run["steps"] for run in found["runs"]}
    if recipe.train.seconds is None and recipe.train.patience is None:
        assert steps == {recipe.train.steps}
    else:
        assert max(steps) <= recipe.train.steps
    assert " --set " in found["command"] or "--again" in found["command"] or not found["runs"][0]["settings"]


def test_what_was_not_run_has_no_figure() -> None:
    assert entry("no/such") is None
    assert figure("no/such", BLEU) is None
    assert figure("bahdanau/multi30k_de_en", Column("", ("error",))) is None  # nor one that nobody asked for


def test_the_table_has_ours_beside_theirs() -> None:
    name = "bahdanau/multi30k_de_en"
    text = table({name: like(name, "28.3 (somebody)"), "no/such": like(name)})
    row = next(line for line in text.splitlines() if line.startswith(f"| `{name}`"))
    shown = figure(name, BLEU)
    assert shown is not None
    assert "28.3 (somebody)" in row
    assert re.sub(r" \(.*", "", shown) in row
    assert "`no/such`" not in row
    assert json.dumps(entry(name))  # nothing was changed into what JSON does not know


def _entry(figures: dict[str, tuple[float, float | None]], **more: object) -> dict[str, object]:
    signatures = {"error": "error in % of 10 pictures", "bleu": "bp:no", "bleu_brevity": "bp:closest"}
    run = {
        "settings": more.pop("settings", []),
        "parameters": 210_000,
        "steps": 30_000,
        "minutes_of_training": 2.0,
        "splits": {"test": {"figures": {}, "signatures": signatures, "missing": more.pop("missing", {})}},
        "environment": {"gpu": "a GPU", "torch": "2.0"},
        "date": "2026-01-02",
    }
    summary = {key: {"mean": mean, "spread": spread} for key, (mean, spread) in figures.items()}
    return {"summary": {"test": summary}, "seeds": 3, "command": "python x", "runs": [run], **more}


@pytest.mark.parametrize(
    ("parameters", "text"), [(1_986, "2.0 k"), (60_500, "60.5 k"), (210_000, "0.21 M"), (1_260_000, "1.3 M")]
)
def test_small_models_are_counted_in_thousands(parameters: int, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = json.loads(json.dumps(_entry({"error": (1.0, None)})))
    content["runs"][0]["parameters"] = parameters
    monkeypatch.setattr(ledger, "entry", {"see/a": content}.get)
    monkeypatch.setattr(ledger, "variants", lambda name: [name])
    assert f" | {text} | 30,000 |" in table({"see/a": like("ram/mini")})
    assert f" | {text} | 30,000 |" in overview({"see/a": like("ram/mini")})


def test_each_task_has_a_table_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    bleu = {f"bleu_{n}": (70.0 - 10 * n, 0.1 * n) for n in range(1, 5)}
    short = {f"bleu_{n}_brevity": (60.0 - 10 * n, 0.2) for n in range(1, 5)}
    entries = {
        "see/a": _entry({"error": (1.234, 0.056), "steps": (8.0, 0.0)}),
        "see/a@4": _entry({"error": (7.0, 0.1), "steps": (4.0, 0.0)}, settings=["model.glimpses=4"], published="7.1"),
        "see/b": _entry({"error": (9.0, 0.5)}),
        "say/a": _entry({**bleu, **short, "cider": (50.0, 1.0), "words": (9.0, 0.1)}, missing={"meteor": "no Java"}),
    }
    monkeypatch.setattr(ledger, "entry", entries.get)
    monkeypatch.setattr(ledger, "variants", lambda name: [each for each in entries if each.split("@")[0] == name])
    see, say = "ram/mini", "show_attend_tell/shapes"
    recipes = {"say/a": like(say), "see/a": like(see, "1.29 (them)"), "see/b": like(see), "see/c": like(see)}
    text = table(recipes)
    first, second = (
        text.index("| recipe | test set | error, % |"),
        text.index("| recipe | test set | BLEU-1 / 2 / 3 / 4 |"),
    )
    assert first < second
    assert "| `see/a` | digits test | 1.23 ± 0.06 | 1.29 (them) | 8.0 ± 0.0 | 3 | 0.21 M | 30,000 | 2.0 |" in text
    assert "| `see/a` `model.glimpses=4` | digits test | 7.00 ± 0.10 | 7.1 | 4.0 ± 0.0 |" in text
    assert "| `see/b` | digits test | 9.00 ± 0.50 | – | – |" in text  # it takes no glimpses
    assert "| label error" not in text  # nothing has any
    assert "| 60.0 / 50.0 / 40.0 / 30.0 ± 0.1 / 0.2 / 0.3 / 0.4 | – | 50.0 / 40.0 / 30.0 / 20.0 ± 0.2" in text
    assert "- METEOR was not measured: no Java." in text
    assert text.count("- Error: `error in % of 10 pictures`.") == 1
    assert text.endswith("No results yet: `see/c`.")


# ── one line for each ───────────────────────────────────────────────────────────────────────────────────────────────


def test_the_list_and_the_tables_have_the_same_figures() -> None:
    recipes = {name: build() for name, build in RECIPES.items()}
    text = overview(recipes)
    for line in lines(recipes):
        assert sum(row.startswith(f"| `{line.name}` |") for row in text.splitlines()) == 1
        row = next(row for row in text.splitlines() if row.startswith(f"| `{line.name}` |"))
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        assert tuple(cells[2 : 2 + len(line.ours)]) == tuple(figure or "–" for figure in line.ours)
        assert cells[2 + len(line.ours)] == (line.published or "–")
    assert {line.task for line in lines(recipes)} == set(TASKS)


def test_what_stands_for_a_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own row first; variants that have a number to be compared with; one of them where there is no own row."""
    entries = {
        "a/own": _entry({"error": (1.0, None)}),
        "a/own@compared": _entry({"error": (2.0, None)}, published="7"),
        "a/own@other": _entry({"error": (3.0, None)}),
        "a/own@tried": _entry({"error": (4.0, None)}, published="7", tried=True),
        "b/none@first": _entry({"error": (5.0, None)}),
        "b/none@second": _entry({"error": (6.0, None)}),
        "c/none@other": _entry({"error": (7.0, None)}),
        "c/none@tried": _entry({"error": (8.0, None)}, published="7", tried=True),
    }
    monkeypatch.setattr(ledger, "entry", entries.get)
    monkeypatch.setattr(ledger, "variants", lambda name: [each for each in entries if each.split("@")[0] == name])
    assert shown("a/own") == ["a/own", "a/own@compared"]
    assert shown("b/none") == ["b/none@first"]
    assert shown("c/none") == ["c/none@tried"]
    assert shown("d/none") == []


def test_what_was_tried_is_shown_on_the_validation_set_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def both(test: float, valid: float, **more: object) -> dict[str, object]:
        found = _entry({"error": (test, None)}, **more)
        return {**found, "summary": {split: {"error": {"mean": mean, "spread": None}}
                                     for split, mean in (("test", test), ("valid", valid))}}  # fmt: skip

    entries = {"see/a": both(1.1, 1.2), "see/a@tried": both(3.3, 3.4, tried=True, published="9.9")}
    monkeypatch.setattr(ledger, "entry", entries.get)
    monkeypatch.setattr(ledger, "variants", lambda name: [each for each in entries if each.split("@")[0] == name])
    text = table({"see/a": like("ram/mini", "7.7 (them)")})
    assert ("1.10" in text, "1.20" in text, "3.30" in text, "3.40" in text) == (True, True, False, True)
    assert text.count("7.7 (them)") == 1  # theirs is of a test set
    assert "9.9" not in text
    del entries["see/a"]  # then it stands for the recipe
    assert "3.30" in table({"see/a": like("ram/mini")})


def test_signatures_of_captions_name_the_search() -> None:
    text = table(
        {f"show_attend_tell/flickr8k_{way}": like(f"show_attend_tell/flickr8k_{way}") for way in ("soft", "hard")}
    )
    bleu = next(line for line in text.splitlines() if line.startswith("- BLEU: "))
    assert "case:mixed" not in text
    assert "|case:lc|" in bleu
    assert "|bp:no|search:beams=40,length_penalty=0,consensus=0.7`" in bleu
    assert "|bp:no|search:beams=40,length_penalty=0,consensus=0.7|places:expected`" in bleu
