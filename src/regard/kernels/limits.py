"""What the Triton kernels can take: types and widths, and the reasons why they cannot run."""

import importlib.util
import os

import torch
from torch import Tensor

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
WIDEST = 256  # features and value width
WIDEST_SINGLE = 2048  # the same, for one query
WIDEST_BANDED = 128  # head and value width of attention over a band
MOST_SINGLE_KEYS = 1024  # of one query, along which one program walks
MOST_FEW_QUERIES, MOST_FEW_KEYS, WIDEST_FEW = 16, 128, 128  # that one program has at once, see few_queries.py
MOST_CELLS = 8192  # of a memory, rows and columns each raised to a power of two: one program has all of it in registers
MOST_SHORT_KEYS = 128  # of one item and head of attention over short texts: one program has all of them
WIDEST_SHORT = 128  # head and value width of it
WIDEST_ROW = 4096  # numbers of a row that is normalised: one program has all of it
SMALL = frozenset({"token_loss", "short", "residual", "hidden", "linear", "embedding", "adam"})  # for small models
CHOSEN_ON_A_GPU: frozenset[str] = SMALL  # those whose figures on a GPU were seen; none: frozenset()
EVERYWHERE = 1 << 30  # a window without end
HAS_TRITON = importlib.util.find_spec("triton") is not None  # asked once: a search of the path for every call is slow


def width_limit(num_queries: int) -> int:
    """The widest features and values that the additive kernels take: one query leaves more room.

    >>> width_limit(1), width_limit(2)
    (2048, 256)
    """
    return WIDEST_SINGLE if num_queries == 1 else WIDEST


def too_large(slots: int, width: int) -> str | None:
    """Why the kernel of a Turing machine's step cannot hold such a memory; None if it can.

    >>> too_large(128, 20), too_large(1000, 20)
    (None, 'a memory of 1000 × 20 cells is more than one program holds, 8192')
    """
    cells = (1 << (slots - 1).bit_length()) * (1 << (width - 1).bit_length())
    return (
        f"a memory of {slots} × {width} cells is more than one program holds, {MOST_CELLS}"
        if cells > MOST_CELLS
        else None
    )


def reasons_against_triton(
    device: torch.device | str,
    query: Tensor | None = None,
    keys: Tensor | None = None,
    values: Tensor | None = None,
    *,
    widest: int = WIDEST,
) -> list[str]:
    """Every reason why the kernels cannot serve such tensors here; empty if they can. Leading axes do not matter.

    >>> reasons_against_triton("cuda", values=torch.ones(1, 2, 300, dtype=torch.float64))[-2:]
    ['values are torch.float64, not float32, bfloat16 or float16', 'values are 300 wide, more than 256']
    """
    reasons = []
    if not HAS_TRITON:
        reasons.append("triton is not installed")
    kind = torch.device(device).type
    if kind != "cuda" and not (kind == "cpu" and os.environ.get("TRITON_INTERPRET") == "1"):
        reasons.append(f"device is {kind}, not cuda")
    for name, tensor in (("query", query), ("keys", keys), ("values", values)):
        if tensor is not None and tensor.dtype not in DTYPES:
            verb = "is" if name == "query" else "are"
            reasons.append(f"{name} {verb} {tensor.dtype}, not float32, bfloat16 or float16")
        if tensor is not None and name != "query" and tensor.shape[-1] > widest:  # queries may still be unprojected
            reasons.append(f"{name} are {tensor.shape[-1]} wide, more than {widest}")
    return reasons


def are_few(query: Tensor, keys: Tensor, values: Tensor) -> bool:
    """Whether the kernel for few queries takes [n h q a], [n g k a], [n g k v], and nobody asks for a gradient."""
    if query.ndim != 4 or query.shape[-2] > MOST_FEW_QUERIES or values.shape[-2] > MOST_FEW_KEYS:
        return False
    if query.shape[-1] > WIDEST_FEW or not query.dtype == keys.dtype == values.dtype:
        return False
    if torch.is_grad_enabled() and (query.requires_grad or keys.requires_grad or values.requires_grad):
        return False
    return not reasons_against_triton(query.device, query, keys, values, widest=WIDEST_FEW)


def is_single(query: Tensor, keys: Tensor, values: Tensor) -> bool:
    """Whether one program should walk along the keys of the one query of each item, and nobody asks for a gradient."""
    if query.shape[-2] != 1 or values.shape[-2] > MOST_SINGLE_KEYS or not query.dtype == keys.dtype == values.dtype:
        return False
    if torch.is_grad_enabled() and (query.requires_grad or keys.requires_grad or values.requires_grad):
        return False
    return not reasons_against_triton(query.device, query, keys, values, widest=WIDEST_SINGLE)


def can_read_logits(logits: Tensor) -> bool:
    """Whether the kernels for the next words take these logits."""
    return not reasons_against_triton(logits.device, logits)
