"""The facts about the machine."""

import platform

import pytest
import torch

import regard
from regard.base import environment, runtime

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
    monkeypatch.setattr(platform, "processor", lambda: name)
    assert environment()["processor"] == expected
