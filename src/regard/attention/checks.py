"""Checks of a call of attention: each error names what is wrong, what was got, and how to mend it."""

from typing import Any

import torch
from torch import Tensor, nn

from regard.align import Align
from regard.attention.fused import broadcast
from regard.attention.output import CallOptions
from regard.base import ConfigError, MaskError, ShapeError
from regard.score import Prepared, Score

LATEST = 1 << 62  # the largest step: times are numbers of 64 bits


def key_tensor(keys: Tensor | Prepared) -> Tensor:
    """The keys themselves, prepared or not."""
    return keys.keys if isinstance(keys, Prepared) else keys


def check_callable(role: str, chosen: Any, default: nn.Module) -> Any:
    """The score or the alignment of a caller (`role` says which), or the default for None."""
    if chosen is None:
        return default
    if isinstance(chosen, type):
        raise ConfigError(
            f"{role} must be an object, not a class", got=chosen.__name__, cure=f"write {chosen.__name__}(…)"
        )
    if isinstance(chosen, Align if role == "score" else Score):
        raise ConfigError(f"this is no {role}", got=type(chosen).__name__, cure="write Attention(score=…, align=…)")
    if not callable(chosen):
        raise ConfigError(f"{role} must be callable", got=repr(chosen), expected=f"an object such as {default}")
    return chosen


def check_call(query: Tensor, keys: Tensor | Prepared, values: Tensor, options: CallOptions) -> tuple[int, ...]:
    """The leading axes of the result, once everything fits."""
    raw_keys = key_tensor(keys)
    for name, tensor in (("query", query), ("keys", raw_keys), ("values", values)):
        if not isinstance(tensor, Tensor):
            raise ShapeError(f"{name} must be a tensor", got=type(tensor).__name__, expected="[..., items, width]")
        if tensor.ndim < 2:
            raise ShapeError(
                f"{name} needs an axis for its items and one for their width",
                got=list(tensor.shape),
                expected="[..., items, width]",
                cure=f"write {name}.unsqueeze(-2) to make one item of a vector",
            )
        if not tensor.is_floating_point():
            raise ShapeError(f"{name} must hold real numbers", got=tensor.dtype, cure=f"convert it: {name}.float()")
        if tensor.device != query.device:
            raise ShapeError(
                f"{name} and query are on different devices",
                got=f"{tensor.device} and {query.device}",
                expected="one",
                cure=f"move it: {name}.to(query.device)",
            )
    if query.ndim < max(raw_keys.ndim, values.ndim):
        raise ShapeError(
            "the query has fewer axes than keys or values",
            got=f"query {list(query.shape)}, keys {list(raw_keys.shape)}, values {list(values.shape)}",
            expected="as many",
            cure="write query.unsqueeze(-2) for one query of each state, or query[None] to share the queries",
        )
    if raw_keys.shape[-2] != values.shape[-2]:
        raise ShapeError(
            "keys and values differ in length",
            got=f"{raw_keys.shape[-2]} and {values.shape[-2]}",
            expected="one value for each key",
        )
    check_dropout(options.dropout)
    if isinstance(options.step, int) and abs(options.step) > LATEST:
        raise ConfigError("step", got=options.step, expected=f"the time of the first query, at most {LATEST}")
    lead = broadcast(query, raw_keys, values)
    if options.bias is not None:
        if options.bias.dtype == torch.bool:
            raise MaskError("a bias is added to the scores", got="torch.bool", cure="pass it as mask=")
        if options.bias.dtype.is_complex:
            raise ShapeError("a bias must hold real numbers", got=options.bias.dtype, cure="pass bias.real")
        if options.bias.device != query.device:
            got = f"{options.bias.device} and {query.device}"
            cure = "move it: bias.to(query.device)"
            raise ShapeError("bias and query are on different devices", got=got, expected="one", cure=cure)
        check_spreads("the bias does not fit the scores", options.bias, (*lead, query.shape[-2], values.shape[-2]))
    if options.previous is not None:
        wanted = (*lead, values.shape[-2])
        check_spreads("the previous weights do not fit the keys", options.previous, wanted, all_axes=True)
    return lead


def check_spreads(what: str, tensor: Tensor, shape: tuple[int, ...], *, all_axes: bool = False) -> None:
    """`tensor` must broadcast to `shape`; with `all_axes` it must have as many axes."""
    axes = zip(reversed(tensor.shape), reversed(shape), strict=False)
    wrong = tensor.ndim != len(shape) if all_axes else tensor.ndim > len(shape)
    if wrong or any(have not in (1, want) for have, want in axes):
        raise ShapeError(what, got=list(tensor.shape), expected=f"a tensor that broadcasts to {list(shape)}")


def check_dropout(dropout: float) -> None:
    """Dropout is a share below 1."""
    if not 0 <= dropout < 1:
        raise ConfigError("dropout", got=dropout, expected="0 ≤ dropout < 1")


def check_pairs(what: str, chosen: Any, result: Any, num_queries: int, num_keys: int) -> None:
    """A score or an alignment, ours or the caller's, has given one number for each pair."""
    if not isinstance(result, Tensor) or result.ndim < 2 or result.shape[-2:] != (num_queries, num_keys):
        raise ShapeError(
            f"{getattr(chosen, '__name__', type(chosen).__name__)} returned no {what} for each pair",
            got=list(result.shape) if isinstance(result, Tensor) else type(result).__name__,
            expected=f"[..., {num_queries}, {num_keys}]",
        )
