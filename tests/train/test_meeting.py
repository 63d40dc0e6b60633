"""Processes meet under a name that is new, whatever the dead have left in the store."""

import threading
from random import Random

import pytest
from torch.distributed import HashStore

from regard.base import RegardError
from regard.train import meeting
from regard.train.meeting import agreed_name, meeting_place


def agreed(store: HashStore, size: int, random: Random) -> list[str]:
    """What every rank of one attempt finds; they come in any order."""
    names: dict[int, str] = {}
    ranks = [
        threading.Thread(target=lambda rank=rank: names.update({rank: agreed_name(store, rank, size)}))
        for rank in range(size)
    ]
    for thread in random.sample(ranks, size):
        thread.start()
    for thread in ranks:
        thread.join()
    return [names[rank] for rank in range(size)]


@pytest.mark.parametrize("seed", range(4))
def test_each_attempt_agrees_on_a_name_of_its_own(seed: int) -> None:
    random, store, seen = Random(seed), HashStore(), set[str]()
    for _ in range(5):  # attempts, of as many processes as are left or have come
        size = random.randint(1, 6)
        if random.random() < 0.5:  # one that asked and died
            store.set(f"regard/asks/{random.randint(1, 6)}", f"{random.random()}")
        [name] = set(agreed(store, size, random))
        assert name not in seen
        seen.add(name)


def test_who_does_not_come_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "LIMIT", meeting.timedelta(0))
    with pytest.raises(RegardError, match=r"2 of 3 processes have not come. Try: start torchrun on every machine"):
        agreed_name(HashStore(), 0, 3)


def test_torch_meets_by_itself_without_a_store_of_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (None, "False"):
        monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)
        if value is not None:
            monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", value)
        assert meeting_place(0, 2) is None
