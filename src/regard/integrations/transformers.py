"""regard as an attention backend of Hugging Face transformers: `attn_implementation="regard"`.

from regard.integrations.transformers import register, set_attention

register()
model = AutoModel.from_pretrained(name, attn_implementation="regard")
set_attention(model, align=Entmax(1.5), layers="*.5.*")

transformers calls `attention_forward` for each attention layer, and `attention_mask` once for each kind of mask. What a
model hands over decides the result, as in its own eager code: scale, soft cap, position bias, mask, sinks, dropout.
"""

import copy
import fnmatch
import inspect
import re
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.align import Softmax
from regard.attention.attention import AlignLike, Attention, ScoreLike
from regard.attention.checks import check_callable
from regard.attention.mask import Mask
from regard.attention.output import CallOptions
from regard.base import ConfigError, ImplementationUnavailable, RegardError, require
from regard.integrations.model_score import ScaledBy, SoftCapped
from regard.integrations.sinks import WithSink, context_with_sinks
from regard.score import ScaledDot

NAME = "regard"
OLDEST = (4, 56)  # the first version whose masks and attention functions are both chosen by name
CHOSEN = "regard_attention"  # the submodule of a layer that `set_attention` gave another score or alignment
RULE = "regard_mask"  # the attribute of a mask tensor that holds the same mask as a rule, without numbers
HISTORY = ("previous", "step")  # transformers keeps keys and values from step to step, and no weights
_LIBRARY: dict[str, Any] = {}  # what `register` took from transformers: a compiled model cannot import it
_OWN: dict[float | int, Attention] = {}  # scaled dot products with softmax, by scale: to make a module takes its time
_WITHOUT_CAUSAL_MASK: set[type] = set()  # settings of models whose layers are told by `is_causal` what None stands for


def register() -> None:
    """Make `attn_implementation="regard"` known to transformers. A second call changes nothing.

    Afterwards the name works in `from_pretrained`, `from_config` and `model.set_attn_implementation`.
    """
    transformers = _transformers()
    _LIBRARY["make_mask"] = transformers.masking_utils.sdpa_mask
    _LIBRARY["collector"] = _collector(transformers)
    transformers.AttentionInterface.register(NAME, attention_forward)
    transformers.AttentionMaskInterface.register(NAME, attention_mask)


def set_attention(
    model: nn.Module, *, score: ScoreLike | None = None, align: AlignLike | None = None, layers: str = "*"
) -> list[str]:
    """Give the attention layers whose names match `layers` another score, another alignment, or both.

    A score replaces the dot product and its scale, an alignment the softmax; None leaves the model's own, so
    `set_attention(model)` restores every layer. Masks, position bias, soft cap and sinks of the model stay. Returns the
    names of the layers that matched. The model runs with `attn_implementation="regard"` afterwards.

    Each layer gets a copy of its own on its device, as its submodule `regard_attention`: it goes along with
    `copy.deepcopy`, `model.to(…)` and `model.train()`, and what it learns is among `model.parameters()` and in the
    state dict. A score or an alignment that learns nothing adds nothing to the state dict.
    """
    _check_replacement("score", score, ScaledDot())
    _check_replacement("align", align, Softmax())
    names = attention_layers(model)
    matching = [name for name in names if fnmatch.fnmatchcase(name, layers)]
    if not matching:
        raise ConfigError(
            "no attention layer has this name", got=repr(layers), expected=f"a pattern for {_list(names)}"
        )
    _switch_on(model, matching)
    for name in matching:
        layer = model.get_submodule(name)
        if hasattr(layer, CHOSEN):
            delattr(layer, CHOSEN)
        if score is not None or align is not None:
            chosen = ChosenAttention(copy.deepcopy(score), copy.deepcopy(align))
            like = next((weight for weight in layer.parameters() if weight.is_floating_point()), None)
            layer.add_module(CHOSEN, chosen if like is None else chosen.to(like).train(layer.training))
    return matching


def attention_layers(model: nn.Module) -> list[str]:
    """Names of the layers of `model` that take their attention function from transformers, as `named_modules` has them.

    A model without one is refused: transformers runs the attention of such a model by the model's own code only.
    """
    names = [name for name, module in model.named_modules() if _asks_for_attention(module)]
    if not names:
        raise ConfigError(
            f"no layer of {type(model).__name__} takes its attention function from transformers",
            expected="a model whose attention layers use ALL_ATTENTION_FUNCTIONS",
            cure="use the model as it is; docs/transformers.md names models that are written without it",
        )
    return names


class ChosenAttention(nn.Module):
    """The score and the alignment that `set_attention` gave to a layer; None stands for the model's own."""

    def __init__(self, score: ScoreLike | None, align: AlignLike | None) -> None:
        super().__init__()
        self.score, self.align = score, align


# ── what transformers calls ─────────────────────────────────────────────────────────────────────────────────────────


def attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    *,
    dropout: float | int = 0.0,
    scaling: float | int | Tensor | None = None,
    position_bias: Tensor | None = None,
    softcap: float | int | None = None,
    s_aux: Tensor | None = None,
    head_mask: Tensor | None = None,
    indices: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attention of `module`: query [b h q d], key [b g k d], value [b g k v] → context [b q h v], weights [b h q k].

    `s_aux` [h] are sinks; `indices` [b q n] are the keys that each query may see, of those that the mask allows.
    Weights are None unless they were asked for by `output_attentions=True`. As in the eager code of transformers, they
    are those after dropout; a trace has those before it.
    """
    _refuse_unknown(module, kwargs)
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    if isinstance(scaling, Tensor):
        query, scaling = query * scaling, 1.0
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    mask, bias = _mask_and_bias(attention_mask, position_bias, key.shape[2])
    if attention_mask is None and _is_causal(module, query, kwargs):
        mask = Mask.causal()
    if indices is not None:
        none = indices.new_zeros((*indices.shape[:2], key.shape[2]), dtype=torch.bool)
        chosen = Mask.of(none.scatter(-1, indices.long(), True))
        mask = chosen if mask is None else mask & chosen
    dropout = dropout if module.training else 0.0
    need_weights = head_mask is not None or _are_weights_wanted(module, kwargs)
    options = CallOptions(mask, bias, None, 0, 0.0 if need_weights else dropout)
    if s_aux is not None and not need_weights and softcap is None and bias is None and not hasattr(module, CHOSEN):
        context = context_with_sinks(query, key, value, s_aux, scale, options, trace_as=module)
        return context.transpose(1, 2).contiguous(), None
    attention = _attention(module, scale, softcap, s_aux)
    out = attention.run(query, key, value, options, need_weights=need_weights, trace_as=module, heads=True)
    context, weights = out.context, out.weights
    if weights is not None and (dropout > 0 or head_mask is not None):
        weights = F.dropout(weights, dropout)
        weights = weights if head_mask is None else weights * head_mask.reshape(-1, query.shape[1], 1, 1)
        context = weights.to(value.dtype) @ value
    return context.transpose(1, 2).contiguous(), weights


def attention_mask(*args: Any, **kwargs: Any) -> Tensor | None:
    """The mask [b 1 q k] that a model hands to all layers of one kind: 0 = may attend, very low = may not.

    These are the numbers of eager attention, so that models that change them, or add them to scores by their own code,
    stay right. The same mask as a rule goes along as an attribute of the tensor; `attention_forward` takes the rule,
    and where somebody made a new tensor of the mask, its numbers. Where nothing is forbidden but later keys, models
    that can run with `sdpa` get None, which their layers know how to read: a tensor of all pairs is not made.
    """
    make, compiling = _LIBRARY["make_mask"], torch.compiler.is_compiling()
    dtype, config = kwargs.pop("dtype", torch.float32), kwargs.get("config")
    skips = bool(kwargs.get("allow_is_causal_skip", True)) and not compiling
    allowed = make(*args, **{**kwargs, "allow_is_causal_skip": skips})
    if allowed is None and skips:  # later keys alone are forbidden
        num_queries = kwargs["q_length"] if "q_length" in kwargs else len(kwargs["cache_position"])
        if num_queries in (1, kwargs["kv_length"]) and _has_sdpa_layers(config):
            _WITHOUT_CAUSAL_MASK.add(type(config))
            return None
        allowed = make(*args, **{**kwargs, "allow_is_causal_skip": False})
    if allowed is None:
        return None
    low = torch.full((), torch.finfo(dtype).min, dtype=dtype, device=allowed.device)
    numbers = torch.where(allowed, low.new_zeros(()), low)
    if not compiling:
        setattr(numbers, RULE, Mask.of(allowed))
    return numbers


# ── what a call is made of ──────────────────────────────────────────────────────────────────────────────────────────


def _attention(module: nn.Module, scale: float | int, softcap: float | int | None, sinks: Tensor | None) -> Attention:
    """Score and alignment of one call: those of the model, or what `set_attention` put in their place."""
    chosen: ChosenAttention | None = getattr(module, CHOSEN, None)
    if chosen is None and softcap is None and sinks is None and scale in _OWN:
        return _OWN[scale]
    score: ScoreLike | None = None if chosen is None else chosen.score
    align: AlignLike | None = None if chosen is None else chosen.align
    score = ScaledBy(scale) if score is None else score
    align = Softmax() if align is None else align
    score = score if softcap is None else SoftCapped(score, softcap)
    attention = Attention(score, align if sinks is None else WithSink(align, sinks))
    if chosen is None and softcap is None and sinks is None and not torch.compiler.is_compiling():
        _OWN[scale] = attention
    return attention


def _mask_and_bias(
    attention_mask: Tensor | None, position_bias: Tensor | None, num_keys: int
) -> tuple[Mask | None, Tensor | None]:
    """What forbids keys as a rule, and what is added to the scores; numbers that nobody knows as a rule are added."""
    if attention_mask is None:
        return None, position_bias
    if attention_mask.shape[-1] > num_keys:
        attention_mask = attention_mask[..., :num_keys]  # of a cache that has room for more
    rule = None if torch.compiler.is_compiling() else getattr(attention_mask, RULE, None)
    if rule is not None:
        return rule, position_bias
    if attention_mask.dtype == torch.bool:
        return Mask.of(attention_mask), position_bias
    return None, attention_mask if position_bias is None else attention_mask + position_bias


def _are_weights_wanted(module: nn.Module, kwargs: dict[str, Any]) -> bool:
    """Whether somebody reads the weights. Where that cannot be known, they are made."""
    if kwargs.get("output_attentions") is not None:
        return bool(kwargs["output_attentions"])
    if getattr(getattr(module, "config", None), "output_attentions", False):
        return True
    collector = _LIBRARY.get("collector")
    if collector is not None:
        compiling = torch.compiler.is_compiling()
        outputs = collector.global_var if compiling or collector.compiling else collector.context_var.get()
        return outputs is not None and any("attentions" in name for name in outputs)
    # Before version 5, a layer is told what is wanted, and may keep it to itself, or its method is replaced by one that
    # takes the weights out.
    return "forward" in vars(module) or "output_attentions" in inspect.signature(type(module).forward).parameters


def _is_causal(module: nn.Module, query: Tensor, kwargs: dict[str, Any]) -> bool:
    """Whether a mask is missing because nothing but later keys is forbidden."""
    if query.shape[2] == 1 or type(getattr(module, "config", None)) not in _WITHOUT_CAUSAL_MASK:
        return False
    told = kwargs.get("is_causal")
    return bool(getattr(module, "is_causal", True) if told is None else told)


def _refuse_unknown(module: nn.Module, kwargs: dict[str, Any]) -> None:
    if kwargs.get("block_indices") is not None:
        raise ImplementationUnavailable(
            f"{type(module).__name__} chooses blocks of keys by itself, which 'regard' does not know",
            cure="model.set_attn_implementation('eager')",
        )
    if kwargs.get("cache") is not None:
        raise ImplementationUnavailable(
            "continuous batching keeps keys in pages, which 'regard' does not know",
            cure="use model.generate, or model.set_attn_implementation('sdpa')",
        )


# ── transformers itself ─────────────────────────────────────────────────────────────────────────────────────────────


def _transformers() -> Any:
    """The package, if it is installed and new enough."""
    transformers = require("transformers", extra="transformers")
    version = tuple(int(number) for number in re.findall(r"\d+", transformers.__version__)[:2])
    if version < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise RegardError(
            "this version of transformers cannot choose masks and attention by name",
            got=transformers.__version__,
            expected=f"{oldest} or newer",
            cure=f"pip install 'transformers>={oldest}'",
        )
    return transformers


def _collector(transformers: Any) -> Any:
    """What transformers 5 collects layer outputs with; None where attention layers are told what is wanted."""
    capturing = getattr(transformers.utils, "output_capturing", None)
    return getattr(capturing, "_active_collector", None)


def _has_sdpa_layers(config: Any) -> bool:
    """Whether the layers of a model with these settings use `sdpa` of the menu, and so know what no mask means."""
    if type(config) in _WITHOUT_CAUSAL_MASK:
        return True
    name = type(config).__module__.replace(".configuration_", ".modeling_")
    members = vars(sys.modules[name]) if name in sys.modules else {}
    kinds = [kind for kind in members.values() if isinstance(kind, type) and kind.__module__ == name]
    supported = [kind._supports_sdpa for kind in kinds if hasattr(kind, "_supports_sdpa")]
    return "ALL_ATTENTION_FUNCTIONS" in members and bool(supported) and all(supported)


def _asks_for_attention(module: nn.Module) -> bool:
    """Whether a method of this layer takes an attention function from the menu of transformers."""
    if hasattr(module, "set_attn_implementation"):
        return False  # a model, which checks names against the menu
    members = [each for kind in type(module).__mro__ for each in vars(kind).values() if inspect.isfunction(each)]
    return any("ALL_ATTENTION_FUNCTIONS" in inspect.unwrap(each).__code__.co_names for each in members)


def _switch_on(model: nn.Module, layers: list[str]) -> None:
    """Let every pretrained model inside of `model` use this backend, and see to it that these layers do."""
    register()
    module: Any
    for module in model.modules():
        if hasattr(module, "set_attn_implementation") and module.config._attn_implementation != NAME:
            module.set_attn_implementation(NAME)
    for name in layers:
        used = getattr(getattr(model.get_submodule(name), "config", None), "_attn_implementation", NAME)
        if used != NAME:
            raise ImplementationUnavailable(
                f"transformers does not let {name} use 'regard': it stays with {used!r}",
                cure="build the model with attn_implementation='regard'",
            )


def _check_replacement(what: str, function: Callable[..., Any] | None, example: nn.Module) -> None:
    check_callable(what, function, example)
    missing = [name for name in getattr(function, "needs", ()) if name in HISTORY]
    if missing:
        raise ConfigError(
            f"a model of transformers cannot have this {what}",
            got=f"{type(function).__name__}, which needs {' and '.join(missing)} of earlier steps",
            expected=f"a {what} that needs queries and keys alone",
        )


def _list(names: list[str], shown: int = 24) -> str:
    more = "" if len(names) <= shown else f", … ({len(names)} in all)"
    return ", ".join(names[:shown]) + more
