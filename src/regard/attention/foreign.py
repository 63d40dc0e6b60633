"""Attention in models that are not ours: torch's fused functions, seen from outside while a block runs.

A `TorchFunctionMode` sees each call of `F.scaled_dot_product_attention` and `F.multi_head_attention_forward`, and the
layer stack says in which module it happens. Nothing in the model is changed.
"""

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from types import FrameType
from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.attention import fused
from regard.attention.fused_call import FusedCall, Memo, of_multi_head, of_sdpa
from regard.attention.host_copies import HostCopies
from regard.attention.layer_stack import (
    LayerStack,
    Running,
    attention_like,
    is_compiled,
    is_plain,
    listed,
    related,
)
from regard.attention.record import Record
from regard.base import RegardError
from regard.kernels.derivatives import transformed

SDPA, MULTI_HEAD = F.scaled_dot_product_attention, F.multi_head_attention_forward
CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
OURS = vars(fused)  # the names of the module whose functions call torch's for our own layers
NEAR = 12  # frames between a call of torch's function and the layer of ours that makes it: other traces, type checks
CURE = (
    "flex_attention, flash-attn, compiled code and CUDA graphs bypass the functions that a trace sees. Try:"
    " attn_implementation='sdpa' (or 'eager') in transformers, torch.compiler.set_stance('force_eager') around a"
    " compiled model, F.scaled_dot_product_attention in code of your own."
)


@runtime_checkable
class Receiver(Protocol):
    """What gets the calls: a trace."""

    _met: set[str]  # names of all layers that attended, whether they were asked for or not

    @property
    def _is_open(self) -> bool:
        """Whether it records what runs now."""
        ...

    def _wants(self, module: str) -> bool:
        """Whether the weights of this layer are asked for."""
        ...

    def _chosen(self, num_queries: int, num_heads: int | None) -> tuple[list[int] | None, list[int] | None]:
        """Rows and heads of a call that are asked for and are there."""
        ...

    def _record(
        self,
        module: str,
        heads: bool,
        queries: list[int] | None,
        *,
        head_numbers: list[int] | None = None,
        key_heads: list[int] | None = None,
    ) -> Record:
        """The record of this layer."""
        ...

    def _forget(self, name: str) -> None:
        """Drop a record that turned out to be empty."""
        ...


