"""Interventions: other weights in some layers and heads of any model, while a block runs.

with intervene(model, "encoder.layers.3.*", switch_off, heads=[2]):
    model(batch)
"""

import fnmatch
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.foreign import SDPA, FusedCalls, without_fast_path
from regard.attention.fused_call import FusedCall
from regard.attention.layer_stack import LayerStack, attention_like, listed, modules_of, related
from regard.attention.record import Record
from regard.attention.trace_checks import check_layers
from regard.base import ConfigError, RegardError, ShapeError


class Place(NamedTuple):
    """Where an intervention happens."""

    name: str  # of the layer
    heads: list[int] | None  # the numbers of the heads whose weights are changed; None: the layer has no axis of heads
    allowed: Tensor | None  # which keys each query may see, a tensor that broadcasts to the weights; None: all
    call: int  # how many calls of this layer were changed before


class Change:
    """An intervention that must know where it happens: a subclass has `change(weights, place)`."""

    def change(self, weights: Tensor, place: Place) -> Tensor:
        """The weights [*b h q k] to use instead."""
        raise NotImplementedError(f"{type(self).__name__} must define change(weights, place)")


def switch_off(weights: Tensor) -> Tensor:
    """Weights of zero: the head gives nothing to the output projection.

    >>> switch_off(torch.tensor([[0.25, 0.75]]))
    tensor([[0., 0.]])
    """
    return torch.zeros_like(weights)


def forbid_keys(keys: Sequence[int]) -> Callable[[Tensor], Tensor]:
    """An intervention after which nobody attends to these keys: what the others have is scaled up to the same sum.

    A row that has weights on forbidden keys alone becomes zero. Negative numbers count from the last key.

    >>> forbid_keys([0])(torch.tensor([[0.5, 0.25, 0.25]]))
    tensor([[0.0000, 0.5000, 0.5000]])
    """
    numbers = [int(key) for key in keys]

    def change(weights: Tensor) -> Tensor:
        num_keys = weights.shape[-1]
        missing = [number for number in numbers if not -num_keys <= number < num_keys]
        if missing:
            raise ConfigError("forbid_keys", got=missing, expected=f"numbers from {-num_keys} to {num_keys - 1}")
        kept = torch.ones(num_keys, dtype=weights.dtype, device=weights.device)
        kept[numbers] = 0.0
        rest = weights * kept
        share = rest.sum(-1, keepdim=True)
        factor = weights.sum(-1, keepdim=True) / torch.where(share > 0, share, torch.ones_like(share))
        return rest * factor

    return change


class MakeUniform(Change):
    """Every query attends to all keys that it may see alike."""

    def change(self, weights: Tensor, place: Place) -> Tensor:
        """One divided by the number of keys that a query may see; zeros in a row that sees none."""
        seen = torch.ones_like(weights) if place.allowed is None else place.allowed.expand_as(weights).to(weights.dtype)
        return seen / seen.sum(-1, keepdim=True).clamp(min=1.0)


class TakeWeights(Change):
    """The weights that a trace has of the same layers, such as those of another input of the same length.

    Where a layer runs several times, each call takes those of its own number; a trace of one call serves all. A trace
    of one text serves every text of a batch.
    """

    def __init__(self, seen: Mapping[str, Record]) -> None:
        self.seen = seen

    def change(self, weights: Tensor, place: Place) -> Tensor:
        """The weights of the trace for this layer, call and these heads."""
        record = self.seen.get(place.name)
        if record is None or not record.calls:
            raise ConfigError("the trace has no weights of this layer", got=place.name, expected=listed(self.seen))
        call = 0 if len(record.calls) == 1 else place.call
        known = record.calls[call] if call < len(record.calls) else record.calls[0][..., :0, :]
        if place.heads is not None and record.heads:
            numbers = range(known.shape[-3]) if record.head_numbers is None else record.head_numbers
            missing = [head for head in place.heads if head not in numbers]
            if missing:
                raise ConfigError(f"the trace of {place.name} has no such heads", got=missing, expected=list(numbers))
            known = known[..., [list(numbers).index(head) for head in place.heads], :, :]
        other = torch.as_tensor(known, dtype=weights.dtype, device=weights.device)
        try:
            return other.expand(weights.shape)
        except RuntimeError as error:
            raise ShapeError(
                f"the weights that the trace has of {place.name} do not fit",
                got=list(other.shape),
                expected=list(weights.shape),
                cure="trace an input of the same length, all of its rows",
            ) from error


