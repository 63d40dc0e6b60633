"""What kernels are launched with."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from triton.backends.compiler import GPUTarget

from regard.kernels import launch
from regard.kernels.launch import contiguous_rows, jit, on, power_of_two


@jit
def _scale(x, out, size, factor, block: tl.constexpr, doubled: tl.constexpr):
    place = tl.program_id(0) * block + tl.arange(0, block)
    number = tl.load(x + place, mask=place < size) * factor
    tl.store(out + place, 2.0 * number if doubled else number, mask=place < size)


class Driver:
    """Lets Triton build kernels for a GPU that is not there, and writes down what would be launched."""

    def __init__(self) -> None:
        self.device, self.launches = 0, []
        self.utils = SimpleNamespace(
            load_binary=lambda *_: (object(), object(), 0, 0, 1024),
            get_device_properties=lambda _: {"max_shared_mem": 1 << 17},
        )

    def get_current_device(self) -> int:
        return self.device

    def get_current_stream(self, device: int) -> int:
        return 7 + device

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def launcher_cls(self, source: Any, metadata: Any) -> Any:
        return lambda *arguments: self.launches.append(arguments)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setattr(triton.runtime.driver, "_active", made)
    _scale.launches.clear()
    _scale.device_caches.clear()
    return made


def _start(x: Tensor, size: float = 20, factor: float = 0.5, doubled: bool = True) -> Any:
    return _scale[(3,)](x, x, size, factor, block=16, doubled=doubled)


def test_a_second_launch_is_the_first_without_triton(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    x, other = torch.zeros(2, 64)
    program = _start(x)
    monkeypatch.setattr(triton.JITFunction, "run", None)
    assert _start(x) is program
    assert len(driver.launches) == 2
    first, second = driver.launches
    assert first[:3] == second[:3] == (3, 1, 1)
    assert first[3:6] == second[3:6]  # stream, program, its warps and memory
    names = dict(zip(_scale.arg_names, second[9:], strict=True))
    assert names.keys() == dict(zip(_scale.arg_names, first[9:], strict=True)).keys()
    assert names["x"] is x
    assert [names[name] for name in ("size", "factor", "block", "doubled")] == [20, 0.5, 16, True]
    _start(other)
    assert driver.launches[2][9] is other


@pytest.mark.parametrize(
    "change",
    [
        {"x": torch.zeros(64, dtype=torch.float16)},
        {"x": torch.zeros(64)[1:]},
        {"size": 16},
        {"size": 1},
        {"size": 1 << 40},
        {"size": 20.0},
        {"factor": 1},
        {"doubled": False},
    ],
    ids=str,
)
def test_another_kind_of_launch_is_built_anew(driver: Driver, change: dict[str, Any]) -> None:
    usual = {"x": torch.zeros(64), "size": 20, "factor": 1.0, "doubled": True}
    usual_program = _start(**usual)
    assert _start(**usual | change) is not usual_program
    assert _start(**usual) is usual_program
    assert len(_scale.launches) == 2


def test_real_numbers_are_no_part_of_a_kind(driver: Driver) -> None:
    assert _start(torch.zeros(64), factor=0.25) is _start(torch.zeros(64), factor=0.75)
    assert [launched[12] for launched in driver.launches] == [0.25, 0.75]
    assert len(_scale.launches) == 1


def test_each_device_has_its_programs(driver: Driver) -> None:
    program = _start(torch.zeros(64))
    driver.device = 1
    assert _start(torch.zeros(64)) is not program
    assert driver.launches[1][3] == 8


def test_parameters_are_not_kept(driver: Driver) -> None:
    _start(nn.Parameter(torch.zeros(64)))
    _start(nn.Parameter(torch.zeros(64)))
    assert len(_scale.launches) == 1


def test_memory_of_launches_is_bounded(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "MOST_LAUNCHES", 3)
    for size in range(33, 40):
        _start(torch.zeros(64), size=size)
        assert 1 <= len(_scale.launches) <= 3


def test_a_warm_up_launches_nothing(driver: Driver) -> None:
    _scale.warmup(torch.float32, torch.float32, 20, 0.5, block=16, doubled=True, grid=(1,))
    assert driver.launches == []


def test_rows_are_contiguous_and_axes_stay_expanded() -> None:
    x = torch.ones(1, 4, 6).expand(3, 4, 6)
    assert contiguous_rows(x) is x
    assert contiguous_rows(x.mT).stride(-1) == 1


def test_powers_of_two() -> None:
    assert [power_of_two(number) for number in (1, 2, 3, 64, 65)] == [1, 2, 4, 64, 128]


def test_a_launch_on_a_cpu_changes_no_device() -> None:
    with on(torch.ones(1)) as nothing:
        assert nothing is None


def test_a_launch_changes_the_device_only_to_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    x = MagicMock(Tensor, is_cuda=True, device=torch.device("cuda", 1), get_device=lambda: 1)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert isinstance(on(x), nullcontext)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    assert on(x).idx == 1
