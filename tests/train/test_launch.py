"""A process that torchrun has started again knows its training; four errors that are one are printed once."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from torch.distributed import TCPStore

from regard.train import World, launch, was_restarted
from regard.train.launch import AGENTS, agent, is_new, mark, unmark


@pytest.fixture
def torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")


def test_without_torchrun_there_is_no_agent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    assert agent() is None
    mark(tmp_path, World())
    assert list(tmp_path.iterdir()) == []
    assert not was_restarted(tmp_path, World())


@pytest.mark.usefixtures("torchrun")
def test_an_agent_knows_its_own_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(agent()).startswith(socket.gethostname() + " ")
    assert str(os.getppid()) in str(agent()).split()
    assert not was_restarted(tmp_path, World())
    mark(tmp_path, World())
    assert was_restarted(tmp_path, World())
    monkeypatch.setattr(os, "getppid", os.getpid)  # another launch
    assert not was_restarted(tmp_path, World())
    unmark(tmp_path)
    unmark(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("torchrun")
def test_one_agent_that_is_left_is_enough(tmp_path: Path) -> None:
    (tmp_path / AGENTS).write_text(json.dumps({"agents": ["a machine that is gone", agent()]}))
    assert was_restarted(tmp_path, World())


@pytest.mark.usefixtures("torchrun")
@pytest.mark.parametrize("content", ["", "[", "{}", '{"agents": 3}', '{"agents": [3, null]}', '["agents"]'])
def test_a_strange_mark_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / AGENTS).write_text(content)
    assert not was_restarted(tmp_path, World())


@pytest.mark.usefixtures("torchrun")
def test_a_machine_that_does_not_tell_when_it_began(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(launch, "BOOT", tmp_path / "nowhere")
    assert agent() == f"{socket.gethostname()} {os.getppid()}"


def test_an_error_is_new_once_in_each_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "PAUSE", 0.0)
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)
    assert is_new("a")
    assert is_new("a")
    store = TCPStore("127.0.0.1", 0, is_master=True)
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(store.port))
    assert [is_new(text) for text in "abab"] == [True, True, False, False]
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert [is_new("a"), is_new("a")] == [True, False]
    monkeypatch.setenv("MASTER_PORT", "no number")
    assert is_new("a")


def test_wrong_use_is_one_line() -> None:
    """Both processes refuse the name; one of them says so. torchrun adds a table of its own."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run([*launch, "-m", "regard", "train", "nosuch"], capture_output=True, text=True, timeout=1500)
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if "nosuch" in line]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("regard: ")
