"""One process or two: the same losses, files written once, and runs that change hands."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import ranks
import torch
import toy
from torch import nn

from regard.base import ConfigError
from regard.train import LostError, World, checkpoints, choose_device, joined, load_checkpoint
from regard.train.distributed import _told_of_losses as _told


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every run of `ranks.py`, done by two processes of torchrun, and by this one under alone_NAME."""
    folder: Path = tmp_path_factory.mktemp("ranks")
    ranks.one(folder / "alone", **ranks.HALF)  # two go on with it
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*launch, str(Path(ranks.__file__)), str(folder)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=1500,
    )
    assert done.returncode == 0, done.stderr
    for name, settings in {**ranks.RUNS, "whole": ranks.WHOLE}.items():
        ranks.one(folder / f"alone_{name}", **settings)
    return folder


@pytest.fixture(scope="module")
def said(place: Path) -> list[dict[str, Any]]:
    """What each rank saw."""
    return [json.loads((place / f"rank_{rank}.json").read_text()) for rank in (0, 1)]


@pytest.mark.parametrize("name", ranks.RUNS)
def test_two_ranks_equal_one(place: Path, name: str) -> None:
    two, one = toy.records(place / name), toy.records(place / f"alone_{name}")
    assert [(record["kind"], record["step"]) for record in two] == [(record["kind"], record["step"]) for record in one]
    for here, there in zip(two, one, strict=True):
        assert {**here, "kind": 0} == pytest.approx({**there, "kind": 0}, rel=1e-5)
    files = [
        load_checkpoint(checkpoints(folder / "checkpoints")[-1]) for folder in (place / name, place / f"alone_{name}")
    ]
    assert files[0][1]["batches"] == files[1][1]["batches"]
    for kind, tensors in files[1][0].items():
        for key, tensor in tensors.items():
            torch.testing.assert_close(files[0][0][kind][key], tensor, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["resumed", "alone"])
def test_a_run_goes_on_with_two_ranks(place: Path, name: str) -> None:
    """Broken off at step 5, in the middle of a window of the log, by two ranks or by one process."""
    assert toy.losses(place / name) == pytest.approx(toy.losses(place / "alone_whole"), rel=1e-5)
    assert [record["step"] for record in toy.records(place / name, "train")] == [2, 4, 6, 8]
    names = [path.name for path in checkpoints(place / name / "checkpoints")]
    assert names == ["step_00000005", "step_00000006", "step_00000009"]


def test_one_rank_writes(said: list[dict[str, Any]]) -> None:
    assert any(name.startswith("metrics.jsonl") for name in said[0]["written"])
    assert said[1]["written"] == []


def test_ranks_agree(said: list[dict[str, Any]]) -> None:
    assert [facts["world"] for facts in said] == [[0, 2, True, "cpu"], [1, 2, False, "cpu"]]
    assert said[0]["weights"] == said[1]["weights"]  # to the bit
    for facts in said:
        assert (facts["count"], facts["sum"], facts["same"]) == (3, [3.0, 10.0], {"from": 0})
        assert facts["pure"].startswith("train.precision: got pure_bfloat16; expected one process")
        assert "holds a run already: got step_00000008" in facts["again"]


def test_alone_nothing_is_sent() -> None:
    world, tensor, model = World(), torch.ones(2), nn.Linear(1, 1)
    assert world.is_first
    assert world.device == torch.device("cpu")
    assert world.sum(tensor) is tensor
    assert (world.count(5), world.same("x"), world.every("x")) == (5, "x", ["x"])
    assert (world.tally(5, True), world.tally(4, False)) == ((5, True), (4, False))
    with world.one_by_machine():
        pass
    assert world.wrap(model) is model
    with world.without_sync(model, last=False):
        world.wait()


def test_joining_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    with joined("cpu") as world:
        assert world == World(0, 1, torch.device("cpu"))
    assert not torch.distributed.is_initialized()


def test_choosing_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device() == choose_device("cpu", local_rank=1) == torch.device("cpu")
    with pytest.raises(ConfigError, match="unknown device: got 'gpu'; expected auto, cpu, cuda or cuda:0"):
        choose_device("gpu")
    with pytest.raises(
        ConfigError, match=r"there is no CUDA device here: got 'cuda:1'. Try: choose the device cpu or auto"
    ):
        choose_device("cuda:1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device(local_rank=1) == choose_device("cuda", local_rank=1) == torch.device("cuda:1")
    assert choose_device("cuda:3", local_rank=1) == torch.device("cuda:3")
    assert choose_device("cpu") == torch.device("cpu")


def test_each_process_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for name, value in (("WORLD_SIZE", "4"), ("RANK", "2"), ("LOCAL_RANK", "2")):
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as caught, joined("auto"):
        pass
    assert str(caught.value) == (
        "there are 2 GPUs here: got no GPU for process 2 of this machine; expected one for each process. "
        "Try: set --nproc-per-node 2, or choose --device cpu."
    )
    text = r"--device: got cuda:0; expected cuda: each process takes a GPU of its own"
    with pytest.raises(ConfigError, match=text), joined("cuda:0"):
        pass


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[/a/gloo/pair.cc:553] Connection closed by peer [10.0.0.2]:14571. This is …", "a closed connection"),
        ("[/a/gloo/pair.cc:537] Read error [10.0.0.2]:1: Connection reset by peer. This …", "a closed connection"),
        ("Gloo connectFullMesh failed with [/a/gloo/pair.cc:1] timed out: remote=[10.0.0.1]:57770$3", None),
    ],
)
def test_who_is_lost_is_told_in_one_line(text: str, reason: str | None) -> None:
    with pytest.raises(LostError, match="the other processes of this training are lost: got ") as caught, _told():
        raise RuntimeError(text)
    assert caught.value.got == (reason or "Gloo connectFullMesh failed with timed out: remote=")
    with pytest.raises(RuntimeError, match="something else"), _told():
        raise RuntimeError("something else")
