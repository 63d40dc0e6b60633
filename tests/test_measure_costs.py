"""The tool that measures costs: what is timed, what a killed copy leaves behind, in which order recipes come."""

import importlib.util
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.bare  # the tool makes copies of its process

PATH = Path(__file__).parents[1] / "tools" / "measure_costs.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("measure_costs", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def timed(tool: ModuleType, updates: list[float], monkeypatch: pytest.MonkeyPatch) -> tuple[float, int]:
    """Seconds of an update, and how many there were until the watch had seen enough; updates take these seconds."""
    now = 100.0
    monkeypatch.setattr(tool.time, "process_time", lambda: now)
    watch = tool.Stopwatch()
    watch.begin()
    for number, seconds in enumerate(updates, 1):
        now += seconds
        try:
            watch("step", {"step": number})
        except tool.EnoughError:
            return watch.step(), number
        watch("train", {})  # what is told besides is not an update
    raise AssertionError("it has never seen enough")


@pytest.mark.parametrize(
    ("updates", "step", "number"),
    [
        ([50.0] + [9.0] * 9, 50.0, 1),  # slow: the first one counts, and is enough
        ([6.0, 4.0, 4.0], 4.0, 2),  # the first one also fills caches
        ([0.9, 0.8, 0.5, 0.5, 0.5, 0.5, 9.0], 0.5, 6),  # two seconds are enough
        ([0.9, 0.8] + [0.01] * 40, 0.01, 32),  # and so are thirty updates
    ],
)
def test_the_first_updates_do_not_count(
    tool: ModuleType, updates: list[float], step: float, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert timed(tool, updates, monkeypatch) == (pytest.approx(step), number)


def test_a_copy_that_is_killed_leaves_what_it_told(tool: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    def killed(tell: Callable[[dict[str, Any]], None]) -> None:
        tell({"begun": True})
        os.kill(os.getpid(), signal.SIGKILL)

    def failed(tell: Callable[[dict[str, Any]], None]) -> None:
        tell({"begun": 1})
        raise ValueError("no such file\nand more")

    assert list(tool.in_a_copy(killed)) == [{"begun": True}]
    assert list(tool.in_a_copy(failed)) == [{"begun": 1}]
    assert "ValueError: no such file\n" in capfd.readouterr().err


def test_recipes_with_the_same_data_come_together_and_small_data_first(tool: ModuleType) -> None:
    names = ["transformer/europarl_en_fr", "luong/dot", "ram/mini", "luong/general", "gat/cora"]
    groups = [sorted(group) for group in tool.groups(names)]
    assert groups == [["ram/mini"], ["gat/cora"], ["luong/dot", "luong/general"], ["transformer/europarl_en_fr"]]
    recipe = next(tool.groups(["scene_text/rendered"]))["scene_text/rendered"]
    assert recipe.train.seconds is None  # the updates are what is looked at, whatever the limit of the recipe
    assert not recipe.train.capture


@pytest.mark.parametrize(
    ("steps", "timed", "kept", "times"),
    [
        ([0.3, 0.1, 0.2], 30, 0.1, 3),
        ([9.0], 1, 9.0, 1),  # long updates are measured once
        ([0.3, None], 30, 0.3, 2),  # ended by a limit the second time
        ([None], 30, None, 1),
    ],
)
def test_the_smallest_of_several_short_measurements_is_kept(
    tool: ModuleType,
    steps: list[float | None],
    timed: int,
    kept: float | None,
    times: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = iter(steps)

    def in_a_copy(work: Any) -> list[dict[str, Any]]:
        step = next(left)
        return [{"begun": True}, *([] if step is None else [{"step": step, "timed": timed}])]

    monkeypatch.setattr(tool, "in_a_copy", in_a_copy)
    asked = tool.argparse.Namespace(limit=1, memory=1.0, part=1, rounds=3)
    told = tool.Group({}, asked, {}).least(None, 1)
    assert told[-1].get("step") == kept
    assert len(steps) - len(list(left)) == times


def test_a_small_recipe_is_measured_in_whole_and_in_part(tool: ModuleType) -> None:
    asked = tool.argparse.Namespace(limit=120, memory=12.0, part=1, rounds=1)
    whole = list(tool.in_a_copy(tool.Group(next(tool.groups(["gat/smoke", "gat/smoke"])), asked, {}).measure))
    assert [each["name"] for each in whole] == ["gat/smoke"]
    assert whole[0].keys() == {"name", "prepare", "step", "timed", "evaluation", "memory"}
    asked.part = 8
    part = list(tool.in_a_copy(tool.Group(next(tool.groups(["lstmn/smoke"])), asked, {}).measure))
    assert part[0]["part"] == 8
    assert part[0]["memory"] > 50
