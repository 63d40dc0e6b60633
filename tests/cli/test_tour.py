"""The flag of `regard tour`; its work is tested in test_first_steps.py."""

import pytest

from regard.cli.main import main


def test_the_folder_reaches_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("regard.cli.first_steps.take_tour", asked.append)
    assert main(["tour"]) == 0
    assert main(["tour", "--out", "here"]) == 0
    assert asked == ["tour", "here"]