class FusedCalls(TorchFunctionMode):
    """Hands each call of fused attention that a model makes to `handle(function, call maker, arguments)`."""

    def __init__(self, handle: Callable[..., Any], *, own: bool = False) -> None:
        super().__init__()
        self.handle, self.own = handle, own

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the function as it is, or let `handle` do it; all functions of torch come here."""
        if func is not SDPA and func is not MULTI_HEAD:
            return func(*args) if kwargs is None else func(*args, **kwargs)
        kwargs = {} if kwargs is None else kwargs
        if torch.compiler.is_compiling() or (not self.own and _is_ours(sys._getframe(1))):
            return func(*args, **kwargs)
        return self.handle(func, of_sdpa if func is SDPA else of_multi_head, args, kwargs)


class ForeignWatch:
    """The calls of fused attention in a model, handed to a trace while the block runs."""

    def __init__(self, modules: Mapping[str, nn.Module], receiver: Receiver) -> None:
        self.receiver, self.copies = receiver, HostCopies()
        self.unseen: dict[str, str] = {}  # attention-like modules without a record, and why
        self.stack = LayerStack(modules, self._returned)
        self._attention = attention_like(modules)
        self._memo: Memo = {}
        self._lengths: dict[str, int] = {}  # how many queries each layer with a sliding window has had
        self._slides: dict[str, bool] = {}  # whether a layer has a sliding window
        self._candidates: list[tuple[str, Record, bool, int, list[NDArray[Any]]]] = []
        self._resources = ExitStack()

    def __enter__(self) -> "ForeignWatch":
        with ExitStack() as resources:
            resources.enter_context(self.stack)
            resources.enter_context(without_fast_path())
            self.stack.mode = resources.enter_context(FusedCalls(self._fused))
            self._resources = resources.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._resources.__exit__(*error)
        self._memo.clear()

    def settle(self) -> None:
        """Wait for the numbers that are still on their way, and look which of them are weights."""
        self.copies.wait()
        for name, record, training, start, arrays in self._candidates:
            sums = [float(array.sum(-1).mean()) if array.size else 1.0 for array in arrays]
            likely = [each for each in range(len(arrays)) if sums[each] > 0 and _are_weights(arrays[each], training)]
            if likely:
                add_call(record, arrays[max(likely, key=sums.__getitem__)], start)
            else:
                self.receiver._met.discard(name)
                if not record.calls:
                    self.receiver._forget(name)
        self._candidates.clear()

    def look_back(self) -> None:
        """Count the attention modules that ran without being seen, and warn if there are any."""
        self.settle()
        compiled = [name for name, module in self.stack.modules.items() if is_compiled(module)]
        met = {*self.receiver._met, *self.unseen}
        root = next(iter(self.stack.modules))
        for name in [] if root in met else self._attention:
            inside = [outer for outer in compiled if outer == root or related(name, outer)]
            if name not in self.stack.ran and not inside and self.stack.ran:
                continue
            if not self.receiver._wants(name) or any(related(name, other) for other in met):
                continue
            reason = "it is compiled" if inside else "it attends by other functions"
            self.unseen[name] = reason if self.stack.ran else "no module that may attend ran in the block"
        innermost = [name for name in self.unseen if not any(other.startswith(f"{name}.") for other in self.unseen)]
        self.unseen = {name: self.unseen[name] for name in innermost}
        if self.unseen:
            reasons = ", ".join(sorted(set(self.unseen.values())))
            names = listed(self.unseen)
            text = f"a trace has no weights of {len(self.unseen)} attention modules ({reasons}): {names}. {CURE}"
            warnings.warn(text, UserWarning, stacklevel=5)

    def _fused(self, function: Any, make: Callable[..., FusedCall], args: Any, kwargs: Any) -> Any:
        """Run the call as it is; then make the weights that are asked for, apart from it."""
        result = function(*args, **kwargs)
        if not self.receiver._is_open or torch._C._current_graph_task_id() != -1:
            return result  # nobody looks, or a checkpoint computes its forward pass once more for a gradient
        name = self.stack.next_call(function.__name__)
        query: Tensor = args[0] if args else kwargs["query"]
        reason = _reason_against(query)
        if reason:
            self.unseen[name] = reason
            return result
        self.receiver._met.add(name)
        if self.receiver._wants(name):
            with torch.no_grad():
                call = make(*args, **kwargs)
                rows, heads = self.receiver._chosen(call.num_queries, call.num_heads)
                record = self.receiver._record(
                    name, call.has_heads, rows, head_numbers=heads, key_heads=call.key_heads(heads)
                )
                start = self._first_key(name, call.num_queries, call.keys.shape[-2])
                add_call(record, self.copies.send(call.weights(rows, heads, self._memo), is_new=True), start)
        return result

    def _first_key(self, name: str, num_queries: int, num_keys: int) -> int:
        """The place in the text of the first key of a call: a cache with a sliding window has dropped those before."""
        if name not in self._slides:
            module = self.stack.modules.get(name.partition(":")[0])
            windows = [getattr(each, "sliding_window", None) for each in (module, getattr(module, "config", None))]
            crosses = "cross" in f"{name}{type(module).__name__}".lower()
            self._slides[name] = not crosses and any(isinstance(window, int) for window in windows)
        if not self._slides[name]:
            return 0
        begins = num_queries == num_keys
        self._lengths[name] = num_queries + (0 if begins else self._lengths.get(name, 0))
        return max(0, self._lengths[name] - num_keys)

    def _returned(self, running: Running, output: Any) -> None:
        """Take the weights that an eager layer returns beside its context: a tensor [b h q k]."""
        name = running.name
        if running.seen or name not in self._attention or not isinstance(output, tuple):
            return
        if type(running.module).__module__.startswith("regard."):
            return  # which records itself
        tensors = [each for each in output[1:] if isinstance(each, Tensor) and each.ndim == 4]
        tensors = [each for each in tensors if each.is_floating_point() and not each.is_meta]
        if not tensors:
            return
        self.stack.mark()
        self.receiver._met.add(name)
        if self.receiver._wants(name):
            rows, heads = self.receiver._chosen(tensors[-1].shape[-2], tensors[-1].shape[-3])
            record = self.receiver._record(name, True, rows, head_numbers=heads)
            arrays = [self.copies.send(selected(tensor, rows, heads)) for tensor in tensors]
            start = self._first_key(name, *tensors[-1].shape[-2:])
            self._candidates.append((name, record, running.module.training, start, arrays))


class without_fast_path:  # noqa: N801 - used as a function
    """Torch's inference path of `nn.TransformerEncoder`, which no function mode can see, steps aside in the block."""

    def __enter__(self) -> None:
        self._before = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)

    def __exit__(self, *error: object) -> None:
        torch.backends.mha.set_fastpath_enabled(self._before)


def has_foreign_modules(modules: Mapping[str, nn.Module]) -> bool:
    """Whether one of these modules may attend by itself: one that is neither ours nor a plain layer of torch."""
    for module in modules.values():
        kind = type(module)
        if not (kind.__module__.startswith("regard.") or is_plain(module) or kind in CONTAINERS):
            return True
    return False


def add_call(record: Record, weights: NDArray[Any], start: int) -> None:
    """Add the weights of a call to a record; `start` is the place of its first key."""
    if start:
        record.starts[len(record.calls)] = start
    record.calls.append(weights)


def selected(weights: Tensor, rows: Sequence[int] | None, heads: Sequence[int] | None) -> Tensor:
    """The rows and heads of weights [*b h q k], or of all."""
    if rows is not None:
        weights = weights[..., list(rows), :]
    return weights if heads is None else weights[..., list(heads), :, :]


def _reason_against(query: Tensor) -> str | None:
    """Why the weights of a call cannot be made, though it was seen."""
    if query.is_meta:
        raise RegardError("a trace of meta tensors", got="tensors without numbers", cure="trace a call with real ones")
    if query.is_nested:
        return "its tensors are nested"
    if transformed():
        return "it runs inside of a transform of torch.func"
    return "a CUDA graph is being captured" if query.is_cuda and torch.cuda.is_current_stream_capturing() else None


def _are_weights(array: NDArray[Any], training: bool) -> bool:
    """Whether the rows look like weights: not below 0, with a sum of at most 1. Dropout makes some of them larger."""
    return bool((array >= 0).all() and (training or (array.sum(-1) < 1.02).all()))


def _is_ours(frame: FrameType | None) -> bool:
    """Whether a call of torch's function comes from our own layers, which record themselves."""
    for _ in range(NEAR):
        if frame is None or frame.f_globals is OURS:
            break
        frame = frame.f_back
    else:
        return False
    return frame is not None
