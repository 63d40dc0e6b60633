"""What the search asks of a model: one step, state in, state out. It knows nothing else of it."""

import copy
import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.base import ConfigError, RegardError, ShapeError

_PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device)


class Step(NamedTuple):
    """What a model says of n prefixes: the next token, the state after it, and where it looked."""

    logits: Tensor  # [n v]
    state: Any
    weights: Tensor | None = None  # [n k] over the source


class Shared(NamedTuple):
    """A part of a state that all prefixes of a sentence have in common, such as the encoder's output.

    Its tensors have a row for each of a sentences, not for each of n prefixes. Those of one sentence stand together,
    n / a each, so `x.view(a, -1, …)` brings them to it. Beams are reordered without a copy of what is shared.
    """

    value: Any


class InPlace(ABC):
    """A part of a state that belongs to the sentences, as `Shared`, and that every step writes into.

    A state that holds one can be used once: the step after it has changed it.
    """

    @abstractmethod
    def keep(self, sentences: Int[Tensor, " m"]) -> "InPlace":
        """What belongs to these sentences, in this order."""


@runtime_checkable
class Decodable(Protocol):
    """A model that goes one step: the last token of n prefixes and their state → `Step`.

    The state is any nest of named tuples, tuples, lists, dictionaries, dataclasses, tensors (first axis n), None, and
    plain numbers and strings, and `Shared` or `InPlace` where something belongs to a sentence and not to a prefix. It
    belongs to the caller; the first one comes from the model's own `init_state(memory)`.
    """

    def step(self, tokens: Int[Tensor, " n"], state: Any) -> Step:
        """Logits after `tokens`, the new state, and the weights over the source."""
        ...


@runtime_checkable
class Packable(Decodable, Protocol):
    """A model that has a packed form, whose steps are fewer and larger operations."""

    def packed(self) -> Any:
        """The model as it is now, to search with; a text with the reason where it cannot be packed."""
        ...


def pick(state: Any, index: Int[Tensor, " m"], *, sentences: Int[Tensor, " a"] | None = None) -> Any:
    """The state with the first axis of every tensor picked by `index`: beams are reordered and sentences dropped by it.

    Tensors without axes, numbers and strings are left as they are. What is `Shared` is picked by `sentences`, the
    numbers of those that stay; by `index` unless told, where each sentence has one prefix. So is what is `InPlace`.

    >>> pick({"hidden": torch.tensor([[1.0], [2.0]]), "layers": (None, 3)}, torch.tensor([1, 1, 0]))
    {'hidden': tensor([[2.],
            [2.],
            [1.]]), 'layers': (None, 3)}
    """

    def change(tensor: Tensor, shared: bool) -> Tensor:
        if not shared or sentences is None:
            return tensor.index_select(0, index.to(tensor.device))
        if len(sentences) == len(tensor):
            return tensor  # all stay
        return tensor.index_select(0, sentences.to(tensor.device))

    return mapped(state, change, in_place=lambda part: part.keep(index if sentences is None else sentences))


def tensors(state: Any) -> list[Tensor]:
    """Every tensor of a state that has a first axis."""
    return [tensor for tensor, _ in _parts(state)]


def _parts(state: Any) -> list[tuple[Tensor, bool]]:
    """Every tensor of a state that has a first axis, and whether it is shared."""
    leaves: list[tuple[Tensor, bool]] = []

    def see(tensor: Tensor, shared: bool) -> Tensor:
        leaves.append((tensor, shared))
        return tensor

    mapped(state, see)
    return leaves


def mapped(
    state: Any,
    change: Callable[[Tensor, bool], Tensor],
    shared: bool = False,
    *,
    numbers: bool = False,
    in_place: Callable[["InPlace"], "InPlace"] | None = None,
) -> Any:
    """The same nest, with every tensor changed that has a first axis; `change` hears whether it is shared.

    With `numbers`, tensors without axes are changed too. `in_place` changes what is `InPlace`, which stays unless told.
    """
    if isinstance(state, Tensor):
        return change(state, shared) if state.ndim or numbers else state
    if isinstance(state, _PLAIN):
        return state
    if isinstance(state, InPlace):
        return state if in_place is None else in_place(state)
    if isinstance(state, list | tuple):
        parts = [
            mapped(item, change, shared or isinstance(state, Shared), numbers=numbers, in_place=in_place)
            for item in state
        ]
        return type(state)(*parts) if hasattr(state, "_fields") else type(state)(parts)
    if isinstance(state, dict):
        same = copy.copy(state)
        same.update(
            {name: mapped(item, change, shared, numbers=numbers, in_place=in_place) for name, item in state.items()}
        )
        return same
    if dataclasses.is_dataclass(state) and not isinstance(state, type):
        fresh = copy.copy(state)
        for field in dataclasses.fields(state):
            value = mapped(getattr(state, field.name), change, shared, numbers=numbers, in_place=in_place)
            object.__setattr__(fresh, field.name, value)  # frozen ones too
        return fresh
    raise RegardError(
        "a decoding state holds something that cannot be picked along its first axis",
        got=type(state).__name__,
        expected="tensors, named tuples, tuples, lists, dictionaries, dataclasses, numbers, strings, None",
        cure="keep it in the model",
    )


