"""How the processes of one attempt find each other in a store that has outlived earlier attempts.

`torchrun` keeps one store for a whole launch. After a restart it still holds the addresses of processes that are dead,
and a process group that reads them fails. So the processes first agree on a name that is new, and meet under it: no
number that `torchrun` gives is the same on all machines and another one after every restart.
"""

import os
import secrets
import time
from datetime import timedelta

from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined]

from regard.base import RegardError

LIMIT = timedelta(minutes=30)  # until all processes must have come, as torch itself has it
PAUSE = 0.02


def meeting_place(rank: int, size: int) -> Store | None:
    """A store that only the processes of this attempt use; None where torch makes one for each attempt by itself."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = TCPStore(host, port, is_master=False, timeout=LIMIT)
    return PrefixStore(agreed_name(store, rank, size), store)


def agreed_name(store: Store, rank: int, size: int) -> str:
    """One name for all ranks, which no earlier attempt has used.

    A rank asks under a word of its own and waits for the answer to it. The first one answers whatever it finds, also
    the questions of the dead, until all have said that they know the name.
    """
    own = secrets.token_hex(8)
    if rank > 0:
        store.set(f"regard/asks/{rank}", own)
        name: str = store.get(f"regard/answer/{own}").decode()
        store.set(f"{name}/knows/{rank}", "")
        return name
    name, missing = f"regard/{own}", set(range(1, size))
    late = time.monotonic() + LIMIT.total_seconds()
    while missing:
        for other in sorted(missing):
            if store.check([f"regard/asks/{other}"]):
                store.set(f"regard/answer/{store.get(f'regard/asks/{other}').decode()}", name)
            if store.check([f"{name}/knows/{other}"]):
                missing.remove(other)
        if time.monotonic() > late:
            raise RegardError(
                f"{len(missing)} of {size} processes have not come", cure="start torchrun on every machine"
            )
        time.sleep(PAUSE)
    return name
