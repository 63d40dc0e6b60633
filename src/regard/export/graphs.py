"""Models as graphs of ONNX: the tensors of a state with their names and axes, and the recording of a graph.

A state is any nest of tensors (see `regard.decode.protocol`). Here it becomes a list of named tensors. Which axes of
them grow with the batch, the source, or the words that were written is measured: the model runs on examples of
different sizes, and the axes that differ are dynamic.
"""

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from regard.base import RegardError, first_line
from regard.export.recurrent import OPSET, RecurrentAsOnnx

Axes = tuple[str | int, ...]  # of a tensor: a name for what may have any size, or the size


class Place(NamedTuple):
    """A tensor of a state: its name, as `caches.0.keys`, and its number among the leaves of the nest."""

    name: str
    number: int


@dataclass(frozen=True)
class StateLayout:
    """How a nested state becomes named tensors, and how they become the state again."""

    spec: Any
    constants: tuple[Any, ...]  # the leaves that are not tensors, each at its number; None where there is a tensor
    places: tuple[Place, ...]

    @classmethod
    def of(cls, state: Any) -> "StateLayout":
        """The layout of a state before the first word; whole numbers in it become tensors, as they may count steps."""
        with_paths, spec = pytree.tree_flatten_with_path(state)
        places, constants = [], []
        for number, (path, leaf) in enumerate(with_paths):
            counts = isinstance(leaf, int) and not isinstance(leaf, bool)
            if isinstance(leaf, Tensor) or counts:
                places.append(Place(_name(path), number))
            constants.append(None if isinstance(leaf, Tensor) or counts else leaf)
        return cls(spec, tuple(constants), tuple(places))

    def tensors(self, state: Any) -> list[Tensor]:
        """The tensors of a state in the order of `places`."""
        leaves = pytree.tree_leaves(state)
        return [torch.as_tensor(leaves[place.number]) for place in self.places]

    def state(self, tensors: Sequence[Tensor]) -> Any:
        """The state that has these tensors."""
        leaves = list(self.constants)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place.number] = tensor
        return pytree.tree_unflatten(leaves, self.spec)


class Named(NamedTuple):
    """An input or an output of a graph, as the JSON beside it says it."""

    name: str
    type: str  # int64, float32 or bool
    axes: Axes

    def to_json(self) -> dict[str, Any]:
        """The name, the type and the axes by name."""
        return {"name": self.name, "type": self.type, "axes": list(self.axes)}


class Recorded(NamedTuple):
    """A graph that was written to a file."""

    inputs: list[Named]
    outputs: list[Named]


class _Called(nn.Module):
    """Wraps a function of tensors around a module, so that torch.export sees the parameters of the module."""

    def __init__(self, module: nn.Module, function: Callable[..., Sequence[Tensor]]) -> None:
        super().__init__()
        self.module, self.function = module, function

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The tensors that the function gives; none of them is an input, and none is there twice."""
        with RecurrentAsOnnx():
            outputs = self.function(*inputs)
        known, fresh = {id(each) for each in inputs}, []
        for each in outputs:
            fresh.append(each.clone() if id(each) in known else each)
            known.add(id(each))
        return tuple(fresh)


def record(
    module: nn.Module,
    function: Callable[..., Sequence[Tensor]],
    inputs: Mapping[str, Tensor],
    input_axes: Sequence[Axes],
    outputs: Sequence[str],
    output_axes: Sequence[Axes],
    path: Path,
) -> Recorded:
    """Write the graph of `function`, which calls `module`, to an ONNX file.

    `inputs` are examples by name. Axes that have a name may have any size in the file. The sizes of the examples must
    be two or more there, and different for axes of different names: torch.export takes equal sizes for equal axes.
    """
    dynamic = tuple({number: axis for number, axis in enumerate(axes) if isinstance(axis, str)} for axes in input_axes)
    marks = tuple(dict.fromkeys(axes, torch.export.Dim.AUTO) for axes in dynamic)
    wrapped = _Called(module, function).eval()
    try:
        with _quiet(), torch.no_grad():
            results = function(*inputs.values())
            program = torch.export.export(wrapped, tuple(inputs.values()), dynamic_shapes=(marks,), strict=False)
            _check_dynamic(program, dynamic)
            written = torch.onnx.export(
                program, (), input_names=list(inputs), output_names=list(outputs), opset_version=OPSET,
                dynamo=True, verbose=False, optimize=True,
            )  # fmt: skip
            assert written is not None
            _forget_origin(written.model.graph)
            written.save(str(path))
    except RegardError:
        raise
    except Exception as error:  # torch and onnx raise errors of many kinds
        cure = "export a run whose score and alignment are those of the paper"
        raise RegardError("torch cannot export this model", got=first_line(error), cure=cure) from error
    return Recorded(
        [Named(name, _type(tensor), axes) for (name, tensor), axes in zip(inputs.items(), input_axes, strict=True)],
        [Named(name, _type(tensor), axes) for name, tensor, axes in zip(outputs, results, output_axes, strict=True)],
    )


def measured_axes(make: Callable[[int, int, int], Sequence[Tensor]]) -> list[Axes]:
    """The axes of tensors that `make(batch, source, written)` gives: `batch`, `source`, `written`, or a number.

    >>> measured_axes(lambda batch, source, written: [torch.zeros(batch, 4, source), torch.zeros(written)])
    [('batch', 4, 'source'), ('written',)]
    """
    base = (2, 5, 3)
    shapes = [tensor.shape for tensor in make(*base)]
    axes: list[list[str | int]] = [list(shape) for shape in shapes]
    for number, name in enumerate(("batch", "source", "written")):
        sizes = [size + 4 if place == number else size for place, size in enumerate(base)]
        for own, before, after in zip(axes, shapes, make(*sizes), strict=True):
            for place, (one, other) in enumerate(zip(before, after.shape, strict=True)):
                if one != other:
                    own[place] = name
    return [tuple(own) for own in axes]


def _check_dynamic(program: Any, dynamic: Sequence[Mapping[int, str]]) -> None:
    """An error where torch.export made an axis that should be dynamic constant."""
    examples = [node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"]
    users = examples[len(examples) - len(dynamic) :]
    for tensor, axes in zip(users, dynamic, strict=True):
        for number, name in axes.items():
            size = tensor.shape[number]
            if isinstance(size, int) or size.node.expr.is_number:
                cure = "export a run whose score and alignment are those of the paper"
                raise RegardError(f"torch.export fixed the axis {name!r}", got=int(size), cure=cure)


def _forget_origin(graph: Any) -> None:
    """Takes away where each operation came from: lines of Python, with the paths of this machine."""
    for node in graph.all_nodes():
        node.metadata_props.clear()
        for value in node.outputs:
            value.metadata_props.clear()


def _name(path: Sequence[Any]) -> str:
    """A path into a nest as words and numbers: `upper.0.hidden`. What is `Shared` or `Prepared` adds no word."""
    words = [str(getattr(key, "name", getattr(key, "idx", getattr(key, "key", "")))) for key in path]
    kept = [word for number, word in enumerate(words) if word != "value" and (number == 0 or word != words[number - 1])]
    return ".".join(kept)


def _type(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporters of torch print and warn of their own inner matters; errors are still raised."""
    loggers = [
        logging.getLogger(name) for name in ("torch.onnx", "torch.export", "torch.__trace", "onnxscript", "onnx_ir")
    ]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
