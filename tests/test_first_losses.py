"""tools/first_losses.py: the losses are those of the training, and a training that has changed is seen."""

import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from regard.recipes import RECIPES, change

TOOL = Path(__file__).parents[1] / "tools" / "first_losses.py"
PRETENDED = """
import json, sys, time
from pathlib import Path
recipe, folder = sys.argv[2], Path(sys.argv[sys.argv.index("--out") + 1])
if recipe == "far/away":
    sys.exit("regard: far.gz is not here. Try: let REGARD_DATA name its folder")
if recipe == "bad/one":
    sys.exit("regard: the sizes differ")
folder.mkdir()
updates = 7 if recipe == "slow/one" else 99
for step in range(1, updates + 1):
    events = [{"kind": "train", "step": step, "loss": 1 / (step + SHIFT)}, {"kind": "valid", "step": step, "loss": 0.5}]
    with open(folder / "metrics.jsonl", "a") as file:
        file.writelines(json.dumps(event) + chr(10) for event in events)
time.sleep(600)  # an evaluation that takes long
"""


@pytest.fixture
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("first_losses", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pretended(folder: Path, recipes: list[str], *, shift: float = 0.0) -> Path:
    """A source tree whose package `regard` has these recipes, and writes losses without training anything."""
    package = folder / "regard"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "recipes.py").write_text(f"RECIPES = dict.fromkeys({recipes})")
    (package / "__main__.py").write_text(f"SHIFT = {shift}\n{PRETENDED}")
    return folder


ONE_THREAD = {"OMP_NUM_THREADS": "1"}


def entry(*losses: float) -> dict[str, Any]:
    return {"settings": ["train.steps=20"], "losses": list(losses)}


