"""Examples of what a model does with a split: what it was shown, what it said, and what it attended to."""

from regard.api.model import Model
from regard.explanation import Explanation
from regard.tasks import Example


def chosen(model: Model, split: str, samples: int) -> list[int]:
    """Which examples to show, the same ones every time."""
    numbers: list[int] = model.task.choose(split, samples)
    return numbers


def examples(model: Model, split: str, numbers: list[int]) -> list[Example]:
    """These examples of a split with what the model makes of them."""
    made: list[Example] = model.task.examples(model.module, split, numbers) if numbers else []
    return made


def overviews(model: Model, split: str) -> list[Explanation]:
    """Explanations of the model as a whole, over many elements of a split."""
    explanations: list[Explanation] = model.task.overviews(model.module, split)
    return explanations
