import json
from pathlib import Path

import pytest

from regard.base import RegardError
from regard.studio.runs import Runs, curves, ledger, thinned


def test_a_training_that_goes_on_is_followed(run_folder: Path) -> None:
    runs = Runs([run_folder])
    [line] = runs.lines()
    assert line == {
        "name": "going",
        "paper": "bahdanau",
        "recipe": None,
        "data": "x",
        "steps": 100,
        "step": 30,
        "ended": False,
    }
    run = runs.get("going")
    assert run["curves"]["train/loss"] == [[10, 0.5], [20, 0.25], [30, pytest.approx(5 / 30)]]
    assert run["results"]["test"]["figures"] == {"bleu": 12.5}
    assert runs.get("going", after=20)["curves"]["train/loss"] == [[30, pytest.approx(5 / 30)]]


def test_runs_that_begin_later_appear(tmp_path: Path) -> None:
    runs = Runs([], tmp_path / "runs")
    assert runs.lines() == []
    (tmp_path / "runs" / "new").mkdir(parents=True)
    (tmp_path / "runs" / "new" / "metrics.jsonl").write_text('{"kind": "end", "step": 7}\n')
    assert [(line["name"], line["ended"]) for line in runs.lines()] == [("new", True)]


@pytest.mark.parametrize("name", ["../going", "/etc", None, 3, "gone"])
def test_other_names_are_refused(run_folder: Path, name: object) -> None:
    with pytest.raises(RegardError, match="the studio has no such run"):
        Runs([run_folder]).get(name)


def test_links_out_of_a_folder_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text('{"kind": "train", "step": 1, "loss": 1}\n')
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").symlink_to(tmp_path / "secret")
    (tmp_path / "run" / "recipe.json").write_text("{}")
    assert Runs([tmp_path / "run"]).get("run")["curves"] == {}


def test_curves_have_numbers_only_and_not_too_many() -> None:
    records = [
        {"kind": "train", "step": step, "loss": 1.0, "name": "x", "bad": float("nan"), "yes": True}
        for step in range(2000)
    ]
    made = curves(records)
    assert list(made) == ["train/loss"]
    assert len(made["train/loss"]) == 600
    assert made["train/loss"][-1] == [1999, 1.0]
    assert thinned([[1, 2.0]]) == [[1, 2.0]]


def test_the_ledger_is_that_of_the_list() -> None:
    lines = ledger()
    json.dumps(lines)
    line = next(line for line in lines if line["name"] == "ram/mnist28")
    assert line["ours"][0].startswith("0.83")
    assert line["columns"][0] == "ours, error in %"
