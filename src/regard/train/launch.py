"""What `torchrun` knows and its workers do not: whether a training was started again, and what another one has said.

The agent of `torchrun` on each machine outlives its workers. When one of them is lost, agents end all others and start
them anew. Such workers find the mark of their own agents in the run folder, so they go on, where a new launch would be
told that the folder holds a run already.
"""

import hashlib
import json
import os
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from regard.base import RegardError, inside, parse_json, write_atomically
from regard.train.distributed import World

AGENTS = "torchrun.json"  # in a run folder while torchrun trains in it
PAUSE = 1.0
BOOT = Path("/proc/sys/kernel/random/boot_id")


def agent() -> str | None:
    """The agent that started this process: machine, process, and when both began; None without `torchrun`."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    parent, boot, began = os.getppid(), "", ""
    with suppress(OSError, IndexError):  # only Linux tells; elsewhere numbers of processes may come again
        boot = BOOT.read_text().strip()
        began = Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[19]
    return " ".join(filter(None, [socket.gethostname(), boot, str(parent), began]))


def was_restarted(folder: Path, world: World) -> bool:
    """Whether this launch of `torchrun` has begun to train in the folder already. Every process calls it."""
    agents = world.every(agent())
    return bool(world.same({each for each in agents if each is not None} & set(_marked(folder))))


def mark(folder: Path, world: World) -> None:
    """Write down, by the first process, which launch trains in the folder. Every process calls it."""
    agents = sorted({each for each in world.every(agent()) if each is not None})
    if agents and world.is_first:
        write_atomically(folder / AGENTS, json.dumps({"agents": agents}, indent=1))


def unmark(folder: Path) -> None:
    """The training has come to its end."""
    (folder / AGENTS).unlink(missing_ok=True)


def is_new(text: str) -> bool:
    """False where another process of the same launch has said the same: of four errors that are one, one is printed."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return True
    attempt, name = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), hashlib.sha256(text.encode()).hexdigest()
    try:
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        store = TCPStore(host, port, is_master=False, timeout=timedelta(seconds=3))
        new = store.add(f"regard/said/{attempt}/{name}", 1) == 1
    except (KeyError, ValueError, RuntimeError):  # the agent with the store is gone: twice is better than never
        return True
    if not new:
        time.sleep(PAUSE)  # torchrun ends all others when one has ended: first comes who speaks
    return new


def _marked(folder: Path) -> Sequence[str]:
    path = folder / AGENTS
    try:
        agents = parse_json(inside(path).read_bytes())["agents"] if path.exists() else []
    except (OSError, KeyError, TypeError, RegardError):
        return []
    return [each for each in agents if isinstance(each, str)] if isinstance(agents, list) else []
