"""Recipes of scene text: twins that differ in one thing, and small ones that learn."""

from dataclasses import replace
from pathlib import Path

import pytest

from regard import api
from regard.recipes import RECIPES
from regard.recipes.recipe import build_model, build_task


def test_twins_differ_in_how_letters_come_out() -> None:
    one, flat, ctc = (RECIPES[f"scene_text/rendered{name}"]() for name in ("", "_2d", "_ctc"))
    assert one.train == flat.train == ctc.train
    assert one.task == ctc.task == replace(flat.task, keep_ratio=False)
    assert replace(ctc.model, decoder="attention") == one.model
    assert (flat.model.decoder, flat.model.rectify) == ("attention_2d", False)
    real = RECIPES["scene_text/iiit5k"]()
    assert real.task.real == ("iiit5k", "icdar2015")


def test_the_small_reader_is_small_enough_to_be_handed_out() -> None:
    recipe = RECIPES["scene_text/rendered_small"]()
    model = build_model(recipe, build_task(recipe))
    assert sum(4 * tensor.numel() for tensor in model.state_dict().values()) < 8e6


@pytest.mark.bare  # the hook would take as long again
def test_the_small_one_reads_digits_and_looks_from_left_to_right(tmp_path: Path) -> None:
    """One or two digits: chance reads about one in fifty."""
    model = api.train(RECIPES["scene_text/smoke"](), tmp_path / "run")
    evaluation = model.evaluate("test")
    assert evaluation.figures["accuracy"] >= 90
    words = model.task.held_out("test")
    numbers = [number for number, text in enumerate(words.texts) if len(text) == 2][:30]
    read = [example.prediction for example in model.task.examples(model.module, "test", numbers)]
    ordered = [
        word.weights[0].sum(0).argmax() <= word.weights[1].sum(0).argmax() for word in read if len(word.text) == 2
    ]
    assert sum(ordered) >= 0.9 * len(ordered) > 0


@pytest.mark.bare
@pytest.mark.slow
def test_the_small_detector_finds_words(tmp_path: Path) -> None:
    """Boxes at chance hit nothing."""
    recipe = RECIPES["scene_text/signs_smoke"]()
    model = api.train(replace(recipe, train=replace(recipe.train, steps=50, evaluate_every=50)), tmp_path / "run")
    assert model.evaluate("test").figures["f1"] > 40
