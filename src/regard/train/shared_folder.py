"""Whether the run folder is the same one for all processes of a training, whatever machine they are on."""

import os
import socket
import time
from contextlib import suppress
from pathlib import Path

from regard.base import ConfigError, part_beside
from regard.train.distributed import World

TRIES, PAUSE = 30, 0.1  # for file systems that show a new file a moment later on other machines


def check_shared(folder: Path, world: World) -> None:
    """An error on every process, unless all of them see what the first one writes at the place of the folder.

    A run folder of one machine would do until the first restart: then a process may be the first one that finds no
    checkpoint, and would begin anew.
    """
    if world.size == 1:
        return
    places = (folder.absolute(), *folder.absolute().parents)
    name, level, path = part_beside(folder.absolute() / "shared").name, 0, None
    if world.is_first:
        level = next(level for level, place in enumerate(places) if place.exists())
        with suppress(OSError):  # a place that cannot be written has an error of its own, later
            path = places[level] / name
            path.touch(exist_ok=False)
    try:
        name, level, written = world.same((name, level, path is not None and path.exists()))
        sees = not written or _sees(places[min(level, len(places) - 1)] / name)
        everyone = world.every((sees, f"process {world.rank} on {socket.gethostname()}"))
    finally:
        if path is not None:
            path.unlink(missing_ok=True)
    blind = [who for seen, who in everyone if not seen]
    if blind:
        raise ConfigError(
            f"{folder} is not the same folder for all processes",
            got=f"{blind[0]} does not see what {everyone[0][1]} writes there",
            expected="a file system that all machines share, under one path",
            cure="choose a folder on it by --out",
        )


def _sees(path: Path) -> bool:
    for _ in range(TRIES):
        with suppress(OSError):
            os.listdir(path.parent)  # asks the server of the file system again
        if path.exists():
            return True
        time.sleep(PAUSE)
    return False
