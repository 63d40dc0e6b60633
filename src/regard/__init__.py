"""regard: attention mechanisms in PyTorch — score → align → context.

Names arrive on first use, so that `import regard` and `regard --help` do not wait for torch.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from regard.align import ALIGNS
    from regard.api import load
    from regard.attention import Attention, AttentionOutput, Mask, MultiHead, attend, intervene, trace
    from regard.attention.head_effects import head_effects
    from regard.attention.lookup import lookup
    from regard.attention.rollout import rollout
    from regard.base import RegardError
    from regard.score import SCORES

_HOME = {
    "ALIGNS": "regard.align",
    "Attention": "regard.attention",
    "AttentionOutput": "regard.attention",
    "Mask": "regard.attention",
    "MultiHead": "regard.attention",
    "RegardError": "regard.base",
    "SCORES": "regard.score",
    "attend": "regard.attention",
    "head_effects": "regard.attention.head_effects",
    "intervene": "regard.attention",
    "load": "regard.api",
    "lookup": "regard.attention.lookup",
    "rollout": "regard.attention.rollout",
    "trace": "regard.attention",
}

__all__ = [
    "ALIGNS",
    "SCORES",
    "Attention",
    "AttentionOutput",
    "Mask",
    "MultiHead",
    "RegardError",
    "__version__",
    "attend",
    "head_effects",
    "intervene",
    "load",
    "lookup",
    "rollout",
    "trace",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'regard' has no attribute {name!r}; it has {', '.join(__all__)}")
    import importlib

    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
