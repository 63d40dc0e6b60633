"""tools/reproduce.py: trainings side by side in one process give what each gives alone."""

import importlib.util
import json
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from regard.train import load_tensors

SETTINGS = ["train.log_every=1", "model.hidden_dim=16", "model.glimpse_dim=16", "model.part_dim=16"]
STEPS = {0: 3, 1: 5, 2: 3}  # by seed


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    path = Path(__file__).parents[1] / "tools" / "reproduce.py"
    spec = importlib.util.spec_from_file_location("reproduce", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_together_is_alone(tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One of them takes more steps, and one fails: the others neither wait for it nor learn otherwise."""
    settings = {seed: [*SETTINGS, f"train.steps={steps}"] for seed, steps in STEPS.items()}
    settings[2].append("task.crop=99")
    jobs = [("ram/mini", seed, ["test"], tmp_path / f"together_{seed}", settings[seed]) for seed in settings]
    assert tool.together(jobs) == [0, 0, 1]
    said = capsys.readouterr().out
    assert "ram/mini seed 1: done" in said
    assert f"ram/mini seed 2: FAILED, see {tmp_path}/together_2/log.txt" in said
    assert "ConfigError: the side of a crop: got 99" in (tmp_path / "together_2" / "log.txt").read_text()
    found = []
    for seed in (0, 1):
        tool.one("ram/mini", seed, ["test"], tmp_path / f"alone_{seed}", settings[seed], say=lambda line: None)
        folders = [tmp_path / f"{how}_{seed}" for how in ("together", "alone")]
        weights = [load_tensors(folder / "model.safetensors") for folder in folders]
        assert weights[0].keys() == weights[1].keys()
        assert all(weights[0][key].equal(weights[1][key]) for key in weights[0])
        figures = [json.loads((folder / "figures.json").read_text()) for folder in folders]
        assert figures[0]["splits"] == figures[1]["splits"]
        assert [one["steps"] for one in figures] == [STEPS[seed]] * 2
        found.append(weights[0])
    assert not all(found[0][key].equal(found[1][key]) for key in found[0])  # seeds matter


def test_seeds_in_turn_are_those_alone(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    processes: list[list[str]] = []

    def run_here(command: list[str], **how: Any) -> Any:
        """What another process would do."""
        if command[0] != sys.executable:
            return run(command, **how)
        processes.append(command)
        monkeypatch.setattr("sys.argv", command[1:])
        with pytest.raises(SystemExit) as ended:
            tool.main()
        return SimpleNamespace(returncode=ended.value.code)

    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", run_here)
    settings = [*SETTINGS, "train.steps=1"]
    words = ["--seeds", "3", "--in-turn", "2", "--jobs", "1", "--out", str(tmp_path), "--set", *settings]
    monkeypatch.setattr("sys.argv", ["reproduce.py", "ram/mini", *words])
    tool.main()
    assert len(processes) == 2
    found = json.loads((tmp_path / "ram_mini.json").read_text())
    assert found["seeds"] == 3
    assert "--jobs 1 --in-turn 2" in found["command"]
    tool.one("ram/mini", 1, ["test"], tmp_path / "alone", settings, say=lambda line: None)
    second, alone = (load_tensors(tmp_path / name / "model.safetensors") for name in ("ram_mini_1", "alone"))
    assert all(second[key].equal(alone[key]) for key in alone)


def test_a_training_starts_from_the_one_of_its_seed(tool: ModuleType, tmp_path: Path) -> None:
    short = [*SETTINGS, "train.steps=1"]
    for seed in (0, 1):
        tool.one("ram/mini", seed, ["test"], tmp_path / f"first_{seed}", short, say=lambda line: None)
        settings = [*short, "train.lr=1e-30", f"start={tmp_path}/first_{{seed}}"]
        tool.one("ram/mini", seed, ["test"], tmp_path / f"second_{seed}", settings, say=lambda line: None)
        first, second = (
            load_tensors(tmp_path / f"{name}_{seed}" / "model.safetensors") for name in ("first", "second")
        )
        assert all(first[key].equal(second[key]) for key in first)
        assert json.loads((tmp_path / f"second_{seed}" / "figures.json").read_text())["settings"] == settings


def test_runs_are_judged_again(tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As `--judged` says, from the start or later; nothing is trained, and the row says so."""
    settings = [*SETTINGS, "train.steps=2"]
    arguments = ["reproduce.py", "ram/mini", "--out", str(tmp_path), "--set", *settings]
    kept = []
    for more in (["--together"], ["--again", "--judged", "draws=3"], ["--again"]):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.argv", [*arguments, *more])
            tool.main()
        row = json.loads((tmp_path / "ram_mini.json").read_text())
        kept.append(row)
        assert row["runs"][0]["steps"] == 2
    signatures = [row["runs"][0]["splits"]["test"]["signatures"]["error"] for row in kept]
    assert signatures[0] == signatures[2] == "error in % of 300 pictures, locations: means"
    assert signatures[1] == "error in % of 300 pictures, locations: mean of 3 draws"
    assert kept[1]["runs"][0]["judged"] == ["draws=3"]
    assert kept[1]["command"].endswith("--judged draws=3")
    assert kept[0]["runs"][0]["splits"] == kept[2]["runs"][0]["splits"]
    one = tmp_path / "with_draws"
    tool.one("ram/mini", 0, ["test"], one, settings, judged=["draws=3"], say=lambda line: None)
    assert json.loads((one / "figures.json").read_text())["splits"] == kept[1]["runs"][0]["splits"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", [*arguments, "--seeds", "2", "--again"])
        with pytest.raises(SystemExit, match="without results"):
            tool.main()
    assert "ram_mini_1 has no figures.json: train it first, without --again" in capsys.readouterr().out


def test_runs_are_judged_in_another_way_beside_their_own(tool: ModuleType, tmp_path: Path) -> None:
    """One training, two rows: the second is named, and leaves the figures of the first as they are."""
    arguments = ["reproduce.py", "ram/mini", "--out", str(tmp_path)]
    settings = ["--set", *SETTINGS, "train.steps=2"]
    other = ["--again", "--trained", "ram/mini", "--variant", "drawn", "--judged", "draws=3"]
    for more in (["--together", *settings], [*other, "--published", "9.9 (them)"], other):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.argv", [*arguments, *more])
            tool.main()
    rows = [json.loads((tmp_path / f"{name}.json").read_text()) for name in ("ram_mini", "ram_mini@drawn")]
    signatures = [row["runs"][0]["splits"]["test"]["signatures"]["error"] for row in rows]
    assert [signature.rpartition(": ")[2] for signature in signatures] == ["means", "mean of 3 draws"]
    assert rows[1]["command"].endswith("--variant drawn --splits test --again --trained ram/mini --judged draws=3")
    assert rows[1]["runs"][0]["settings"] == rows[0]["runs"][0]["settings"]
    assert [row.get("published") for row in rows] == [None, "9.9 (them)"]  # a row that is made anew keeps it
    assert "tried" not in rows[1]
    run = tmp_path / "ram_mini_0"
    assert json.loads((run / "figures.json").read_text()) == rows[0]["runs"][0]
    assert json.loads((run / "figures_ram_mini@drawn.json").read_text()) == rows[1]["runs"][0]
    assert (run / "output_test_ram_mini@drawn.txt").exists()
    assert "means" in json.loads((run / "result_test.json").read_text())["signatures"]["error"]
    assert not list(tmp_path.glob("ram_mini@drawn_*"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", [*arguments, "--trained", "ram/mini"])
        with pytest.raises(SystemExit):
            tool.main()


def walk(tool: ModuleType, rounds: list[int], broken: int | None = None) -> tuple[list[int], dict[int, list[float]]]:
    """Threads that draw so many numbers each: who was there when, and what they drew."""
    turns, order, drawn = tool.Turns(len(rounds)), [], {number: [] for number in range(len(rounds))}

    def go(number: int) -> None:
        try:
            with turns.taken(number):
                torch.manual_seed(number)
                for _ in range(rounds[number]):
                    order.append(number)
                    drawn[number].append(torch.rand(()).item())
                    if number == broken:
                        raise KeyError
                    turns.next()
        except KeyError:
            pass

    threads = [threading.Thread(target=go, args=(number,), daemon=True) for number in range(len(rounds))]
    for thread in reversed(threads):  # whoever comes first waits all the same
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads), "somebody waits for a turn that never comes"
    return order, drawn


def test_turns_alternate(tool: ModuleType) -> None:
    order, drawn = walk(tool, [2, 4, 3])
    assert order == [0, 1, 2, 0, 1, 2, 1, 2, 1]
    for number, numbers in drawn.items():  # each has random numbers of its own
        torch.manual_seed(number)
        assert numbers == [torch.rand(()).item() for _ in numbers]


def test_one_who_fails_gives_its_turns_to_the_others(tool: ModuleType) -> None:
    assert walk(tool, [3, 3, 3], broken=1)[0] == [0, 1, 2, 0, 2, 0, 2]
    assert walk(tool, [3], broken=0)[0] == [0]
    assert walk(tool, [2, 1], broken=0)[0] == [0, 1]


def test_a_grid_has_a_row_in_each_line(tool: ModuleType) -> None:
    rows = tool.read_grid("# RAM\nram/mini\n\nram/mini@4 model.glimpses=4\n", ["train.steps=2"])
    assert [row.name for row in rows] == ["ram_mini", "ram_mini@4"]
    assert [row.settings for row in rows] == [("train.steps=2",), ("train.steps=2", "model.glimpses=4")]
    assert rows[1].folder(2, Path("runs")) == Path("runs/ram_mini@4_2")
    for wrong in ("", "ram/mini\nram/mini model.glimpses=4"):
        with pytest.raises(SystemExit, match="rows of different names"):
            tool.read_grid(wrong)


def test_rows_of_a_grid_are_gathered(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row that fails takes nothing from the others."""
    grid = tmp_path / "grid.txt"
    grid.write_text(f"ram/mini {' '.join(SETTINGS)}\nram/mini@bad task.crop=99\n")
    out = tmp_path / "runs"
    words = ["--grid", str(grid), "--together", "--seeds", "2", "--out", str(out), "--set", "train.steps=1"]
    monkeypatch.setattr("sys.argv", ["reproduce.py", *words])
    with pytest.raises(SystemExit, match="without results, since a training failed: ram_mini@bad"):
        tool.main()
    found = json.loads((out / "ram_mini.json").read_text())
    assert (found["recipe"], found["seeds"], found["beside"]) == ("ram/mini", 2, ["ram_mini@bad"])
    assert found["command"].startswith(
        "python tools/reproduce.py ram/mini --seeds 2 --together --splits test --set train"
    )
    values = [run["splits"]["test"]["figures"]["error"] for run in found["runs"]]
    assert found["summary"]["test"]["error"]["mean"] == pytest.approx(sum(values) / 2)
    assert "ram_mini test (2 seeds, " in capsys.readouterr().out
    assert not (out / "ram_mini@bad.json").exists()
