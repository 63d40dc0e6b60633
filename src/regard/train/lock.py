"""One training at a time in a run folder, and an end to it when the folder is gone.

The lock is one of the system (`flock`) on the file run.lock, so it ends with the process that holds it, however that
process ends; a file that a killed process has left behind locks nothing. On Windows, and on file systems without such
locks, there is none: there it is the user who must not start two trainings in one folder.
"""

import os
import socket
from contextlib import suppress
from pathlib import Path

from regard.base import RegardError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCK = "run.lock"


class RunLock:
    """Holds a run folder until `release`, or until the process ends. The folder must be there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / LOCK
        self._handle: int | None = self._open()

    def check(self) -> None:
        """An error when the folder, or what was in it, was deleted or moved; whatever is written then would be lost."""
        if self._handle is None or not _same_file(self._handle, self.path):
            raise RegardError(
                f"{self.folder} is gone: it was deleted or moved while the run was training",
                got=f"no {LOCK} of this process in it",
                cure="train it anew, and leave the folder where it is until the end",
            )

    def release(self) -> None:
        """Release the lock, so that another training may use the folder."""
        if self._handle is not None:
            if _same_file(self._handle, self.path):
                with suppress(OSError):
                    self.path.unlink()  # still locked: who opens it now sees below that it is no longer the one
            os.close(self._handle)
            self._handle = None

    def _open(self) -> int:
        while True:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
            try:
                if not _lock(handle):
                    raise _held(self.folder, handle)
                if _same_file(handle, self.path):  # else the one who had it has removed it
                    os.ftruncate(handle, 0)
                    os.write(handle, f"{os.getpid()} {socket.gethostname()}\n".encode())
                    return handle
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)


def check_free(folder: Path) -> None:
    """An error if a process trains in the folder now; nothing is changed."""
    with suppress(OSError):
        handle = os.open(folder / LOCK, os.O_RDWR)
        try:
            if not _lock(handle):
                raise _held(folder, handle)
        finally:
            os.close(handle)


def _lock(handle: int) -> bool:
    """False where another process has it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # the file system has no locks
        return True
    return True


def _held(folder: Path, handle: int) -> RegardError:
    number, _, host = os.pread(handle, 300, 0).decode(errors="replace").strip().partition(" ")
    known = number.isdigit() and bool(host)
    got = f"process {number} on {host}" if known else "another process"
    cure = "wait for it, or stop it; or choose another folder by --out"
    return RegardError(f"{folder} is being trained already", got=got, expected="one training at a time", cure=cure)


def _same_file(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path, follow_symlinks=False))
    except OSError:
        return False
