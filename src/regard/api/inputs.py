"""What a page offers to begin with: inputs of a model as values that JSON holds, and answers to them by number."""

from typing import Any

import numpy as np

from regard.api.examples import chosen, examples
from regard.api.model import Model
from regard.base import ConfigError, RegardError, shown
from regard.explanation.png import data_address, to_png

_SEEDS = (1, 2, 7)  # of inputs that are drawn


def first_inputs(model: Model, count: int = 6) -> list[dict[str, Any]]:
    """A few inputs that `model.predict` takes: {"text": …} or {"picture": data address}, with the answer if known.

    What cannot be written as a text or shown as a picture, such as a clip, is {"example": number, "text": its name};
    `example_prediction` answers that. Where the data of a model are not on this machine, there may be none.
    """
    drawn = _drawn(model)
    if drawn and model.entry.verb != "draw":
        return [{"text": text} for text in drawn[:count]]
    try:
        split = next(iter(model.task.tests))
        numbers = chosen(model, split, count)
        made = examples(model, split, numbers)
    except (RegardError, OSError, NotImplementedError):
        return [{"text": text} for text in drawn[:count]]
    offered: list[dict[str, Any]] = [{"text": text} for text in drawn[:2]]
    for number, example in zip(numbers, made, strict=True):
        target = {"target": example.reference}
        if example.image is not None:
            offered.append({"picture": data_address(to_png(np.ascontiguousarray(example.image))), **target})
        elif model.entry.inputs == "clips":
            offered.append({"example": number, "text": example.source, **target})
        else:
            offered.append({"text": example.source, **target})
    return offered[:count]


def example_prediction(model: Model, number: Any) -> Any:
    """What a model makes of an element of its usual test set, by the number that `first_inputs` told."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise ConfigError("the number of an example", got=shown(number), expected="a whole number from 0")
    try:
        [example] = examples(model, next(iter(model.task.tests)), [number])
    except IndexError:
        raise RegardError(f"{model.name} has no such example", got=number, cure="take one that is offered") from None
    return example.prediction


def _can_read(problem: Any) -> bool:
    """Whether the example of a problem fits one of these sizes."""
    try:
        problem.read(problem.example)
    except RegardError:
        return False
    return True


def _drawn(model: Model) -> list[str]:
    """Inputs that are made from a seed, for models that take such."""
    if model.entry.name == "algorithmic":
        seeds = [f"seed={seed} length={length}" for seed, length in zip(_SEEDS, (10, 20, 7), strict=True)]
        return [model.task.problem.example, *seeds] if _can_read(model.task.problem) else seeds
    if model.entry.verb == "draw" and model.task.config.told != "small":
        kinds = model.task.facts.classes[:2] if model.task.config.told == "class" else [""]
        return [f"seed={seed} {kind}".strip() for seed in _SEEDS[:1] for kind in kinds]
    return []
