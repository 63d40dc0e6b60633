"""tools/kill_runs.py: trainings that are killed lose nothing, and the tool sees it where one does."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from regard.train import save_checkpoint
from regard.train.lock import RunLock

TOOL = Path(__file__).parents[1] / "tools" / "kill_runs.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kill_runs", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_some_kills(kills: int) -> None:
    """Real trainings of four recipes, killed at random touches of the disk; 500 are run by hand."""
    command = [sys.executable, str(TOOL), "--kills", str(kills), "--seed", "7"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    *rows, last = done.stdout.splitlines()
    assert last == f"{kills} kills, seed 7: every checkpoint whole or absent, every finished run bit-equal"
    assert [row.split()[0] for row in rows] == [
        "bahdanau/plain_en_fr",
        "transformer/plain_en_fr",
        "ram/mini",
        "show_attend_tell/shapes",
    ]
    assert sum(int(row.split(" kills")[0].split()[-1]) for row in rows) == kills


def run(folder: Path) -> Path:
    save_checkpoint(folder / "checkpoints", 3, {"model": {"a": torch.ones(2)}}, {"seconds": 1.5, "best": 2.0})
    (folder / "metrics.jsonl").write_text(json.dumps({"kind": "train", "step": 3, "loss": 1.0, "seconds": 1.5}) + "\n")
    return folder


def test_faults_after_a_kill_are_seen(tool: ModuleType, tmp_path: Path) -> None:
    folder = run(tmp_path / "run")
    assert list(tool.faults_after_a_kill(folder)) == []
    shutil.copytree(folder / "checkpoints" / "step_00000003", folder / "checkpoints" / "step_00000001")
    (folder / "checkpoints" / "step_00000001" / "state.json").unlink()  # what `prune` left when it removed in place
    (folder / "best.safetensors").write_bytes(b"half")
    lock = RunLock(folder)
    first, second, third = tool.faults_after_a_kill(folder)
    lock.release()
    assert first.startswith("a checkpoint is not whole: ")
    assert second.startswith("weights are not whole: ")
    assert "is being trained already" in third


def test_what_differs_at_the_end_is_seen(tool: ModuleType, tmp_path: Path) -> None:
    one, other = run(tmp_path / "one"), run(tmp_path / "other")
    (one / "metrics.jsonl").write_text((one / "metrics.jsonl").read_text().replace("1.5", "2.5"))  # a time
    assert list(tool.faults_at_the_end(one, other)) == []
    (one / "metrics.jsonl").write_text((one / "metrics.jsonl").read_text().replace("1.0", "1.1"))
    (one / ".left.part").touch()
    assert list(tool.faults_at_the_end(one, other)) == ["other files: ['.left.part']", "metrics.jsonl differs"]
