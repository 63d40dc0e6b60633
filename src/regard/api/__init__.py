"""The one entry for command line, web page and notebooks: train a recipe, load a run, use it, evaluate it, show it.

>>> model = load("tatoeba-en-fr")
>>> translation = model.translate("I lost my keys.")
>>> translation.text, translation.weights.shape == (len(translation.tokens), len(translation.source_tokens))
("J'ai perdu mes clés.", True)
"""

from regard.api.alignment import find_head, use_head
from regard.api.examples import chosen, examples, overviews
from regard.api.inputs import example_prediction, first_inputs
from regard.api.model import Model, verb_of
from regard.api.pictures import beside, charts, draw_examples, explanations_of, labels, places_of
from regard.api.report import report
from regard.api.runs import (
    chart_points,
    check_there,
    count_of,
    first_test,
    fit_device,
    is_writable,
    load,
    result,
    train,
    write_result,
)
from regard.api.signs import ReadSign, read_sign
from regard.recipes.zoo import shipped, zoo

__all__ = [
    "Model",
    "ReadSign",
    "beside",
    "chart_points",
    "charts",
    "check_there",
    "chosen",
    "count_of",
    "draw_examples",
    "example_prediction",
    "examples",
    "explanations_of",
    "find_head",
    "first_inputs",
    "first_test",
    "fit_device",
    "is_writable",
    "labels",
    "load",
    "overviews",
    "places_of",
    "read_sign",
    "report",
    "result",
    "shipped",
    "train",
    "use_head",
    "verb_of",
    "write_result",
    "zoo",
]
