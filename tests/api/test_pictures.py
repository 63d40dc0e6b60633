from pathlib import Path

import numpy as np
import pytest

from regard import api
from regard.api.pictures import animated, as_png, rendered
from regard.data.images import read_image

PNG = b"\x89PNG"


def test_glimpses_are_drawn_and_the_first_ones_move(gazing: api.Model, tmp_path: Path) -> None:
    paths = api.draw(gazing, "test", tmp_path / "new", samples=2)
    numbers = api.chosen(gazing, "test", 2)
    names = [f"glimpses_{number}.png" for number in numbers] + [f"glimpses_{numbers[0]}.gif"]
    assert [path.name for path in paths] == names
    assert all(path.read_bytes().startswith(PNG) for path in paths[:2])
    assert paths[2].read_bytes().startswith(b"GIF8")


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