# ── what every search shares ────────────────────────────────────────────────────────────────────────────────────────


class Start(NamedTuple):
    """Where every search begins, checked."""

    tokens: Tensor  # [b] all BOS
    max_steps: Tensor  # [b]


def start(model: Decodable, state: Any, *, batch: int, bos: int, max_steps: int | Tensor, min_steps: int = 0) -> Start:
    """The first tokens, and the last step of each sentence, on the device of the state."""
    if not isinstance(model, Decodable):
        raise ConfigError("the model cannot be decoded", got=type(model).__name__, expected="step(tokens, state)")
    _check_state(state, batch, batch)
    device = next((tensor.device for tensor in tensors(state)), torch.device("cpu"))
    last = torch.as_tensor(max_steps, device=device)
    if last.shape not in ((), (batch,)):
        raise ShapeError("max_steps", got=list(last.shape), expected=f"one number, or one for each sentence: [{batch}]")
    if (last < 1).any():
        cure = "write max_steps.clamp(min=1)" if isinstance(max_steps, Tensor) else None
        raise ConfigError("max_steps", got=int(last.min()), expected="1 or more", cure=cure)
    if isinstance(max_steps, int) and min_steps > max_steps:
        raise ConfigError("min_steps", got=min_steps, expected=f"at most max_steps, which is {max_steps}")
    return Start(torch.full((batch,), bos, device=device), last.expand(batch))


def checked_step(
    model: Decodable, tokens: Int[Tensor, " n"], state: Any, *, eos: int, sentences: int | None = None
) -> Step:
    """One step, checked: logits [n v] in float32 or better, the state, the weights.

    The n prefixes are of as many sentences unless told.
    """
    logits, state, weights = model.step(tokens, state)
    rows = tokens.shape[0]
    if logits.ndim != 2 or logits.shape[0] != rows:
        raise ShapeError("logits of a step", got=list(logits.shape), expected=f"[{rows} v]: one row for each token")
    if weights is not None and (weights.ndim != 2 or weights.shape[0] != rows):
        raise ShapeError(
            "weights of a step",
            got=list(weights.shape),
            expected=f"[{rows} k]: one row for each token",
            cure="take the mean over heads, or one of them",
        )
    if not 0 <= eos < logits.shape[1]:
        raise ConfigError("eos", got=eos, expected=f"a token of the vocabulary: 0 to {logits.shape[1] - 1}")
    _check_state(state, rows, rows if sentences is None else sentences)
    return Step(logits.to(torch.promote_types(logits.dtype, torch.float32)), state, weights)


def log_probs_of(logits: Float[Tensor, "n v"]) -> Float[Tensor, "n v"]:
    """The log-probabilities. A row whose logits are all −∞ stays −∞: there is no way on from there."""
    log_probs = logits.log_softmax(-1)
    if log_probs[:, 0].isnan().any():  # NaN and +∞ spoil the whole row, so do −∞ everywhere: one column tells
        log_probs = log_probs.masked_fill((logits == -math.inf).all(-1, keepdim=True), -math.inf)
        if log_probs.isnan().any():
            cure = "look for NaN in the weights of the model"
            raise RegardError("the logits of a step are not numbers", got="NaN or +∞", cure=cure)
    return log_probs


def advance(
    model: Decodable, tokens: Int[Tensor, " n"], state: Any, *, eos: int
) -> tuple[Float[Tensor, "n v"], Any, Float[Tensor, "n k"] | None]:
    """One step of as many sentences, checked: log-probabilities [n v] in float32 or better, the state, the weights."""
    logits, state, weights = checked_step(model, tokens, state, eos=eos)
    return log_probs_of(logits), state, weights


def bar(log_probs: Float[Tensor, "n v"], tokens: Collection[int]) -> Float[Tensor, "n v"]:
    """−∞ for `tokens`, in place. The others keep the model's own log-probabilities: nothing is renormalised.

    >>> bar(torch.tensor([[-1.0, -2.0, -3.0]]), [0, 2])
    tensor([[-inf, -2., -inf]])
    """
    if not tokens:
        return log_probs
    size = log_probs.shape[1]
    if not all(0 <= token < size for token in tokens):
        raise ConfigError("forbidden tokens", got=sorted(tokens), expected=f"tokens of the vocabulary: 0 to {size - 1}")
    return log_probs.index_fill_(1, torch.tensor(sorted(tokens), device=log_probs.device), -math.inf)


def _check_state(state: Any, rows: int, sentences: int) -> None:
    for tensor, shared in _parts(state):
        if tensor.shape[0] != (sentences if shared else rows):
            raise ShapeError(
                "a tensor of the state has another first axis",
                got=list(tensor.shape),
                expected=f"[{sentences} …]: one row for each sentence, as it is Shared"
                if shared
                else f"[{rows} …]: one row for each prefix",
                cure="put the batch first; what is the same for all belongs to the model",
            )
