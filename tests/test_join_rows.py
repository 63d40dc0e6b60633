"""tools/join_rows.py: means over variants for each restart and for those that were chosen, and what is refused."""

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TOOLS = Path(__file__).parents[1] / "tools"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module("join_rows")


def row(errors: list[float], chosen: int) -> dict[str, Any]:
    """What reproduce.py writes of three restarts with these errors."""
    runs = [
        {"settings": ["task.tasks=1"], "steps": 10, "minutes_of_training": 0.5, "seed": seed, "parameters": 7,
         "splits": {"test": {"figures": {"error": error, "failed": float(error > 5)}, "signatures": {"error": "in %"}}}}
        for seed, error in enumerate(errors)
    ]  # fmt: skip
    figures = {
        key: {"mean": 0.0, "spread": 0.0, "chosen": runs[chosen]["splits"]["test"]["figures"][key]}
        for key in ("error", "failed")
    }
    return {"recipe": "memn2n/babi", "seeds": 3, "command": "…", "summary": {"test": figures}, "runs": runs,
            "chosen": {"seed": chosen, "by": "train"}}  # fmt: skip


def test_each_variant_keeps_the_restart_that_it_chose(tool: ModuleType) -> None:
    joined = tool.join("memn2n/babi", {"1": row([1.0, 2.0, 3.0], 0), "2": row([9.0, 8.0, 4.0], 2)}, "error")
    test = joined["summary"]["test"]
    assert test["error"] == pytest.approx({"mean": 4.5, "spread": 0.866, "chosen": 2.5}, abs=1e-3)
    assert (test["error_1"]["chosen"], test["error_2"]["chosen"]) == (1.0, 4.0)
    assert test["error_2"]["mean"] == 7.0
    assert test["failed"]["chosen"] == 0
    assert test["failed"]["mean"] == pytest.approx(2 / 3)
    assert joined["chosen"] == {"seed": {"1": 0, "2": 2}, "by": "train"}
    assert [run["splits"]["test"]["figures"]["error"] for run in joined["runs"]] == [5.0, 5.0, 3.5]
    assert (joined["runs"][0]["steps"], joined["runs"][0]["minutes_of_training"]) == (10, 1.0)
    assert joined["runs"][0]["settings"] == []
    assert joined["runs"][0]["splits"]["test"]["signatures"]["error"] == "in %, mean over 2 trainings"


def test_rows_that_do_not_fit_are_refused(tool: ModuleType) -> None:
    with pytest.raises(SystemExit, match="variant 2 has 2 seeds on test; the first one has 3 on test"):
        tool.join("memn2n/babi", {"1": row([1.0, 2.0, 3.0], 0), "2": {**row([1.0, 2.0], 0), "seeds": 2}}, "error")


def test_from_files_to_a_file(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "memn2n_babi@1.json").write_text(json.dumps(row([1.0, 2.0, 3.0], 0)))
    command = ["join_rows.py", "memn2n/babi", "--out", str(tmp_path), "--variants", "1"]
    monkeypatch.setattr(sys, "argv", command)
    tool.main()
    written = json.loads((tmp_path / "memn2n_babi.json").read_text())
    assert written["summary"]["test"]["error"]["chosen"] == 1.0
    assert written["command"] == ("…  # the first of 1 variants\npython tools/join_rows.py memn2n/babi --variants 1")
    monkeypatch.setattr(sys, "argv", [*command, "2"])
    with pytest.raises(
        SystemExit, match=r"memn2n_babi@2\.json is missing: train that row by tools/reproduce\.py first"
    ):
        tool.main()
