"""tools/check_wheel.py: which lines of the guide it runs; and that those lines are commands that there are."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from regard.api import shipped
from regard.cli.main import parser
from regard.recipes import RECIPES

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_wheel", ROOT / "tools" / "check_wheel.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_lines_and_their_marks(tool: ModuleType) -> None:
    text = """
```sh
make demo     # regard demo, in a clone
regard translate a "it's # here" --heatmap b.png   # the reader's own words
regard train x/y                 # a run; needs Multi30k, 20 MB; or your own
regard demo                      # takes 5 minutes
regard demo --out there          # takes about 1.5 minutes
```
```python
regard report
```
"""
    found = tool.command_lines(text)
    assert [line.words for line in found] == [
        ["regard", "translate", "a", "it's # here", "--heatmap", "b.png"],
        ["regard", "train", "x/y"],
        ["regard", "demo"],
        ["regard", "demo", "--out", "there"],
    ]
    assert [(line.needs, line.minutes) for line in found] == [("", 0), ("Multi30k, 20 MB", 0), ("", 5), ("", 1.5)]


def test_every_line_of_the_guide_is_a_command(tool: ModuleType) -> None:
    found = tool.all_lines()
    asked = [parser().parse_args(line.words[1:]) for line in found]
    assert {each.recipe for each in asked if each.command == "train"} <= set(RECIPES)
    ready = [line.words[1] for line in found if not line.needs and not line.minutes]
    assert ready[:3] == ["translate", "tour", "translate"]  # what a new user tries first
    assert {"train", "evaluate", "report", "list"} <= set(ready)


def test_runs_that_are_used_were_made_by_an_earlier_line_or_are_needed(tool: ModuleType) -> None:
    made = {*shipped()}
    for line in tool.all_lines():
        asked = parser().parse_args(line.words[1:])
        used = {*([asked.run] if "run" in asked else []), *([*asked.runs] if "runs" in asked else [])}
        if not line.needs:
            assert used <= made, f"{' '.join(line.words)} uses what no line has made"
            if asked.command == "train":
                made.add(f"runs/{asked.recipe.replace('/', '_')}")


def test_a_new_user_has_no_variables_of_ours(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in tool.VARIABLES:
        monkeypatch.setenv(name, "x")
    clean = tool._clean(tmp_path)
    assert not set(tool.VARIABLES) & set(clean)
    assert clean["PATH"].startswith(f"{tmp_path / 'bin'}:")
