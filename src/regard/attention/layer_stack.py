"""Which module of a model is running just now: forward hooks keep a stack of names, and are taken away afterwards."""

import inspect
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import nn, overrides
from torch.overrides import TorchFunctionMode

LIKE_ATTENTION = re.compile(r"attention|attn", re.IGNORECASE)
NUMBERS_ONLY = set(
    re.findall(
        r"\w+",
        "torch nn functional F silu gelu dtype device shape float32 to float type_as pow square sqrt rsqrt mean var sum"
        " abs add sub mul div exp log tanh sigmoid relu clamp reshape view flatten transpose permute unsqueeze squeeze",
    )
)  # what a forward pass may read of tensors and of torch that is no attention
ATTENTION_NAMES = {"attn", "attention", "self_attn", "cross_attn", "self_attention", "cross_attention", "encoder_attn"}
NOT_ATTENTION = re.compile(r"(norm|dropout|linear|embeddings?|mask|bias|output|mlp|identity)\d*d?$", re.IGNORECASE)


@dataclass
class Running:
    """One call of a module that has not ended yet."""

    name: str
    module: nn.Module
    calls: int = 0  # calls of fused attention in it so far, not counting those of its submodules
    seen: bool = False  # whether attention was seen in it, or in one of its submodules
    modes: list[Any] | None = None  # the function modes to bring back when it ends


class LayerStack:
    """The modules of a model that are running in this thread, the innermost one last.

    `finished(running, output)` is called when a module returns. Plain layers of torch, such as `nn.Linear`, cannot
    attend, and are left alone, as are modules whose code shows that they cannot either: most norms and feed-forward
    layers. Nothing stays in the model after the block, also if it raises.

    Inside of a compiled module nothing is seen: it has no hooks, and `mode`, if there is one, is taken off meanwhile,
    so that it is neither compiled anew nor compiled together with the mode.
    """

    def __init__(
        self, modules: Mapping[str, nn.Module], finished: Callable[[Running, Any], None] | None = None
    ) -> None:
        self.modules = modules
        self.running: list[Running] = []
        self.ran: set[str] = set()  # names of modules that began to run
        self.mode: TorchFunctionMode | None = None
        self._finished = finished
        self._thread = 0
        compiled = [name for name, module in modules.items() if is_compiled(module)]
        self._compiled = [] if _is_forced_eager() else compiled
        self._resources = ExitStack()

    def __enter__(self) -> "LayerStack":
        self._thread = threading.get_ident()
        root = next(iter(self.modules))
        with ExitStack() as resources:
            for name, module in self.modules.items():
                inside = any(name.startswith(f"{each}.") or each == root != name for each in self._compiled)
                if inside or is_plain(module) or isinstance(module, torch.jit.ScriptModule):
                    continue
                if name != root and name not in self._compiled and not self._may_attend(name, module):
                    continue
                if getattr(module, "_compiled_call_impl", None) is not None and name in self._compiled:
                    resources.enter_context(self._suspending_call(name, module))
                    continue
                for handle in (
                    module.register_forward_pre_hook(self._begin(name), prepend=True),
                    module.register_forward_hook(self._end, always_call=True),
                ):
                    resources.callback(handle.remove)
            self._resources = resources.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._resources.close()
        self.running.clear()
        self.mode = self._finished = None  # which hold this stack: nothing waits for the garbage collector

    def mark(self) -> None:
        """Attention was seen in the modules that are running."""
        for running in self.running:
            running.seen = True

    def next_call(self, function: str) -> str:
        """The name of the call of fused attention that happens now; `function` names it where no module is running.

        A module that attends more than once in one pass has `name`, `name:1`, `name:2`.
        """
        self.mark()
        if not self.running:
            return function
        innermost = self.running[-1]
        innermost.calls += 1
        return innermost.name if innermost.calls == 1 else f"{innermost.name}:{innermost.calls - 1}"

    @staticmethod
    def _may_attend(name: str, module: nn.Module) -> bool:
        kind = type(module)
        if kind in (nn.ModuleList, nn.ModuleDict):
            return False  # which nobody can call
        return _is_called_attention(kind.__name__, name.rpartition(".")[2]) or not only_computes(module)

    def _begin(self, name: str) -> Callable[[nn.Module, Any], None]:
        def begin(module: nn.Module, inputs: Any) -> None:
            if torch.compiler.is_compiling() or threading.get_ident() != self._thread:
                return
            self.ran.add(name)
            mode = self.mode if name in self._compiled else None
            self.running.append(Running(name, module, modes=None if mode is None else _take_off(mode)))

        return begin

    def _end(self, module: nn.Module, inputs: Any, output: Any) -> None:
        if torch.compiler.is_compiling() or threading.get_ident() != self._thread:
            return
        while self.running:
            running = self.running.pop()
            if running.modes is not None:
                _set_modes(running.modes)
            if running.module is module:
                if self._finished is not None and output is not None:
                    self._finished(running, output)
                return

    @contextmanager
    def _suspending_call(self, name: str, module: nn.Module) -> Iterator[None]:
        """A module that `module.compile()` has compiled runs with its hooks: the mode is taken off around all of it."""
        compiled: Any = module._compiled_call_impl

        def call(*args: Any, **kwargs: Any) -> Any:
            if self.mode is None or threading.get_ident() != self._thread:
                return compiled(*args, **kwargs)
            self.ran.add(name)
            modes = _take_off(self.mode)
            try:
                return compiled(*args, **kwargs)
            finally:
                _set_modes(modes)

        module._compiled_call_impl = call
        try:
            yield
        finally:
            module._compiled_call_impl = compiled


