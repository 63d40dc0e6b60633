"""Lines of JSON, and TensorBoard where it is installed."""

import json
import sys
import types
from pathlib import Path

import pytest

from regard.base import MissingExtra, RegardError
from regard.train.metrics_log import Records, read_records


def test_lines_follow_each_other(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.write({"kind": "train", "step": 1, "loss": 4.0})
    records.write({"kind": "valid", "step": 2, "loss": 3.0})
    lines = [json.loads(line) for line in records.path.read_text().splitlines()]
    assert [line["loss"] for line in lines] == [4.0, 3.0]
    records.clear()
    assert not records.path.exists()


def test_later_steps_half_lines_and_the_end_are_forgotten(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.forget_after(3)  # nothing there yet
    for step in (1, 2, 3):
        records.write({"kind": "train", "step": step})
    records.write({"kind": "end", "step": 2})
    records.path.write_text(records.path.read_text() + '{"kind": "tra')
    records.forget_after(2)
    assert [json.loads(line)["step"] for line in records.path.read_text().splitlines()] == [1, 2]


def test_numbers_go_to_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    class SummaryWriter:
        def __init__(self, folder: str) -> None:
            assert folder == str(tmp_path / "tensorboard")

        def add_scalar(self, name: str, value: float, step: int) -> None:
            seen.append((name, value, step))

        def flush(self) -> None:
            seen.append("flushed")

    board = types.ModuleType("torch.utils.tensorboard")
    board.SummaryWriter = SummaryWriter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tensorboard", types.ModuleType("tensorboard"))
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", board)
    Records(tmp_path, tensorboard=True).write({"kind": "train", "step": 7, "loss": 4.0, "lr": 0.1})
    assert seen == [("train/loss", 4.0, 7), ("train/lr", 0.1, 7), "flushed"]


def test_without_tensorboard_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(MissingExtra, match=r"pip install tensorboard, or .*'\.\[tensorboard\]'"):
        Records(tmp_path, tensorboard=True)


def test_lines_of_any_kind_are_read_or_passed_over(tmp_path: Path) -> None:
    good = {"kind": "train", "step": 1, "loss": 0.1 + 0.2}
    lines = [
        b"\xff\xfe no UTF-8",
        b"[" * 100_000,
        b"3",
        b"{}",
        b'{"kind": 1, "step": 1}',
        b'{"kind": "a", "step": "1"}',
    ]
    path = tmp_path / "metrics.jsonl"
    assert read_records(path) == []
    path.write_bytes(b"\n".join([*lines, json.dumps(good).encode(), b"", b'{"kind": "tra']))
    assert read_records(path) == [good]
    Records(tmp_path).forget_after(1)
    assert path.read_text() == json.dumps(good) + "\n"


def test_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("{}")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").symlink_to(tmp_path / "secret")
    with pytest.raises(RegardError, match=r"metrics.jsonl cannot be read: got a link that leads out of its folder"):
        read_records(tmp_path / "run" / "metrics.jsonl")
