from dataclasses import dataclass

import numpy as np
import pytest

from regard.explanation import Displayed, Matrix
from regard.explanation.displayed import MOST


@dataclass(frozen=True)
class Said(Displayed):
    source: str
    text: str
    explanations: tuple[Matrix, ...] = ()


def matrix(name: str) -> Matrix:
    return Matrix(np.eye(2), ["a", "b"], ["x", "y"], title=name)


def test_a_prediction_displays_itself() -> None:
    page = Said("<in>", "out & done", (matrix("one"),))._repr_html_()
    assert page.startswith('<div class="regard widget">')
    assert "&lt;in&gt;" in page
    assert "<b>out &amp; done</b>" in page
    assert page.count("<figure") == 1
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_many_explanations_are_cut_and_counted() -> None:
    page = Said("in", "", tuple(matrix(str(number)) for number in range(MOST + 3)))._repr_html_()
    assert page.count("<figure") == MOST
    assert "3 more in <code>.explanations</code>" in page
    assert "<i>no words</i>" in page


@pytest.mark.parametrize("name", [
    "ActedScene", "Answer", "Caption", "ClassifiedText", "Computed", "Drawn", "FoundWords", "Generated",
    "LabelledNode", "Prediction", "ReadWord", "Recognised",
])  # fmt: skip
def test_every_prediction_does(name: str) -> None:
    import importlib
    import pkgutil

    import regard.tasks

    found = [
        getattr(importlib.import_module(f"regard.tasks.{module.name}"), name, None)
        for module in pkgutil.iter_modules(regard.tasks.__path__)
    ]
    kinds = {kind for kind in found if kind is not None}
    assert len(kinds) == 1
    assert issubclass(kinds.pop(), Displayed)


def test_attention_displays_its_weights() -> None:
    import torch

    from regard.attention import MultiHead, attend

    x = torch.randn(2, 3, 8)
    assert "query 2" in attend(x, x, x)._repr_html_()
    page = MultiHead(8, num_heads=2)(x, need_weights=True)._repr_html_()
    assert page.count("<option") == 2
    assert "not asked for" in MultiHead(8, num_heads=2)(x, need_weights=False)._repr_html_()


def test_a_translation_displays_its_alignment() -> None:
    from regard import api

    found = api.load("tatoeba-en-fr").translate("Thank you.")
    page = found._repr_html_()
    assert "Thank you." in page
    assert "<span>decoder.1.cross, head 3: the best aligned</span>" in page
    assert "translation ↓ · source →" in page
    assert page.count(found.text) == 1  # the title of the alignment is the answer, which stands above