@contextmanager
def intervene(
    model: nn.Module,
    layers: str,
    change: Callable[[Tensor], Tensor] | Change,
    *,
    heads: Sequence[int] | None = None,
) -> Iterator[None]:
    """Attention of the layers that match uses the weights `change(weights)`, while the block runs, in this thread.

    `layers` is a pattern for names of `named_modules`, as in `trace`. `heads` chooses heads; the others, and all other
    layers, compute what they always do. `change` gets weights [*b h q k] of the chosen heads, before dropout, and
    gives weights of the same shape: `switch_off`, `forbid_keys(…)`, `MakeUniform()`, `TakeWeights(seen)`, or any
    function. Gradients go through it. Interventions may be nested. A trace shows the weights before the change.

    Layers that attend by torch's fused functions can be changed; an error at the end of the block names a layer that
    matches and attended in another way. Nothing stays in the model, also if it raises.

    >>> layer = nn.MultiheadAttention(4, 2, batch_first=True)
    >>> with torch.no_grad(), intervene(layer, "*", switch_off):
    ...     context, _ = layer(*[torch.randn(1, 3, 4)] * 3)
    >>> torch.equal(context, layer.out_proj.bias.expand(1, 3, 4))
    True
    """
    if not isinstance(model, nn.Module):
        raise ConfigError("intervene takes a model", got=type(model).__name__, expected="a torch.nn.Module")
    if not isinstance(change, Change) and not callable(change):
        raise ConfigError("the change of an intervention", got=repr(change), expected="a function of weights")
    modules = modules_of(model)
    check_layers(modules, layers)
    changes = _Changes(LayerStack(modules), layers, change, heads)
    with changes.stack, without_fast_path(), FusedCalls(changes.run, own=True) as changes.stack.mode:
        yield
        ran = set(changes.stack.ran)
    changes.check(ran)


class _Changes:
    """Runs the calls of the layers that match with other weights."""

    def __init__(
        self,
        stack: LayerStack,
        layers: str,
        change: Callable[[Tensor], Tensor] | Change,
        heads: Sequence[int] | None,
    ) -> None:
        self.stack, self.layers, self.change, self.heads = stack, layers, change, heads
        self.met: set[str] = set()
        self.counts: dict[str, int] = {}
        self.most_heads = 0

    def run(self, function: Any, make: Callable[..., FusedCall], args: Any, kwargs: Any) -> Any:
        """One call: as it is where the layer does not match."""
        name = self.stack.next_call(function.__name__)
        self.met.add(name)
        if not fnmatch.fnmatchcase(name, self.layers):
            return function(*args, **kwargs)
        call = make(*args, **kwargs)
        heads = self._chosen(call.num_heads)
        place = Place(name, heads, call.allowed(heads), self.counts.get(name, 0))
        self.counts[name] = place.call + 1
        everything = function is not SDPA or heads is None or len(set(heads)) == call.num_heads
        watched = torch._C._len_torch_function_stack() > 0  # a trace around this block wants to see the call too
        context = function(*args, **kwargs) if watched or not everything else None
        if function is not SDPA:
            return self._multi_head(call, place, kwargs, *args)
        if context is None or everything:
            return call.context(self._changed(call.whole_weights(), place))
        if not heads:
            return context
        changed = call.context(self._changed(call.whole_weights(heads), place), heads)
        numbers = torch.tensor(heads, device=context.device)
        return context.index_copy(-3, numbers, changed.to(context.dtype))

    def check(self, ran: set[str]) -> None:
        """An error if a layer that matches was not changed, though it ran."""
        others = [
            name
            for name in attention_like(self.stack.modules)
            if name in ran
            and fnmatch.fnmatchcase(name, self.layers)
            and not any(related(name, one) for one in self.met)
        ]
        if others:
            raise RegardError(
                "these layers attend in a way that cannot be changed",
                got=listed(others),
                expected="F.scaled_dot_product_attention or F.multi_head_attention_forward",
                cure="use attn_implementation='sdpa' in transformers, impl='sdpa' in layers of regard",
            )
        if ran and not self.counts:
            names = listed(sorted(self.met)) or "none: the model attends nowhere"
            raise ConfigError("no layer has this name", got=repr(self.layers), expected=f"a pattern for {names}")
        most = self.most_heads
        missing = [head for head in self.heads or () if not -most <= head < most]
        if ran and missing:
            raise ConfigError(
                "no layer has these heads",
                got=missing,
                expected=f"numbers from {-most} to {most - 1}, in {self.layers}",
            )

    def _chosen(self, num_heads: int | None) -> list[int] | None:
        if num_heads is None:
            return None
        self.most_heads = max(self.most_heads, num_heads)
        asked = range(num_heads) if self.heads is None else self.heads
        return sorted({int(head) % num_heads for head in asked if -num_heads <= head < num_heads})

    def _changed(self, weights: Tensor, place: Place) -> Tensor:
        change = self.change
        result = change.change(weights, place) if isinstance(change, Change) else change(weights)
        if not isinstance(result, Tensor) or result.shape != weights.shape:
            got = list(result.shape) if isinstance(result, Tensor) else type(result).__name__
            raise ShapeError(f"the changed weights of {place.name}", got=got, expected=list(weights.shape))
        return result.to(weights.dtype)

    def _multi_head(
        self, call: FusedCall, place: Place, options: Mapping[str, Any], *args: Any
    ) -> tuple[Tensor, Tensor | None]:
        """What `F.multi_head_attention_forward` returns, from the changed weights."""
        query, out_weight, out_bias = args[0], args[11], args[12]
        weights = call.whole_weights(None)
        if place.heads:
            numbers = torch.tensor(place.heads, device=weights.device)
            weights = weights.index_copy(-3, numbers, self._changed(weights.index_select(-3, numbers), place))
        context = call.context(weights).transpose(-2, -3).flatten(-2)  # [b h q d] → [b q (h d)]
        result = F.linear(context, out_weight, out_bias)
        result = result.transpose(0, 1) if query.ndim == 3 else result
        if not options.get("need_weights", True):
            return result, None
        weights = weights.to(query.dtype)
        return result, weights.mean(-3) if options.get("average_attn_weights", True) else weights
