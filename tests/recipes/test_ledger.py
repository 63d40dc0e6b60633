import json
import re
from importlib.resources import files

import pytest

from regard.recipes import RECIPES, entry, figure, table

RUN = [name for name in RECIPES if entry(name) is not None]


def test_every_result_belongs_to_a_recipe() -> None:
    folder = files("regard") / "recipes" / "results"
    names = [path.name for path in folder.iterdir() if path.name.endswith(".json")]
    assert sorted(names) == sorted(f"{name.replace('/', '_')}.json" for name in RUN)
    assert RUN


@pytest.mark.parametrize("name", RUN)
def test_results_tell_how_they_were_made(name: str) -> None:
    found = entry(name)
    assert found is not None
    assert found["recipe"] == name
    assert found["command"].startswith(f"python tools/reproduce.py {name}")
    assert found["seeds"] == len(found["runs"])
    for run in found["runs"]:
        assert {"torch", "processor"} <= set(run["environment"])
        for split in run["splits"].values():
            assert split["signatures"]["bleu"].startswith("nrefs:1|")
            assert 0 < split["figures"]["tokenized_bleu"] < 100


@pytest.mark.parametrize("name", RUN)
def test_a_figure_is_the_mean_over_seeds(name: str) -> None:
    found, text = entry(name), figure(name)
    assert found is not None
    assert text is not None
    split = next(iter(found["summary"]))
    values = [run["splits"][split]["figures"]["tokenized_bleu"] for run in found["runs"]]
    assert text.startswith(f"{sum(values) / len(values):.1f}")
    assert ("±" in text) == ("seeds" in text) == (len(values) > 1)


def test_what_was_not_run_has_no_figure() -> None:
    assert entry("no/such") is None
    assert figure("no/such") is None


def test_the_table_has_ours_beside_theirs() -> None:
    name = RUN[0]
    text = table([name, "no/such"], {name: "28.3 (somebody)"})
    row = next(line for line in text.splitlines() if line.startswith(f"| `{name}`"))
    shown = figure(name)
    assert shown is not None
    assert "28.3 (somebody)" in row
    assert re.sub(r" \(.*", "", shown) in row
    assert "`no/such`" not in row
    assert json.dumps(entry(name))  # nothing was changed into what JSON does not know
