"""When a kernel for small models serves: never unasked, and never in place of a layer that somebody watches."""

import pytest
import torch
from torch import nn

from regard.base import ConfigError
from regard.kernels import limits
from regard.kernels.serving import is_autocast, is_bare, pays, recording, serves


def test_a_cpu_is_served_by_plain_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CHOSEN_ON_A_GPU", limits.SMALL)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert not any(serves(name, torch.zeros(2, 3)) for name in limits.SMALL)
    with pytest.raises(ConfigError, match="a kernel for small models: got 'nothing'"):
        serves("nothing", torch.zeros(2))


def test_recording_ends_with_its_block() -> None:
    with recording():
        with recording():
            assert pays("cuda", 1)
        assert pays("cuda", 1)
    assert not pays("cuda", 1)
    assert pays("cpu", 1)  # the interpreter


def test_what_is_chosen_has_a_name() -> None:
    assert limits.CHOSEN_ON_A_GPU <= limits.SMALL


def test_a_layer_with_anything_of_its_own_is_not_bare() -> None:
    class Own(nn.Linear):
        pass

    assert is_bare(nn.Linear(2, 3), nn.Linear)
    assert not is_bare(Own(2, 3), nn.Linear)
    for register in ("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook",
                     "register_full_backward_pre_hook"):  # fmt: skip
        layer = nn.Linear(2, 3)
        handle = getattr(layer, register)(lambda *_: None)
        assert not is_bare(layer, nn.Linear), register
        handle.remove()
        assert is_bare(layer, nn.Linear), register
    layer = nn.Linear(2, 3)
    layer.forward = lambda x: x  # type: ignore[method-assign]
    assert not is_bare(layer, nn.Linear)
    assert not is_bare(nn.utils.parametrizations.weight_norm(nn.Linear(2, 3)), nn.Linear)
    everywhere = nn.modules.module.register_module_forward_hook(lambda *_: None)
    assert not is_bare(nn.Linear(2, 3), nn.Linear)
    everywhere.remove()


def test_autocast_that_would_change_a_type() -> None:
    x = torch.zeros(2)
    assert not is_autocast(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert is_autocast(x)
        assert not is_autocast(x.bfloat16())
