"""The head of a run whose weights its alignments are: found once on held-out data, and kept beside the weights."""

import json
from dataclasses import asdict
from typing import Any

from regard.api.model import Model
from regard.base import read_json, write_atomically
from regard.train.checkpoint import checksum

ALIGNMENT = "alignment.json"  # in a run folder
SPLIT = "valid"


def find_head(model: Model) -> bool:
    """Look for the best aligned head of a model on its validation set, use it from now on, and keep it with the run.

    Nothing happens for a model without heads to choose from, or where the run has one for these weights already. True
    if the run folder has one now.
    """
    if not getattr(model.module, "can_choose_head", False):
        return False
    path, weights = model.folder / ALIGNMENT, checksum(model.module)
    if _stored(model, weights) is None:
        choice = model.task.best_head(model.module, SPLIT)
        if choice is None:
            return False
        content = {"weights": weights, "split": SPLIT, "agreement": choice.agreement, **asdict(choice)}
        write_atomically(path, json.dumps(content, indent=1, ensure_ascii=False))
    return use_head(model)


def use_head(model: Model) -> bool:
    """Take the head that the run folder names for these weights; without one it is the mean of the last layer."""
    if not getattr(model.module, "can_choose_head", False) or not (model.folder / ALIGNMENT).exists():
        return False
    stored = _stored(model, checksum(model.module))
    model.module.best_head = None if stored is None else (stored["layer"], stored["head"])  # type: ignore[assignment]
    return stored is not None


def _stored(model: Model, weights: str) -> dict[str, Any] | None:
    """What the run folder has, if it is of these weights and names a head that there is."""
    path = model.folder / ALIGNMENT
    if not path.exists():
        return None
    content = read_json(path, cure="delete it: `regard evaluate` makes it anew")
    layer, head = content.get("layer"), content.get("head")
    names = {name for name, _ in model.module.named_modules()}
    heads = getattr(getattr(model.module, "config", None), "num_heads", 0)
    good = layer in names and type(head) is int and 0 <= head < heads and content.get("weights") == weights
    return content if good else None
