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
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import toy
from kill_runs import child, die_at, ended_by

POINTS: dict[str, Any] = {"steps": 7, "evaluate_every": 2, "save_every": 3, "log_every": 2, "keep": 1, "ema": 0.9}
MOMENTS: dict[str, Any] = {"steps": 16, "evaluate_every": 8, "save_every": 2, "log_every": 3}


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
