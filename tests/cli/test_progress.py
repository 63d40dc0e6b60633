import io
import threading

import pytest
from tiny import Terminal

from regard.cli.progress import STOPPING, STOPPING_ALL, Counter, Progress
from regard.train import Train


def tell(progress: Progress) -> None:
    with progress:
        for step in (1, 2, 3, 4):
            progress("step", {"step": step})
        progress("train", {"step": 4, "loss": 3.25, "per_second": 1234.5, "seconds": 1.2})
        progress("valid", {"kind": "valid", "step": 4, "loss": 3.0, "tokenized_bleu": 12.5, "seconds": 1.2})
        progress("saved", {"step": 4})
        progress("end", {"step": 4, "seconds": 1.2})


@pytest.mark.parametrize("settings", [Train(steps=4), Train(seconds=0.3)])
def test_without_a_terminal_there_are_lines_only(settings: Train, capsys: pytest.CaptureFixture[str]) -> None:
    tell(Progress(settings, "bahdanau"))
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        "step      4   loss 3.250      1,234 tokens/s\nstep      4   valid: loss 3.000, tokenized_bleu 12.500\n"
    )


@pytest.mark.parametrize(
    ("settings", "end"), [(Train(steps=4), "4/4 step"), (Train(seconds=3.0), "3/3 s"), (Train(seconds=0.3), "1/1 s")]
)
def test_on_a_terminal_there_is_a_bar(settings: Train, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    tell(Progress(settings, "bahdanau"))
    shown = terminal.getvalue()
    last = shown.rstrip("\n").rpartition("\r")[2]
    assert last.startswith("bahdanau 100% |")
    assert end in last
    assert "loss 3.250, 1,234 tokens/s" in last
    assert "valid: loss 3.000" in shown
    assert "step      4   loss" not in shown
    assert shown.endswith("\n")


def test_an_error_ends_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with pytest.raises(KeyError), Progress(Train(steps=4)) as progress:
        progress("step", {})  # without its number
    assert terminal.getvalue().endswith("\n")


def test_what_is_computed_before_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(Train(steps=4)) as progress:
        for done in (1000, 2000):
            progress("prepare", {"what": "features", "done": done, "of": 2000})
    assert capsys.readouterr().err == "features: 2,000\n"


def test_speed_is_in_what_a_task_counts(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(Train(steps=4), unit="images") as progress:
        progress("train", {"step": 4, "loss": 3.25, "per_second": 1234.5, "seconds": 1.2})
    assert capsys.readouterr().err == "step      4   loss 3.250      1,234 images/s\n"


@pytest.mark.parametrize("terminal", [False, True])
def test_a_stop_is_told_beside_the_bar(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By another thread, while this one draws."""
    stream = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    with Progress(Train(steps=400)) as progress:
        thread = threading.Thread(target=progress, args=("stopping", {"step": 1}))
        thread.start()
        for step in range(1, 400):
            progress("step", {"step": step})
        thread.join()
    lines = stream.getvalue().replace("\r", "\n").splitlines()
    assert [line for line in lines if "Stopping" in line] == [STOPPING]


def test_under_torchrun_a_second_signal_is_not_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(Train(steps=4)) as progress:
        progress("stopping", {"step": 1, "again": False})
    assert capsys.readouterr().err == STOPPING_ALL + "\n"


def test_where_a_run_begins_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(Train(steps=4)) as progress:
        progress("start", {"run": "runs/pairs", "part": "", "new": ["action.weight", "action.bias"]})
        progress("start", {"run": "runs/seven", "part": "ram", "new": []})
    first, second = capsys.readouterr().err.splitlines()
    assert first == "begins with the weights of runs/pairs; new: action.weight, action.bias"
    assert second == "begins with the weights of runs/seven in ram"


def test_a_counter_shows_what_is_counted_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with Counter("run on test") as progress:
        progress("pictures", 0, 3)
        progress("pictures", 3, 3)
        progress("captions", 2, 3)
    shown = terminal.getvalue()
    for part in ("run on test, pictures   0% |", "3/3 [", "run on test, captions  67% |", "2/3 ["):
        assert part in shown
    assert "\n" not in shown
    assert shown.rstrip(" ").endswith("\r")


def test_a_counter_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Counter("run on test") as progress:
        progress("pictures", 1, 3)
    assert capsys.readouterr().err == ""
