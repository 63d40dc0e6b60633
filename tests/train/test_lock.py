"""One training at a time in a folder; the lock ends with its process."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import toy

from regard.base import RegardError
from regard.train import lock as module
from regard.train.lock import LOCK, RunLock, check_free

HOLD = """
import sys, time
from pathlib import Path
from regard.train.lock import RunLock
lock = RunLock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


def text(folder: Path, process: int) -> str:
    return (
        f"{folder} is being trained already: got process {process} on {socket.gethostname()}; "
        "expected one training at a time. Try: wait for it, or stop it; or choose another folder by --out."
    )


def test_a_second_one_is_told_who_has_it(tmp_path: Path) -> None:
    check_free(tmp_path)
    first = RunLock(tmp_path)
    for second in (check_free, RunLock):
        with pytest.raises(RegardError) as caught:
            second(tmp_path)
        assert str(caught.value) == text(tmp_path, os.getpid())
    first.check()
    first.release()
    first.release()
    assert list(tmp_path.iterdir()) == []
    RunLock(tmp_path).release()


def test_a_dead_process_keeps_nothing(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(RegardError) as caught:
            RunLock(tmp_path)
        assert str(caught.value) == text(tmp_path, holder.pid)
        holder.send_signal(signal.SIGKILL)
    assert (tmp_path / LOCK).exists()
    check_free(tmp_path)
    RunLock(tmp_path).release()


def test_two_trainings_in_one_folder(tmp_path: Path) -> None:
    """The second is refused before it has changed anything; the first ends as if alone."""
    caught: list[str] = []

    def watch(kind: str, facts: object) -> None:
        if kind == "saved" and not caught:
            with pytest.raises(RegardError) as error:
                toy.run(tmp_path / "run", resume=True, steps=6, save_every=2, keep=1)
            caught.append(str(error.value))

    toy.run(tmp_path / "run", steps=6, save_every=2, keep=1, watch=watch)
    assert caught == [text(tmp_path / "run", os.getpid())]
    toy.run(tmp_path / "alone", steps=6, save_every=2, keep=1)
    assert toy.records(tmp_path / "run") == toy.records(tmp_path / "alone")
    assert not (tmp_path / "run" / LOCK).exists()


def test_a_failed_start_leaves_no_lock(tmp_path: Path) -> None:
    toy.run(tmp_path, steps=2)
    with pytest.raises(RegardError, match="holds a run already"):
        toy.run(tmp_path, steps=4)
    check_free(tmp_path)
    assert not (tmp_path / LOCK).exists()


def test_one_that_was_removed_while_it_was_opened_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The holder removes its file and lets go just between our opening and our locking: we lock the new file."""
    first, took = RunLock(tmp_path), module._lock

    def late(handle: int) -> bool:
        first.release()
        return took(handle)

    monkeypatch.setattr(module, "_lock", late)
    second = RunLock(tmp_path)
    second.check()
    with pytest.raises(RegardError, match="is being trained already"):
        RunLock(tmp_path)
    second.release()


@pytest.mark.parametrize("how", ["no fcntl", "no locks on the disk"])
def test_where_there_are_no_locks_training_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    class NoLocks:
        LOCK_EX = LOCK_NB = 0

        def flock(self, handle: int, kind: int) -> None:
            raise OSError(95, "Operation not supported")

    monkeypatch.setattr(module, "fcntl", None if how == "no fcntl" else NoLocks())
    toy.run(tmp_path, steps=2)
    assert toy.records(tmp_path)[-1]["kind"] == "end"


def test_a_link_is_no_lock(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / LOCK).symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match=LOCK):
        RunLock(tmp_path)
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    place = tmp_path / "run"
    place.mkdir()
    lock = RunLock(place)
    place.rename(tmp_path / "moved")
    with pytest.raises(RegardError, match=r"run is gone: it was deleted or moved while the run was training"):
        lock.check()
    place.mkdir()
    (place / LOCK).touch()  # another one of the same name
    with pytest.raises(RegardError, match="is gone"):
        lock.check()
    lock.release()
    assert (place / LOCK).exists()
