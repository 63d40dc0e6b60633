"""Examples of what a model does with a split: what it was shown, what it said, and what it attended to."""

from collections.abc import Sequence
from difflib import SequenceMatcher

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


EXACT = ("error", "accuracy")  # figures that count answers which are right or wrong
_POOL = 16  # times as many examples as are shown, in which mistakes are looked for


def is_exact(model: Model) -> bool:
    """Whether an answer is right or wrong, as a class is; a translation is better or worse."""
    return model.entry.display.counts in EXACT


def quality(model: Model, example: Example) -> float:
    """How near an answer is to the nearest of its references: 1 is right; 1 also where there is no reference.

    Of answers that are right or wrong it is 1 or 0, of others the share of letters that match (difflib).
    """
    references = [line.strip() for line in example.reference.splitlines() if line.strip()]
    said = str(example.prediction.text).strip()
    if not references:
        return 1.0
    if is_exact(model):
        return float(said in references or " ".join(said.split()) in [" ".join(line.split()) for line in references])
    return max(SequenceMatcher(None, said, reference, autojunk=False).ratio() for reference in references)


def telling(models: Sequence[Model], split: str, samples: int) -> list[int]:
    """Which examples a report of these models shows: up to half of them are mistakes of one of them, if there are any.

    Mistakes are looked for in models whose answers are right or wrong; for others they are those of `chosen`.
    """
    usual = chosen(models[0], split, samples)
    if not samples or not is_exact(models[0]):
        return usual
    pool, wrong = chosen(models[0], split, _POOL * samples), set()
    for model in models:
        made = examples(model, split, pool)
        wrong |= {number for number, example in zip(pool, made, strict=True) if quality(model, example) < 1}
    mistakes = [number for number in pool if number in wrong][: max(1, samples // 2)]
    return [*mistakes, *(number for number in usual if number not in mistakes)][:samples]
