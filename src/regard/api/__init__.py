"""The one entry for command line, web page and notebooks: train a recipe, load a run, use it, evaluate it, show it.

>>> model = load("tatoeba-en-fr")
>>> found = model.translate("I lost my keys.")
>>> found.text, found.weights.shape == (len(found.tokens), len(found.source_tokens))
("J'ai perdu mes clés.", True)
"""

from regard.api.examples import Drawing, Example, chosen, examples, glimpse_drawing, overlaid, pixels, recognised_text
from regard.api.model import Model
from regard.api.pictures import beside, draw, labels
from regard.api.report import report
from regard.api.runs import (
    check_there,
    first_test,
    fit_device,
    is_writable,
    length_curve,
    load,
    result,
    shipped,
    train,
    write_result,
)

__all__ = [
    "Drawing",
    "Example",
    "Model",
    "beside",
    "check_there",
    "chosen",
    "draw",
    "examples",
    "first_test",
    "fit_device",
    "glimpse_drawing",
    "is_writable",
    "labels",
    "length_curve",
    "load",
    "overlaid",
    "pixels",
    "recognised_text",
    "report",
    "result",
    "shipped",
    "train",
    "write_result",
]
