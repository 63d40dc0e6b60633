import json
import re
from importlib.resources import files

import pytest

from regard.recipes import RECIPES, entry, figure, ledger, table
from regard.recipes.figures import SHOWN, kind_of
from regard.recipes.ledger import variants

RUN = [name for recipe in RECIPES for name in variants(recipe)]


def test_every_result_belongs_to_a_recipe() -> None:
    folder = files("regard") / "recipes" / "results"
    names = [path.name for path in folder.iterdir() if path.name.endswith(".json")]
    assert sorted(names) == sorted(f"{name.replace('/', '_')}.json" for name in RUN)
    assert RUN


@pytest.mark.parametrize("name", RUN)
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
            kind = kind_of(split["figures"])
            assert 0 < split["figures"][SHOWN[kind].counts] < 100
            counts = SHOWN[kind].figures[SHOWN[kind].counts].signature or SHOWN[kind].counts
            assert split["signatures"][counts]


@pytest.mark.parametrize("name", RUN)
def test_a_figure_is_the_mean_over_seeds(name: str) -> None:
    found = entry(name)
    assert found is not None
    split, summary = next(iter(found["summary"].items()))
    counts = SHOWN[kind_of(summary)].counts
    text = figure(name, counts)
    assert text is not None
    values = [run["splits"][split]["figures"][counts] for run in found["runs"]]
    decimals = 2 if counts == "error" else 1
    assert text.startswith(f"{sum(values) / len(values):.{decimals}f}")
    assert ("±" in text) == ("seeds" in text) == (len(values) > 1)


def test_what_was_not_run_has_no_figure() -> None:
    assert entry("no/such") is None
    assert figure("no/such") is None
    assert figure("bahdanau/multi30k_de_en", "error") is None  # nor one that nobody asked for


def test_the_table_has_ours_beside_theirs() -> None:
    name = "bahdanau/multi30k_de_en"
    text = table([name, "no/such"], {name: "28.3 (somebody)"})
    row = next(line for line in text.splitlines() if line.startswith(f"| `{name}`"))
    shown = figure(name)
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
    text = table(["say/a", "see/a", "see/b", "see/c"], {"see/a": "1.29 (them)"}, data={"see/a": "mnist"})
    first, second = (
        text.index("| recipe | test set | error, % |"),
        text.index("| recipe | test set | BLEU-1 / 2 / 3 / 4 |"),
    )
    assert first < second
    assert "| `see/a` | mnist test | 1.23 ± 0.06 | 1.29 (them) | 8.0 ± 0.0 | 3 | 0.21 M | 30,000 | 2.0 |" in text
    assert "| `see/a` `model.glimpses=4` | mnist test | 7.00 ± 0.10 | 7.1 | 4.0 ± 0.0 |" in text
    assert "| `see/b` | test | 9.00 ± 0.50 | – | – |" in text  # it takes no glimpses
    assert "| label error" not in text  # nothing has any
    assert "| 60.0 / 50.0 / 40.0 / 30.0 ± 0.1 / 0.2 / 0.3 / 0.4 | – | 50.0 / 40.0 / 30.0 / 20.0 ± 0.2" in text
    assert "- METEOR was not measured: no Java." in text
    assert text.count("- Error: `error in % of 10 pictures`.") == 1
    assert text.endswith("No results yet: `see/c`.")
