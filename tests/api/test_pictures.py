from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard import api
from regard.base import ConfigError, RegardError

PNG = b"\x89PNG"


def test_glimpses_are_drawn_and_the_first_ones_move(gazing: api.Model, tmp_path: Path) -> None:
    paths = api.draw_examples(gazing, "test", tmp_path / "new", samples=2)
    numbers = api.chosen(gazing, "test", 2)
    names = [*(f"path_{number}.png" for number in numbers), "error_after_each_glimpse.png", f"path_{numbers[0]}.gif"]
    assert [path.name for path in paths] == names
    assert all(path.read_bytes().startswith(PNG) for path in paths[:3])
    assert paths[3].read_bytes().startswith(b"GIF8")


@pytest.mark.parametrize(("name", "names"), [
    ("captioning", ["places_0.png"]), ("gated", ["gates_all.png"]), ("wide", ["places_0.png"]),
    ("trained", ["matrix_*.png", "bleu_by_source_length.png"]),
])  # fmt: skip
def test_every_model_has_its_pictures(
    name: str, names: list[str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(name)
    paths = api.draw_examples(model, "test", tmp_path, samples=1)
    assert len(paths) == len(names)
    for path, pattern in zip(paths, names, strict=True):
        assert path.match(pattern)
        assert path.read_bytes().startswith(PNG)


def named(model: api.Model, name: str, **settings: Any) -> api.Model:
    """The same model under another name, with other settings in its recipe."""
    return replace(model, name=name, recipe=replace(model.recipe, model=replace(model.recipe.model, **settings)))


def test_what_tells_models_apart(captioning: api.Model) -> None:
    soft, hard = named(captioning, "one"), named(captioning, "two", align="sample")
    assert api.labels([soft, hard, named(captioning, "x", align="sparsemax")]) == ["soft", "hard", "sparsemax"]
    assert api.labels([soft, named(captioning, "y", mean_pooled=True)]) == ["soft", "mean"]
    assert api.labels([soft, hard, named(captioning, "three")]) == ["one", "two", "three"]
    assert api.labels([soft, soft]) == ["1 one", "2 one"]


def test_models_beside_each_other(captioning: api.Model) -> None:
    image = np.random.default_rng(0).integers(0, 255, (40, 60, 3), np.uint8)
    said = captioning.caption(image)
    axes = api.beside([captioning, named(captioning, "hard", align="sample")], image)
    assert [ax.texts[0].get_text() for ax in axes[:, 0] if ax.texts] == ["soft", "hard"]
    words = [text.get_text() for ax in axes[:, 1:].flat for text in ax.texts]
    assert words == 2 * said.tokens
    np.testing.assert_allclose(axes[0, 0].images[0].get_array(), image / 255)
    dark = api.beside([captioning], image, dark=True)
    assert dark[0, 0].figure.get_facecolor() != axes[0, 0].figure.get_facecolor()
    with pytest.raises(ConfigError, match="nothing to draw: got no models"):
        api.beside([], image)
    with pytest.raises(RegardError, match="captioning has no attention"):
        api.places_of(captioning, replace(said, weights=None))
    with pytest.raises(RegardError, match="nothing to draw: got no words for picture 1"):
        api.places_of(captioning, replace(said, name="picture 1", text="", tokens=[]))