def _take_off(mode: TorchFunctionMode) -> list[Any]:
    """Take a mode off the stack of function modes; the stack as it was before."""
    before: list[Any] = overrides._get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    _set_modes([each for each in before if each is not mode])
    return before


def _set_modes(modes: list[Any]) -> None:
    while torch._C._len_torch_function_stack():
        overrides._pop_mode()  # type: ignore[no-untyped-call]
    for mode in modes:
        overrides._push_mode(mode)  # type: ignore[no-untyped-call]


def _is_forced_eager() -> bool:
    """Whether `torch.compiler.set_stance("force_eager")` holds: compiled modules then run as they were written."""
    dynamo = sys.modules.get("torch._dynamo.eval_frame")
    return dynamo is not None and dynamo._stance.stance == "force_eager"


def modules_of(model: nn.Module) -> dict[str, nn.Module]:
    """The modules of a model as `named_modules` names them; the model itself bears the name of its class.

    >>> list(modules_of(nn.Sequential(nn.ReLU())))
    ['sequential', '0']
    """
    return {name or type(module).__name__.lower(): module for name, module in model.named_modules()}


def attention_like(modules: Mapping[str, nn.Module]) -> dict[str, nn.Module]:
    """The modules whose class, or whose place in the model, is called attention; by name, outer ones first.

    >>> list(attention_like(modules_of(nn.TransformerEncoderLayer(4, 2))))
    ['self_attn']
    """
    return {
        name: module
        for name, module in modules.items()
        if _is_called_attention(type(module).__name__, name.rpartition(".")[2])
        and not isinstance(module, nn.ModuleList | nn.ModuleDict)
    }


@cache
def _is_called_attention(kind: str, place: str) -> bool:
    is_one = LIKE_ATTENTION.search(kind) is not None or place in ATTENTION_NAMES
    return is_one and NOT_ATTENTION.search(kind) is None


def is_plain(module: nn.Module) -> bool:
    """Whether this is a layer of torch that has nothing inside and does not attend, such as `nn.Linear`."""
    kind = type(module)
    at_home = kind.__module__.startswith("torch.nn.modules.") and not module._modules
    return at_home and not kind.__name__.startswith(("Transformer", "MultiheadAttention"))


def only_computes(module: nn.Module) -> bool:
    """Whether the code of a module shows that it does not attend by itself, whatever its submodules do.

    Its forward pass takes one argument, and reads nothing but its submodules, parameters and numbers, and functions of
    `NUMBERS_ONLY`. Any other name means that it may attend.

    >>> only_computes(nn.ReLU()), only_computes(nn.TransformerEncoderLayer(4, 2))
    (True, False)
    """
    kind: Any = type(module)
    names = _names_read(kind)
    has_more = "forward" in module.__dict__ or module._forward_hooks or module._forward_pre_hooks
    if names is None or has_more:
        return False
    own = module.__dict__
    return all(
        name in module._modules
        or name in module._parameters
        or name in module._buffers
        or (isinstance(own[name], int | float | torch.dtype | None) if name in own else name in NUMBERS_ONLY)
        for name in names
    )


@cache
def _names_read(kind: type[nn.Module]) -> frozenset[str] | None:
    """The names that the forward pass of a class reads; None where its code does not tell all."""
    forward: Any = kind.forward
    plain = (kind.__call__, kind.__getattr__) == (nn.Module.__call__, nn.Module.__getattr__)
    if not plain or not isinstance(forward, FunctionType) or hasattr(forward, "__wrapped__"):
        return None
    code = forward.__code__
    flags = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    inner = code.co_freevars or any(isinstance(constant, CodeType) for constant in code.co_consts)
    if code.co_argcount != 2 or code.co_kwonlyargcount or flags or inner:
        return None
    for name in code.co_names:
        here = forward.__globals__.get(name, torch)
        if not (here is torch or here is nn or here is nn.functional) or getattr(kind, name, None) is not getattr(
            nn.Module, name, None
        ):
            return None  # a function, or a method or property of its own
    return frozenset(code.co_names)


def is_compiled(module: nn.Module) -> bool:
    """Whether this module runs through `torch.compile`."""
    return "_orig_mod" in module._modules or getattr(module, "_compiled_call_impl", None) is not None


def related(name: str, other: str) -> bool:
    """Whether two names are of one module, or of a module and one of its submodules."""
    name, other = name.partition(":")[0], other.partition(":")[0]
    return name == other or name.startswith(f"{other}.") or other.startswith(f"{name}.")


def listed(names: Iterable[str], most: int = 8) -> str:
    """Names for an error: the first ones, and how many more there are."""
    known = list(names)
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(known[:most]) + more