@pytest.mark.slow
def test_losses_are_those_of_the_training(tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bit by bit, beside a training that is not killed; another seed gives other losses.

    Both are processes of their own: where numbers lie in memory may change their last bits.
    """
    file = tmp_path / "before.json"
    assert tool.main(["record", str(file), "--only", "ram/min?", "--jobs", "1"]) == 0
    assert "1 of 1 recipes recorded" in capsys.readouterr().out
    recorded = json.loads(file.read_text())["recipes"]["ram/mini"]
    for seed in (0, 1):
        folder = tmp_path / str(seed)
        settings = [*recorded["settings"], f"train.seed={seed}"]
        command = [sys.executable, "-m", "regard", "train", "ram/mini", "--out", str(folder), "--device", "cpu"]
        subprocess.run([*command, "--set", *settings], check=True, capture_output=True, env=os.environ | ONE_THREAD)
        events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        losses = [event["loss"] for event in events if event["kind"] == "train"]
        assert len(losses) == 20
        assert (losses == recorded["losses"]) == (seed == 0)
    assert tool.main(["compare", str(file), str(file)]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["ram/mini", "bit-equal"]


def test_every_recipe_accepts_its_settings(tool: ModuleType) -> None:
    patterns = {pattern for pattern, _, _ in tool.CUTS}
    for name, make in RECIPES.items():
        recipe = change(make(), tool.settings_of(name))
        assert recipe.train.steps == tool.UPDATES
        assert recipe.train.seed == make().train.seed
        patterns -= {next(pattern for pattern, _, _ in tool.CUTS if tool.fnmatch(name, pattern))}
    assert not patterns, "no recipe takes its settings from these patterns"


def test_a_changed_tree_is_seen(tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two source trees; the process is killed while it sleeps after its last loss."""
    files = [str(tmp_path / f"{name}.json") for name in ("one", "other")]
    for file, shift in zip(files, (0.0, 1e-3), strict=True):
        source = pretended(tmp_path / f"tree{shift}", ["a/one", "a/two"], shift=shift)
        assert tool.main(["record", file, "--source", str(source)]) == 0
    before, after = (json.loads(Path(file).read_text())["recipes"] for file in files)
    assert before["a/one"]["losses"] == [1 / step for step in range(1, 21)]  # exact, and none of the later ones
    assert after["a/two"]["losses"] == [1 / (step + 1e-3) for step in range(1, 21)]
    capsys.readouterr()
    assert tool.main(["compare", *files]) == 1
    words = f"largest relative difference {1e-3 / (1 + 1e-3):.1e}, from update 1 on"
    assert [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()[:2]] == [
        ["a/one", words],
        ["a/two", words],
    ]


def test_recipes_without_losses(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Data that are missing are no fault; an error is one, and a training that takes too long."""
    source = pretended(tmp_path / "tree", ["far/away", "bad/one", "slow/one"])
    file = tmp_path / "losses.json"
    assert tool.main(["record", str(file), "--source", str(source), "--only", "far/*"]) == 0
    monkeypatch.setattr(tool, "LIMIT", 5.0)
    assert tool.main(["record", str(file), "--source", str(source)]) == 1
    assert "2 failed: bad/one, slow/one" in capsys.readouterr().out
    assert json.loads(file.read_text())["recipes"] == {
        "far/away": {"skipped": "regard: far.gz is not here. Try: let REGARD_DATA name its folder"},
        "bad/one": {"failed": "regard: the sizes differ"},
        "slow/one": {"failed": "7 of 20 losses after 5 s"},
    }


def test_data_that_are_missing_are_told_by_the_library(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))  # empty, as is the cache of the tests
    assert "multi30k" in tool.first_losses("luong/dot", tool.OWN_SOURCE, threading.Event())["skipped"]


def test_trainings_end_with_the_tool(tmp_path: Path) -> None:
    """A tool that is told to end kills its training, removes the run folder, and begins no other training."""
    source, place = pretended(tmp_path / "tree", ["slow/one", "a/two"]), tmp_path / "place"
    place.mkdir()
    command = [sys.executable, str(TOOL), "record", str(tmp_path / "losses.json"), "--jobs", "1"]
    environment = {**os.environ, "TMPDIR": str(place)}
    process = subprocess.Popen([*command, "--source", str(source)], env=environment, stderr=subprocess.PIPE)
    while not list(place.glob("*/run/metrics.jsonl")):
        assert process.poll() is None
        time.sleep(0.05)
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert process.returncode
    assert said.strip().endswith(b"KeyboardInterrupt")
    assert not list(place.iterdir())
    assert not (tmp_path / "losses.json").exists()


def test_a_source_without_the_package_is_refused(tool: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"cannot be listed: (Python imports|ModuleNotFoundError)"):
        tool.main(["record", str(tmp_path / "losses.json"), "--source", str(tmp_path)])
    source = pretended(tmp_path / "tree", ["a/one"])
    with pytest.raises(SystemExit, match="no recipe matches"):
        tool.main(["record", str(tmp_path / "losses.json"), "--source", str(source), "--only", "b/*"])


SKIPPED, FAILED = {"skipped": "no data"}, {"failed": "an error"}


@pytest.mark.parametrize(
    ("before", "after", "words", "equal"),
    [
        (entry(2.0, 1.0), entry(2.0, 1.0), "bit-equal", True),
        (entry(2.0, 1.0), entry(2.0, 1.0 + 9e-6), "largest relative difference 9.0e-06, from update 2 on", True),
        (entry(2.0, -1.0), entry(2.0, -1.0 - 2e-5), "largest relative difference 2.0e-05, from update 2 on", False),
        (entry(2.0, 1.0), entry(float("nan"), 1.0), "largest relative difference inf, from update 1 on", False),
        (entry(2.0), entry(2.0, 1.0), "not comparable: recorded with different settings", False),
        (entry(2.0), {**entry(2.0), "settings": []}, "not comparable: recorded with different settings", False),
        (entry(2.0), None, "missing after", False),
        (None, entry(2.0), "missing before", False),
        (entry(2.0), SKIPPED, "missing after: no data", False),
        (SKIPPED, entry(2.0), "missing before: no data", False),
        (SKIPPED, SKIPPED, "skipped in both: no data", True),
        (FAILED, FAILED, "missing before: an error", False),
        (SKIPPED, FAILED, "missing after: an error", False),
    ],
)
def test_compare(tool: ModuleType, before: Any, after: Any, words: str, equal: bool) -> None:
    records = [{"recipes": {"b": entry(3.0)}}, {"recipes": {"b": entry(3.0)}}]
    for kept, recorded in zip(records, (before, after), strict=True):
        kept["recipes"] |= {} if recorded is None else {"a": recorded}
    lines, agreed = tool.compare(*records)
    assert {line.split(maxsplit=1)[0]: line.split(maxsplit=1)[1] for line in lines[:2]} == {
        "a": words,
        "b": "bit-equal",
    }
    assert agreed == equal


def test_nothing_compared_is_no_agreement(tool: ModuleType) -> None:
    lines, agreed = tool.compare({"recipes": {"a": SKIPPED}}, {"recipes": {"a": SKIPPED}})
    assert not agreed
    assert lines[-1] == "0 of 1 recipes agree, 0 differ or are missing"
