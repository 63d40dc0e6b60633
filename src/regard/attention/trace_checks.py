"""What a trace of a model is held to: layers, rows and heads that are there; each error names what there is."""

import fnmatch
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from torch import nn

from regard.attention.layer_stack import attention_like, listed
from regard.attention.record import Record
from regard.base import ConfigError, did_you_mean

FUNCTIONS = ("attend", "attend_edges", "scaled_dot_product_attention", "multi_head_attention_forward")


@runtime_checkable
class Seen(Protocol):
    """What the checks read of a trace."""

    _layers: str
    _met: set[str]
    _records: dict[str, Record]
    _queries: Sequence[int] | None
    _heads: Sequence[int] | None
    _most_queries: int
    _most_heads: int
    _ran: bool

    @property
    def unseen(self) -> dict[str, str]:
        """Modules that look like attention and gave no weights."""
        ...


def check_layers(modules: Mapping[str, nn.Module], pattern: str) -> None:
    """An error that names the attention modules of a model, if the pattern fits none of its modules."""
    bare = pattern.partition(":")[0]  # the second call in a module is `name:1`
    if not any(fnmatch.fnmatchcase(name, bare) for name in (*modules, *FUNCTIONS)):
        raise _no_layer(pattern, list(attention_like(modules) or modules))


def check_seen(modules: Mapping[str, nn.Module], seen: Seen) -> None:
    """An error if nothing was recorded of what was asked for, though the model ran."""
    if not seen._records and not seen.unseen:
        if seen._met:
            raise _no_layer(seen._layers, sorted(seen._met))
        if seen._ran:
            counts = Counter(type(module).__name__ for module in modules.values())
            kind = type(next(iter(modules.values()))).__name__
            raise ConfigError(
                "no attention ran in this model",
                got=f"{kind} with " + ", ".join(f"{n} {each}" for each, n in counts.most_common(6)),
                expected="modules that attend",
                cure="trace a model that has attention; may_be_empty=True allows any model",
            )
    if seen._records:
        for what, asked, most in (
            ("rows", seen._queries, seen._most_queries),
            ("heads", seen._heads, seen._most_heads),
        ):
            missing = [number for number in asked or () if not -most <= number < most]
            if missing:
                there = f"numbers from {-most} to {most - 1}" if most else f"no choice: no layer has {what}"
                names = listed(seen._records)
                raise ConfigError(f"no layer has these {what}", got=missing, expected=f"{there}, in {names}")


def _no_layer(pattern: str, names: list[str]) -> ConfigError:
    near = did_you_mean(pattern, names)
    return ConfigError(
        "no layer has this name", got=repr(pattern), expected=f"a pattern for {listed(names)}", cure=near
    )
