"""What the layers of small models are made of, by one kernel where it serves, or else by the layers as they are.

A Transformer of a few hundred numbers a word waits for launches, and for kernels that were made for larger tensors.
Everything here is decided by `serves` and `is_bare`: a layer with a hook, or of another class, is called as it is.
Triton is imported at the first call that a kernel serves.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.kernels.joined import are_side_by_side
from regard.kernels.limits import WIDEST_ROW
from regard.kernels.serving import is_autocast, is_bare, serves


def linears(x: Tensor, *layers: nn.Linear) -> tuple[Tensor, ...]:
    """The output of each layer for the same input, in one product where that is possible."""
    bare = serves("linear", x) and all(is_bare(layer, nn.Linear) for layer in layers)
    if not bare or len({layer.bias is None for layer in layers}) != 1:
        return tuple(layer(x) for layer in layers)
    if not _takes_product("linear", x, [p for layer in layers for p in (layer.weight, layer.bias) if p is not None]):
        return tuple(layer(x) for layer in layers)
    weights = [layer.weight for layer in layers]
    if not torch.is_grad_enabled() and not are_side_by_side(weights, 0):
        return tuple(layer(x) for layer in layers)  # no bias has a gradient, and a copy of weights would not pay
    from regard.kernels.linear import fused_linear

    if not are_side_by_side(weights, 0):
        return tuple(fused_linear(x, [layer.weight], [layer.bias])[0] for layer in layers)
    return fused_linear(x, weights, [layer.bias for layer in layers])


def hidden(x: Tensor, layer: nn.Linear, dropout: float, *, locked: bool = False) -> Tensor | None:
    """dropout(max(0, layer(x))) with one kernel behind the product; None where it does not serve."""
    if (
        dropout >= 1.0
        or not serves("hidden", x)
        or not is_bare(layer, nn.Linear)
        or not serves("hidden", x, layer.bias)
    ):
        return None
    if not _takes_product("hidden", x, [p for p in (layer.weight, layer.bias) if p is not None]):
        return None
    from regard.kernels.hidden import fused_hidden
    from regard.kernels.linear import fused_linear

    (product,) = fused_linear(x, [layer.weight], [None])
    return fused_hidden(product, layer.bias, dropout=dropout, locked=locked)


def residual(
    x: Tensor, y: Tensor | None, norm: nn.Module | None, dropout: float, *, locked: bool = False
) -> tuple[Tensor, Tensor | None] | None:
    """x + dropout(y), and the norm of it if there is one, in one kernel; None where it does not serve."""
    if norm is None and (y is None or dropout == 0.0):
        return None
    if dropout >= 1.0 or x.ndim < 2 or not 0 < x.shape[-1] <= WIDEST_ROW or not serves("residual", x, y):
        return None
    if y is not None and y.shape != x.shape:
        return None
    kind = x.dtype if y is None else torch.promote_types(x.dtype, y.dtype)
    if norm is not None:
        if (
            not isinstance(norm, nn.LayerNorm)
            or not is_bare(norm, nn.LayerNorm)
            or norm.normalized_shape != x.shape[-1:]
        ):
            return None
        if norm.weight is None or norm.bias is None or not serves("residual", norm.weight, norm.bias):
            return None
        in_full = torch.is_autocast_enabled(x.device.type) and kind != torch.float32
        if not norm.weight.dtype == norm.bias.dtype == kind or norm.weight.device != x.device or in_full:
            return None
    from regard.kernels.residual import fused_residual

    if norm is None:
        return fused_residual(x, y, dropout=dropout, locked=locked)
    assert isinstance(norm, nn.LayerNorm)
    return fused_residual(x, y, weight=norm.weight, shift=norm.bias, eps=norm.eps, dropout=dropout, locked=locked)


def embedding(
    table: nn.Module,
    tokens: Tensor,
    *,
    scale: float,
    places: Tensor | None,
    first: Tensor | None = None,
    dropout: float,
    locked: bool = False,
) -> Tensor | None:
    """dropout(scale · table(tokens) + places) from `first` on, in one kernel; None where it does not serve."""
    if not isinstance(table, nn.Embedding) or not is_bare(table, nn.Embedding) or dropout >= 1.0:
        return None
    if table.max_norm is not None or table.sparse or table.scale_grad_by_freq or table.embedding_dim > WIDEST_ROW:
        return None
    weight = table.weight
    if not serves("embedding", weight, places) or tokens.device != weight.device or tokens.ndim != 2:
        return None
    if tokens.numel() == 0 or tokens.dtype not in (torch.int32, torch.int64) or type(tokens) is not Tensor:
        return None
    from regard.kernels.embedding import fused_embedding

    padding = table.padding_idx
    return fused_embedding(
        weight, tokens, scale=scale, places=places, first=first, dropout=dropout, padding=padding, locked=locked
    )


def normed(x: Tensor, norm: nn.Module) -> Tensor:
    """norm(x), which need not be a norm."""
    made = residual(x, None, norm, 0.0) if serves("residual", x) and isinstance(norm, nn.LayerNorm) else None
    result: Tensor = norm(x) if made is None or made[1] is None else made[1]
    return result


def _takes_product(name: str, x: Tensor, parameters: Sequence[Tensor]) -> bool:
    """Whether a kernel serves, and `x` and all weights have one type, which autocast leaves as it is."""
    alike = all(parameter.dtype == x.dtype for parameter in parameters)
    return alike and x.ndim > 1 and serves(name, x, *parameters) and not is_autocast(x)
