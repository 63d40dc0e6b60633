"""The facts about the machine."""

import io
import platform
import subprocess

import pytest
import torch

import regard
from regard.base import environment, free_memory, runtime

KEYS = {"regard", "python", "torch", "system", "processor", "cores", "threads"}


def test_facts() -> None:
    facts = environment()
    assert set(facts) - {"gpu"} == KEYS
    assert all(isinstance(fact, str) and fact for fact in facts.values())
    assert facts["regard"] == regard.__version__
    assert facts["torch"] == torch.__version__
    assert facts["python"] == platform.python_version()
    assert facts["threads"] == str(torch.get_num_threads())


@pytest.mark.parametrize(("there", "keys"), [(True, KEYS | {"gpu"}), (False, KEYS)])
def test_gpu(monkeypatch: pytest.MonkeyPatch, there: bool, keys: set[str]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    facts = environment()
    assert set(facts) == keys
    assert facts.get("gpu", "a GPU") == "a GPU"


@pytest.mark.parametrize(("name", "expected"), [("some chip", "some chip"), ("", "unknown")])
def test_processor_without_proc(monkeypatch: pytest.MonkeyPatch, name: str, expected: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(runtime, "open", fail, raising=False)
    monkeypatch.setattr(subprocess, "run", fail)
    monkeypatch.setattr(platform, "processor", lambda: name)
    assert environment()["processor"] == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Architecture: aarch64\nVendor ID:   ARM\n  Model name: Neoverse-N1\n", "ARM Neoverse-N1"),
        ("Vendor ID: ARM\nModel name: -\n", "ARM"),
        ("", "some chip"),
    ],
)
def test_processor_that_linux_has_no_name_for(monkeypatch: pytest.MonkeyPatch, said: str, expected: str) -> None:
    monkeypatch.setattr(runtime, "open", lambda *_, **__: io.StringIO("CPU part\t: 0xd0c\n"), raising=False)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, said))
    monkeypatch.setattr(platform, "processor", lambda: "some chip")
    assert environment()["processor"] == expected


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({"/proc/meminfo": "MemTotal: 9 kB\nMemAvailable:  3 kB\n", "/sys/fs/cgroup/memory.max": "max\n"}, 3072),
        ({"/proc/meminfo": "MemAvailable:  3 kB\n", "/sys/fs/cgroup/memory.max": "2000\n"}, 2000),
        ({"/proc/meminfo": "nothing\n"}, 2**63 - 1),
        ({}, 2**63 - 1),
    ],
)
def test_free_memory(monkeypatch: pytest.MonkeyPatch, files: dict[str, str], free: int) -> None:
    def opened(path: str, **_: object) -> io.StringIO:
        if path not in files:
            raise FileNotFoundError(path)
        return io.StringIO(files[path])

    monkeypatch.setattr("builtins.open", opened)
    assert free_memory() == free
