"""Optimisers of the papers, from torch, with their state as named tensors."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.base import RegardError
from regard.train.settings import Train

STATE = {
    torch.optim.Adam: {"step", "exp_avg", "exp_avg_sq"},
    torch.optim.AdamW: {"step", "exp_avg", "exp_avg_sq"},
    torch.optim.Adadelta: {"step", "square_avg", "acc_delta"},
    torch.optim.SGD: {"momentum_buffer"},
}


def build_optimiser(
    parameters: list[nn.Parameter],
    settings: Train,
    *,
    capturable: bool = False,
    shares: Sequence[float] | None = None,
    decays: Sequence[bool] | None = None,
) -> torch.optim.Optimizer:
    """The optimiser of the settings. A `capturable` one keeps its rate and its counters on the device.

    `shares` are factors of the rate, one for each parameter: pretrained parts learn slowly. `decays` are False for
    those without weight decay.
    """
    alike: dict[tuple[float, bool], list[nn.Parameter]] = {}
    every = shares or [1.0] * len(parameters), decays or [True] * len(parameters)
    for parameter, share, decay in zip(parameters, *every, strict=True):
        alike.setdefault((share, decay), []).append(parameter)
    groups = [
        {"params": alike[share, decay], "share": share, "weight_decay": settings.weight_decay if decay else 0.0,
         "lr": torch.tensor(settings.lr, device=parameters[0].device) if capturable else settings.lr}
        for share, decay in sorted(alike, reverse=True)
    ]  # fmt: skip
    return _build(groups, settings, capturable)


def _build(parameters: Any, settings: Train, capturable: bool) -> torch.optim.Optimizer:
    rate = settings.lr  # each group has its own
    if settings.optimiser in ("adam", "adamw"):
        kind = torch.optim.Adam if settings.optimiser == "adam" else torch.optim.AdamW
        return kind(
            parameters,
            lr=rate,
            betas=settings.betas,
            eps=settings.eps,
            capturable=capturable,
            fused=True,
        )
    if settings.optimiser == "adadelta":
        return torch.optim.Adadelta(parameters, lr=rate, rho=settings.rho, eps=settings.eps, capturable=capturable)
    options: dict[str, Any] = {"momentum": settings.momentum, "nesterov": settings.optimiser == "nag"}
    return torch.optim.SGD(parameters, lr=rate, fused=True if capturable else None, **options)


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """The rate of the next step, written into the tensor where there is one."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate * group["share"])
        else:
            group["lr"] = rate * group["share"]


def optimiser_tensors(optimiser: torch.optim.Optimizer, named: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    """The state, as tensors under `parameter/name`: what a safetensors file takes."""
    tensors = {}
    for name, parameter in named.items():
        for key, value in optimiser.state.get(parameter, {}).items():
            if isinstance(value, Tensor):
                tensors[f"{name}/{key}"] = value
    return tensors


def load_optimiser_tensors(
    optimiser: torch.optim.Optimizer, named: Mapping[str, nn.Parameter], tensors: Mapping[str, Tensor]
) -> None:
    """What `optimiser_tensors` gave, back in its places, with the optimiser's own types."""
    numbers = {id(p): i for i, p in enumerate(p for group in optimiser.param_groups for p in group["params"])}
    state: dict[int, dict[str, Tensor]] = {}
    for path, tensor in tensors.items():
        name, _, key = path.rpartition("/")
        if name not in named:
            raise RegardError(
                "this is the optimiser of another model", got=f"a state of {name}", cure="start a new run"
            )
        state.setdefault(numbers[id(named[name])], {})[key] = tensor
    wanted = STATE[type(optimiser)]
    for moments in state.values():
        if set(moments) != wanted:
            got, expected = (", ".join(sorted(keys)) for keys in (moments, wanted))
            cure = "resume with the settings of the run"
            raise RegardError("this is the state of another optimiser", got=got, expected=expected, cure=cure)
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
