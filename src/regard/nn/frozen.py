"""A copy of a model for search alone: in evaluation, in any precision, and always in the same places of memory."""

import copy

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from regard.kernels.joined import side_by_side
from regard.nn.recurrent import in_one_buffer


class Frozen:
    """A copy of `model`, `frozen.model`, with its floating-point numbers in `dtype`; `refresh` brings it up to date.

    Weights that are computed from others, as by weight normalisation, are plain ones in the copy: they are computed
    when it is refreshed, not at every step. Recorded graphs read the copy: the model may be trained or moved between.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype | None = None) -> None:
        self.model = copy.deepcopy(model).requires_grad_(False).eval()
        for module in self.model.modules():
            if parametrize.is_parametrized(module):
                _settle(module)
        if dtype is not None:
            self.model.to(dtype)
        _lay_side_by_side(self.model)
        for module in self.model.modules():
            if isinstance(module, nn.RNNBase):
                _flatten(module)
        self._here = _tensors(self.model)

    @torch.no_grad()
    def refresh(self, model: nn.Module) -> None:
        """Copies the numbers of the model as they are now."""
        modules = dict(model.named_modules())
        here, there = [], []
        for (path, name), tensor in self._here.items():
            here.append(tensor)
            there.append(getattr(modules[path], name).detach())
        torch._foreach_copy_(here, there)


def _lay_side_by_side(model: nn.Module) -> None:
    """Gives the weights places side by side, so that layers with one input are one product; see kernels/small.py."""
    kinds: dict[tuple[torch.dtype, torch.device], list[nn.Parameter]] = {}
    for parameter in model.parameters():
        kinds.setdefault((parameter.dtype, parameter.device), []).append(parameter)
    for (dtype, _), parameters in kinds.items():
        for parameter, place in zip(parameters, side_by_side(parameters, dtype), strict=True):
            parameter.data = place


def _flatten(layers: nn.RNNBase) -> None:
    """Gives the weights of recurrent layers one storage, as cuDNN wants them: otherwise each call would copy them.

    Torch does that too, but leaves weights in bfloat16 where they are.
    """
    layers.flatten_parameters()
    alone = layers.num_layers == 1 and not layers.bidirectional and layers.proj_size == 0
    if alone and next(layers.parameters()).dtype == torch.bfloat16:
        weights = list(layers.parameters())  # of the input, of the state, then the biases: cuDNN's order
        for weight, place in zip(weights, in_one_buffer([weight.data for weight in weights]), strict=True):
            weight.data = place


def _settle(module: nn.Module) -> None:
    """Makes the parametrised tensors of a module plain ones; other modules of its class stay as they are."""
    names = list(module.parametrizations)  # type: ignore[arg-type]
    values = {name: getattr(module, name).detach().clone() for name in names}
    module.__class__ = type(module).__bases__[0]
    del module._modules["parametrizations"]
    for name, value in values.items():
        module.register_parameter(name, nn.Parameter(value, requires_grad=False))


def _tensors(model: nn.Module) -> dict[tuple[str, str], Tensor]:
    """Every parameter and buffer once, by the path of its module and its name."""
    found: dict[int, tuple[tuple[str, str], Tensor]] = {}
    for path, module in model.named_modules():
        for name, tensor in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]:
            found.setdefault(id(tensor), ((path, name), tensor))
    return dict(found.values())
