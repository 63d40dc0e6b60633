"""Pictures of a run: what it attended to, drawn into its folder, and several models beside each other."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.api.examples import chosen, examples, overviews
from regard.api.model import Model
from regard.api.runs import chart_points, result
from regard.base import ConfigError, RegardError, check_installed
from regard.explanation import Explanation, Places
from regard.viz import Chart, animate, can_move, chart_curves, draw, draw_beside, save


def draw_examples(model: Model, split: str, folder: str | Path, *, samples: int = 4) -> list[Path]:
    """Draw what the model did with some examples of a split into a folder; the paths of the pictures.

    There is a picture for each explanation of each example, the first one that can move also as an animation; then
    those of the model as a whole; then the charts of its evaluation. A model without attention has nothing to draw.
    """
    check_installed("matplotlib", what="a drawing")
    folder, written = Path(folder), []
    numbers = chosen(model, split, samples)
    moving: tuple[Explanation, Path] | None = None
    for number, example in zip(numbers, examples(model, split, numbers), strict=True):
        for name, explanation in named(explanations_of(model, example.prediction), str(number)).items():
            written.append(save(draw(explanation), folder / f"{name}.png"))
            if moving is None and can_move(explanation):
                moving = explanation, folder / f"{name}.gif"
    for name, explanation in named(overviews(model, split), "all").items():
        written.append(save(draw(explanation), folder / f"{name}.png"))
    for chart in charts(model, result(model, split)):
        written.append(save(chart_curves({model.name: chart}), folder / f"{chart.title.lower().replace(' ', '_')}.png"))
    if moving is not None:
        written.append(animate(moving[0], moving[1]))
    return written


def explanations_of(model: Model, prediction: Any) -> list[Explanation]:
    """What a prediction carries and, where that is nothing, what its layers have."""
    return list(prediction.explanations) or [
        explanation for explanation in model.layers(prediction) if getattr(explanation, "grid", None) is None
    ]


def named(explanations: Sequence[Explanation], number: str) -> dict[str, Explanation]:
    """Explanations by names for their files: "path_3", or "places_3_1", "places_3_2" for several of a kind."""
    kinds = [explanation.kind for explanation in explanations]
    names: dict[str, Explanation] = {}
    for place, explanation in enumerate(explanations):
        rank = f"_{kinds[: place + 1].count(explanation.kind)}" if kinds.count(explanation.kind) > 1 else ""
        names[f"{explanation.kind}_{number}{rank}"] = explanation
    return names


def charts(model: Model, details: Mapping[str, Any]) -> list[Chart]:
    """The charts of an evaluation, ready to be drawn."""
    points = chart_points(model, details)
    return [
        Chart(chart.title, chart.x, chart.y, tuple(points[chart.key]))
        for chart in model.entry.display.charts
        if chart.key in points
    ]


def beside(models: Sequence[Model], image: Any, *, dark: bool = False, **settings: Any) -> Any:
    """What several models say of one picture and where each word looked, one below the other; the axes, for `save`."""
    if not models:
        raise ConfigError("there is nothing to draw", got="no models", expected="one or more")
    predictions = [model.predict(image, **settings) for model in models]
    return draw_beside(dict(zip(labels(models), map(places_of, models, predictions), strict=True)), dark=dark)


def places_of(model: Model, prediction: Any) -> Places:
    """Where the words of a prediction looked; an error where there is nothing to draw."""
    for explanation in prediction.explanations:
        if isinstance(explanation, Places):
            return explanation
    if getattr(prediction, "weights", None) is None:
        raise RegardError(f"{model.name} has no attention", cure="draw a model that has")
    raise RegardError("there is nothing to draw", got=f"no words for {prediction.source}")


def labels(models: Sequence[Model]) -> list[str]:
    """What tells models apart: how they look ("soft", "hard", …), else their names, else also numbers."""
    looks = [model.task.describe_model(model.recipe.model) for model in models]
    names = [model.name for model in models]
    for candidates in (looks, names):
        if all(candidates) and len(set(candidates)) == len(candidates):
            return candidates
    return [f"{number} {name}" for number, name in enumerate(names, 1)]
