"""The planning page: its tables are what the tool prints, and the formulas behave as those of such machines must."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from table import cases

ROOT = Path(__file__).parents[1]
TOOL = ROOT / "tools" / "plan_training.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("plan_training", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["plan_training"] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def values(tool: ModuleType, **changes: float) -> dict[str, float]:
    return {**{name: each.value for name, each in tool.INPUTS.items()}, **changes}


def test_the_page_has_the_tables_of_the_tool(tool: ModuleType) -> None:
    page = (ROOT / "docs" / "planning.md").read_text(encoding="utf-8")
    said = list(tool.tables(tool.Plan(values(tool))))
    rows = [line for line in said if line.startswith("|")]
    assert len(rows) > 50
    assert [line for line in rows if line not in page.splitlines()] == []
    titles = [line.removeprefix("### ") for line in said if line.startswith("###")]
    assert all(f"**{title}**" in page for title in titles)


@cases("model", ("small", "base", "big"))
def test_what_more_gpus_bring(tool: ModuleType, model: str) -> None:
    plan, batch = tool.Plan(values(tool)), 10_000_000
    arithmetic = [plan.computing(model, gpus, batch) for gpus in tool.GPUS]
    assert arithmetic[0] == pytest.approx(8 * arithmetic[1])
    assert arithmetic[1] == pytest.approx(8 * arithmetic[2])
    steps = [plan.step(model, gpus, batch) for gpus in tool.GPUS]
    assert steps == sorted(steps, reverse=True)  # with batches that are large enough
    assert all(step > part for step, part in zip(steps, arithmetic, strict=True))
    sharded = [plan.sharded(model, gpus) for gpus in tool.GPUS]
    assert sharded == sorted(sharded, reverse=True)
    assert max(sharded) < plan.states(model)
    assert [plan.between_failures(gpus) for gpus in (8, 64)] == [plan.between_failures(1) / gpus for gpus in (8, 64)]
    lost = [plan.lost(model, gpus) for gpus in tool.GPUS]
    assert 0 < lost[0] < lost[1] < lost[2] < 1


def test_no_interval_between_checkpoints_is_better(tool: ModuleType) -> None:
    plan = tool.Plan(values(tool))
    for model in tool.MODELS:
        best, between, saving = plan.interval(model, 512), plan.between_failures(512), plan.saving(model)
        cost = [saving / every + every / 2 / between for every in (best / 2, best, best * 2)]
        assert cost[1] == min(cost)


def test_small_updates_wait_for_launches(tool: ModuleType) -> None:
    plan = tool.Plan(values(tool))
    assert plan.compute("small", 8, 1000) == plan.compute("small", 8, 2000) == plan.launching("small")
    assert plan.bound("small", 8, 1000) == "launches"
    assert plan.bound("base", 8, 10**7) == "arithmetic"
    assert tool.Plan(values(tool, network=1e8)).bound("big", 64, 400_000) == "all-reduce"
    assert tool.Plan(values(tool, cut_pair=1e-3)).bound("big", 64, 400_000) == "input"


def test_other_inputs_and_wrong_ones() -> None:
    def said(*settings: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, str(TOOL), *settings], capture_output=True, text=True)

    plain, faster = said().stdout, said("--set", "mfu=0.4", "corpus_pairs=9e6").stdout
    assert "| base | 63.1 M | 522,596 |" in plain
    assert "| base | 63.1 M | 1,045,192 |" in faster
    assert "| 9.0 M |" in faster
    assert "| mfu | 0.2 | share of the peak | assumed for base and big |" in said("--list").stdout
    for wrong, message in (
        ("mfv=1", "unknown input 'mfv=1'"),
        ("mfu=x", "a number"),
        ("mfu=0", "more than 0"),
        ("mfu=inf", "more"),
    ):
        done = said("--set", wrong)
        assert done.returncode == 2
        assert message in done.stderr
