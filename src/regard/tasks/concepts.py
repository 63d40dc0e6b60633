"""What the words of a text take in of each other, in models of any task whose words attend to each other."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import nn

from regard.attention import trace
from regard.base import ConfigError, RegardError, shown
from regard.explanation import Concepts
from regard.nn import evaluating


def concepts_of(
    task: Any,
    model: nn.Module,
    text: str,
    *,
    head: int | None = None,
    residual: int | float = 0.5,
    name: str = "this model",
) -> Concepts:
    """The weights between all pairs of words of a text, in every layer in which words attend to each other.

    A model names these layers by a pattern, `self_attention_layers`. `head` chooses a head of each layer; None takes
    the mean of all heads. `residual` is the share of a word that passes by a layer unchanged.
    """
    pattern = getattr(model, "self_attention_layers", "")
    if not pattern:
        cure = "load a model with self-attention, such as tatoeba-en-fr, or an LSTMN"
        raise RegardError(f"in {name} no words attend to each other", got=type(model).__name__, cure=cure)
    if not isinstance(text, str):
        raise ConfigError("concepts are of one text", got=type(text).__name__, expected="a string")
    with evaluating(model), trace(model, layers=pattern, may_be_empty=True) as seen:
        words: Sequence[str] = task.read(model, text)
    matrices, count = [], 1
    for layer, record in seen.items():
        weights = np.asarray(record.weights)[0]  # [*h q k]
        if weights.ndim == 3:
            count = len(weights)
        matrices.append(_square(_of_head(weights, head, layer), len(words)))
    heads = "" if count == 1 else f"mean of {count} heads" if head is None else f"head {head} of {count}"
    return Concepts(np.array(matrices), words, tuple(seen), residual=residual, heads=heads, title=text)


def _of_head(weights: Any, head: int | None, layer: str) -> Any:
    """The weights [q k] of one head, or the mean of all heads."""
    by_head = weights if weights.ndim == 3 else weights[None]
    if head is None:
        return by_head.mean(0)
    if isinstance(head, bool) or not isinstance(head, int) or not 0 <= head < len(by_head):
        expected = "None" if len(by_head) == 1 else f"a number from 0 to {len(by_head) - 1}, or None for their mean"
        raise ConfigError(f"the head of {layer}", got=shown(head), expected=expected)
    return by_head[head]


def _square(weights: Any, size: int) -> Any:
    """The weights [q k] as [size size]; the last words, which no word has looked back at, get a column of zeros."""
    return np.pad(weights, ((0, 0), (0, size - weights.shape[1])))
