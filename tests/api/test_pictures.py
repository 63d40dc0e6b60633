from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard import api
from regard.api.pictures import animated, as_png, rendered
from regard.base import ConfigError, RegardError
from regard.data.images import read_image

PNG = b"\x89PNG"


def test_glimpses_are_drawn_and_the_first_ones_move(gazing: api.Model, tmp_path: Path) -> None:
    paths = api.draw(gazing, "test", tmp_path / "new", samples=2)
    numbers = api.chosen(gazing, "test", 2)
    names = [f"glimpses_{number}.png" for number in numbers] + ["errors_by_glimpse.png", f"glimpses_{numbers[0]}.gif"]
    assert [path.name for path in paths] == names
    assert all(path.read_bytes().startswith(PNG) for path in paths[:3])
    assert paths[3].read_bytes().startswith(b"GIF8")


@pytest.mark.parametrize(("name", "start", "count"), [
    ("captioning", "overlay_", 1), ("gated", "gates_by_", 2), ("wide", "map_", 1), ("trained", "alignment_", 1),
])  # fmt: skip
def test_every_model_has_its_pictures(
    name: str, start: str, count: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(name)
    paths = api.draw(model, "test", tmp_path, samples=1)
    assert len(paths) == count
    for path in paths:
        assert path.name.startswith(start)
        assert path.read_bytes().startswith(PNG)


def test_as_files_for_a_page(gazing: api.Model) -> None:
    (one,) = api.examples(gazing, "test", [0])
    (drawing,) = one.drawings
    light, dark = rendered(drawing, dark=False), rendered(drawing, dark=True)
    assert read_image(light).mean() > read_image(dark).mean() + 30
    assert animated(drawing, dark=True).startswith(b"GIF8")
    assert one.image is not None
    np.testing.assert_array_equal(read_image(as_png(one.image)), one.image)


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
    with pytest.raises(RegardError, match="nothing to draw: got no attention for x by hard"):
        api.overlaid({"soft": said, "hard": replace(said, name="x", weights=None)})
    with pytest.raises(RegardError, match="nothing to draw: got no words for picture 1"):
        api.overlaid(replace(said, name="picture 1", tokens=[]))
