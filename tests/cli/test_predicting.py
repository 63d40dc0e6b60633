import sys
from pathlib import Path

import pytest

from regard.base import ConfigError, MissingExtra
from regard.cli.predicting import check_format, chunks, numbered
from regard.viz.heatmap import FORMATS


def test_one_picture_keeps_its_name_and_several_are_numbered() -> None:
    assert numbered("deep/a.png", 1, 1) == Path("deep/a.png")
    assert [numbered("deep/a.b.png", n, 2) for n in (1, 2)] == [Path("deep/a.b_1.png"), Path("deep/a.b_2.png")]


def test_formats_are_checked_before_any_work() -> None:
    check_format("--path", None)
    for suffix in FORMATS:
        check_format("--path", f"A{suffix.upper()}")
    check_format("--path", "a.gif", more=(".gif",))
    with pytest.raises(ConfigError, match=r"--path: unknown picture format: got ''; expected one of \.png, .*, \.gif"):
        check_format("--path", "png", more=(".gif",))
    with pytest.raises(ConfigError, match=r"unknown picture format: got '\.gif'"):
        check_format("--path", "a.gif")


def test_all_pictures_in_their_order_some_at_a_time() -> None:
    names = [str(n) for n in range(2 * 64 + 1)]
    parts = list(chunks(names, 64))
    assert [len(part) for part in parts] == [64, 64, 1]
    assert [name for part in parts for name in part] == names


def test_what_draws_is_checked_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    check_format("--path", None)
    with pytest.raises(MissingExtra, match="--path needs matplotlib, which is not installed"):
        check_format("--path", "a.png")
