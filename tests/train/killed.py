"""`python killed.py FOLDER`: trains in processes that are ended by SIGKILL, again and again; prints how they ended.

FOLDER/points: each process dies at its n-th touch of the disk (before a file is opened, synced, renamed or removed),
with n growing until one gets to the end. FOLDER/moments: each is killed from outside at a random moment.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import toy

POINTS: dict[str, Any] = {"steps": 7, "evaluate_every": 2, "save_every": 3, "log_every": 2, "keep": 1, "ema": 0.9}
MOMENTS: dict[str, Any] = {"steps": 16, "evaluate_every": 8, "save_every": 2, "log_every": 3}
TOUCHES = ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree")


def child(work: Callable[[], object]) -> int:
    """The work in a process of its own; gives its id."""
    number = os.fork()
    if number == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return number


def ended_by(number: int) -> int:
    """0 when it ended well, −9 when it was killed."""
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def die_at(touch: int, folder: Path) -> None:
    """From now on this process dies just before it touches the folder for the n-th time."""
    left, sync = [touch], os.fsync

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        writes = event in TOUCHES and str(folder) in str(arguments[0])
        if writes and (event != "open" or arguments[1] not in ("r", "rb")):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def synced(handle: int) -> None:
        count("open", (str(folder), "fsync"))
        sync(handle)

    sys.addaudithook(count)
    os.fsync = synced


def at_points(folder: Path) -> list[int]:
    def work(touch: int) -> None:
        die_at(touch, folder)
        toy.run(folder, resume=True, **POINTS)

    ends: list[int] = []
    while not ends or ends[-1] == -signal.SIGKILL:
        touch = 1 + len(ends)
        ends.append(ended_by(child(lambda touch=touch: work(touch))))
    return ends


def at_moments(folder: Path, times: int) -> list[int]:
    ends = []
    for _ in range(times):
        number = child(lambda: toy.run(folder, task=toy.translation(), resume=True, **MOMENTS))
        time.sleep(random.uniform(0.05, 0.3))
        os.kill(number, signal.SIGKILL)
        ends.append(ended_by(number))
    return ends


if __name__ == "__main__":
    place = Path(sys.argv[1])
    toy.run(place / "first", steps=1)  # all that torch loads late is loaded before the first fork
    print(json.dumps({"points": at_points(place / "points"), "moments": at_moments(place / "moments", 4)}))
