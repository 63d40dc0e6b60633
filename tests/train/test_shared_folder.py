"""Several processes, one run folder: those that see another one are named. Two real processes are in test_sharding."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from regard.base import ConfigError
from regard.train import World, shared_folder
from regard.train.shared_folder import check_shared


@dataclass(frozen=True)
class Pair(World):
    """One of two processes; what the other one says is known."""

    size: int = 2
    other: Any = (True, "process 1 on far")
    first: Any = None  # what process 0 says, for process 1
    seen: list[Any] = field(default_factory=list)

    def same(self, value: Any) -> Any:
        self.seen.append(value)
        return value if self.is_first else self.first

    def every(self, value: Any) -> list[Any]:
        return [value, self.other] if self.is_first else [self.other, value]


def test_alone_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "touch", lambda *_, **__: pytest.fail("something was written"))
    check_shared(tmp_path, World())


def test_the_first_one_leaves_nothing(tmp_path: Path) -> None:
    world = Pair()
    check_shared(tmp_path / "deep" / "run", world)
    [(name, level, written)] = world.seen
    assert (name[:8], level, written) == (".shared.", 2, True)  # two folders up
    assert list(tmp_path.iterdir()) == []


def test_the_first_one_tells_who_sees_another_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        check_shared(tmp_path, Pair(other=(False, "process 1 on far")))
    said = str(caught.value)
    assert said.startswith(
        f"{tmp_path} is not the same folder for all processes: got process 1 on far does not see what"
    )
    assert said.endswith(
        "expected a file system that all machines share, under one path. Try: choose a folder on it by --out."
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("there", [True, False])
def test_another_one_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    monkeypatch.setattr(shared_folder, "PAUSE", 0.0)
    path = tmp_path / ".shared.part"
    if there:
        path.write_text("")
    world = Pair(rank=1, first=(path.name, 0, True), other=(True, "process 0 on near"))
    if there:
        check_shared(tmp_path, world)
    else:
        with pytest.raises(ConfigError, match=r"got process 1 on .* does not see what process 0 on near writes there"):
            check_shared(tmp_path, world)


def test_a_place_that_cannot_be_written_has_an_error_of_its_own(tmp_path: Path) -> None:
    check_shared(tmp_path, Pair(rank=1, first=("nothing", 0, False), other=(True, "process 0 on near")))
