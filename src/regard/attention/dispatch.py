"""Which implementation runs, and why not a faster one. An explicit wish is met or refused, never replaced."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.align import Softmax
from regard.attention.band import band_of
from regard.attention.mask import Mask
from regard.base import ConfigError, ImplementationUnavailable
from regard.kernels.derivatives import REASON, transformed
from regard.kernels.limits import MOST_FEW_QUERIES
from regard.kernels.serving import serves
from regard.score import ScaledDot

IMPLEMENTATIONS = ("auto", "reference", "sdpa", "triton", "blocked", "banded", "short")
DOTS = ("sdpa", "banded", "short")  # for scores that are products; the others are for sums through tanh
HALF = (torch.bfloat16, torch.float16)
KEYS_OF_A_BAND = 4  # as many times as many keys as a query sees: from here on `auto` leaves the others out
MOST_SHORT = 64  # queries, and keys: up to here `auto` takes the kernel for short texts
WIDEST_SHORT_HEAD = 64  # numbers of a head, beyond which it was not timed
FEWEST_SHORT = 256  # heads of all items together, below which it leaves most of a chip empty
OVER_EDGES = ("auto", "reference", "triton")


class Call(NamedTuple):
    """What the choice depends on beside score and alignment; without tensors, the device alone."""

    device: str = "cpu"
    query: Tensor | None = None  # [*b q d]
    values: Tensor | None = None  # [*b k v]
    bias: bool = False
    keys: Tensor | None = None  # [*b k d]
    mask: Mask | None = None
    by_distance: Tensor | None = None  # [*b q w], see CallOptions


def check_impl(impl: str) -> str:
    """`impl`, if there is one of that name."""
    if impl not in IMPLEMENTATIONS:
        raise ConfigError("impl", got=repr(impl), expected=f"one of {', '.join(IMPLEMENTATIONS)}")
    return impl


def check_impl_over_edges(impl: str) -> None:
    """An error that lists the names, unless there is an implementation of this name over edge lists."""
    if impl not in OVER_EDGES:
        raise ConfigError("impl over edges", got=repr(impl), expected=f"one of {', '.join(OVER_EDGES)}")


def reasons_against(impl: str, score: Any, align: Any, call: Call) -> list[str]:
    """Every reason why a fused implementation cannot do this; empty if it can."""
    reasons = []
    if impl in DOTS and not getattr(score, "is_dot", False):
        reasons.append(f"score={_name(score)} is not a dot product of transformed queries and keys")
    if impl not in DOTS and not getattr(score, "is_additive", False):
        reasons.append(f"score={_name(score)} is not additive, vᵀ tanh(q + k)")
    if type(align) is not Softmax:
        reasons.append(f"align={_name(align)} is not Softmax")
    if impl not in DOTS and call.bias:
        reasons.append("the additive kernels take no bias")
    if impl == "triton":
        reasons += _against_triton(score, call)
    if impl == "banded":
        reasons += _against_banded(call)
    if impl == "short":
        reasons += _against_short(call)
    if call.query is not None and call.query.shape[-1] == 0:
        reasons.append("the query has no width")
    if transformed():
        reasons.append(REASON)
    return reasons


def choose(impl: str, score: Any, align: Any, call: Call, *, gradient: bool) -> str:
    """One of IMPLEMENTATIONS but "auto". `gradient`: weights are asked for where a gradient may go through them.

    The additive kernels have weights from the pass of the context, and their gradient from its backward pass. For dot
    products both are one pass more, and the reference, which has them anyway, is quicker. Compilers and exporters,
    which cannot be asked for a gradient, see one plain path.
    """
    if impl == "reference":
        return impl
    if impl == "auto":
        plain = gradient and (getattr(score, "is_dot", False) or torch.compiler.is_compiling())
        return "reference" if plain or type(align) is not Softmax or transformed() else _fastest(score, align, call)
    reasons = reasons_against(impl, score, align, call)
    if reasons:
        raise ImplementationUnavailable(
            f"impl={impl!r} cannot run here: " + "; ".join(reasons), cure="use impl='auto' or impl='reference'"
        )
    return impl


def choose_over_edges(impl: str, score: Any, align: Any, call: Call, *, gradient: bool) -> str:
    """One of "reference" and "triton", for attention over an edge list. `gradient` as in `choose`."""
    check_impl_over_edges(impl)
    if impl == "reference" or (impl == "auto" and (gradient or call.device != "cuda")):
        return "reference"
    reasons = reasons_against_fused_edges(score, align, call)
    if reasons and impl == "triton":
        raise ImplementationUnavailable(
            "impl='triton' cannot run over edges here: " + "; ".join(reasons),
            cure="use impl='auto' or impl='reference'",
        )
    return "reference" if reasons else "triton"


def reasons_against_fused_edges(score: Any, align: Any, call: Call) -> list[str]:
    """Every reason why the kernel over edges cannot do this; empty if it can."""
    from regard.kernels import reasons_against_triton

    reasons = reasons_against_triton(call.device, values=call.values)
    if not getattr(score, "is_halves", False):
        reasons.append(f"score={_name(score)} is not a LeakyReLU of two halves")
    if type(align) is not Softmax or align.temperature != 1.0:
        reasons.append(f"align={_name(align)} is not Softmax, or has a temperature")
    if call.bias:
        reasons.append("the kernel over edges takes no bias")
    if transformed():
        reasons.append(REASON)
    return reasons


def _fastest(score: Any, align: Any, call: Call) -> str:
    if call.query is not None and call.query.shape[-1] == 0:
        return "reference"
    if getattr(score, "is_dot", False):  # the same questions as above, without making sentences
        if _leaves_a_band(call) and not reasons_against("banded", score, align, call):
            return "banded"
        return "short" if _is_short(score, call) else "sdpa"
    if not getattr(score, "is_additive", False) or call.bias:
        return "reference"
    if call.device == "cuda":
        return "reference" if reasons_against("triton", score, align, call) else "triton"
    return "blocked" if call.device == "cpu" and _pays(score, call) else "reference"


def _leaves_a_band(call: Call) -> bool:
    """Whether the kernel over a band is the quicker one: on a GPU, with relative positions or far more keys than seen.

    It was timed in half precision, and in float32 where products may have ten bits.
    """
    query = call.query
    if call.device != "cuda" or query is None or call.values is None:
        return False
    if query.dtype not in HALF and not torch.backends.cuda.matmul.allow_tf32:
        return False
    if call.by_distance is not None:
        return True
    band = band_of(call.mask)
    if band is None or band.before is None or band.after is None:
        return False
    return call.values.shape[-2] >= KEYS_OF_A_BAND * (band.before + band.after + band.block_size)


def _is_short(score: Any, call: Call) -> bool:
    """Whether the kernel for short texts is the quicker one: many heads in half precision, each with few keys."""
    query, values = call.query, call.values
    if query is None or values is None or call.keys is None or type(score) is not ScaledDot:
        return False
    if query.dtype not in HALF or not query.dtype == call.keys.dtype == values.dtype or call.bias:
        return False
    if query.shape[-2] <= MOST_FEW_QUERIES and not torch.is_grad_enabled():
        return False  # a step of a search, which has a kernel of its own
    few = max(query.shape[-2], values.shape[-2]) <= MOST_SHORT and query.shape[:-2].numel() >= FEWEST_SHORT
    narrow = max(query.shape[-1], values.shape[-1]) <= WIDEST_SHORT_HEAD
    return few and narrow and serves("short", query, call.keys, values) and not _against_short(call)


def _pays(score: Any, call: Call) -> bool:
    """Whether working in blocks is quicker: not for a few pairs."""
    if call.query is None or call.values is None:
        return True  # asked without tensors
    from regard.kernels import pays  # operations are registered when they are imported, which takes its time

    sentences = max(operand.shape[:-2].numel() for operand in (call.query, call.values))
    return pays(sentences, call.query.shape[-2], call.values.shape[-2], score.features)


def _against_banded(call: Call) -> list[str]:
    from regard.kernels import reasons_against_triton
    from regard.kernels.limits import WIDEST_BANDED

    reasons = reasons_against_triton(call.device, call.query, call.keys, call.values, widest=WIDEST_BANDED)
    if call.query is not None and call.query.shape[-1] > WIDEST_BANDED:
        reasons.append(f"the query is {call.query.shape[-1]} wide, more than {WIDEST_BANDED}")
    if call.bias:
        reasons.append("the kernel over a band takes no bias but that of Relative")
    band = band_of(call.mask)
    if band is None:
        reasons.append("the mask is not a band of keys")
    elif band.after != 0 and _lacks_later_keys(call):
        reasons.append("the mask shows later keys, whose bias was not computed")
    return reasons


def _against_short(call: Call) -> list[str]:
    from regard.kernels import reasons_against_triton
    from regard.kernels.limits import MOST_SHORT_KEYS, WIDEST_SHORT

    reasons = reasons_against_triton(call.device, call.query, call.keys, call.values, widest=WIDEST_SHORT)
    if call.query is not None and call.query.shape[-1] > WIDEST_SHORT:
        reasons.append(f"the query is {call.query.shape[-1]} wide, more than {WIDEST_SHORT}")
    if call.values is not None and call.values.shape[-2] > MOST_SHORT_KEYS:
        reasons.append(f"there are {call.values.shape[-2]} keys, more than {MOST_SHORT_KEYS}")
    if call.bias or call.by_distance is not None:
        reasons.append("the kernel for short texts takes no bias")
    return reasons


def _lacks_later_keys(call: Call) -> bool:
    """Whether the bias by distance has columns for earlier keys only."""
    if call.by_distance is None or call.values is None:
        return False
    return call.by_distance.shape[-1] < call.by_distance.shape[-2] + call.values.shape[-2] - 1


def _against_triton(score: Any, call: Call) -> list[str]:
    from regard.kernels import reasons_against_triton
    from regard.kernels.limits import WIDEST, width_limit

    limit = WIDEST if call.query is None else width_limit(call.query.shape[-2])
    reasons = reasons_against_triton(call.device, call.query, values=call.values, widest=limit)
    if call.query is not None and getattr(score, "is_additive", False) and score.features > limit:
        reasons.append(f"the score has {score.features} features, more than {limit}")
    return reasons


def _name(chosen: Any) -> str:
    return getattr(chosen, "__name__", type(chosen).__name__)
