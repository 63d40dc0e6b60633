"""The flags of `regard demo`; its work is tested in test_twins.py."""

import pytest

from regard.cli.main import main


def test_flags_reach_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, float]] = []
    monkeypatch.setattr("regard.cli.twins.compare_twins", lambda out, seconds: asked.append((out, seconds)))
    assert main(["demo"]) == 0
    assert main(["demo", "--out", "here", "--seconds", "9"]) == 0
    assert asked == [("demo", 1200.0), ("here", 9.0)]
