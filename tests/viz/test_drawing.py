import numpy as np
import pytest

from regard.base import ConfigError
from regard.explanation import EXPLANATIONS, Matrix, Path
from regard.viz import DRAWINGS, animate, draw, save


@pytest.mark.parametrize(
    ("seed", "dark"),
    [
        pytest.param(seed, dark, marks=[pytest.mark.slow] * ((seed, dark) not in ((0, False), (1, True))))
        for seed in range(8)
        for dark in (False, True)
    ],
)
def test_every_kind_of_any_size_can_be_drawn(seed, dark, random_explanations, tmp_path):
    for kind, explanation in random_explanations(seed).items():
        path = save(draw(explanation, dark=dark), tmp_path / f"{kind}.png", dpi=40)
        assert path.read_bytes().startswith(b"\x89PNG")


def test_every_kind_has_a_drawing():
    assert set(DRAWINGS) == set(EXPLANATIONS)
    for kind, function in DRAWINGS.items():
        assert function.__module__ == f"regard.viz.{kind}"


def test_a_path_moves_and_nothing_else(tmp_path):
    path = Path(np.zeros((20, 20, 3), dtype=np.uint8), [[0.0, 0.0], [0.5, 0.5]], size=4, label="7")
    light, dark = (animate(path, tmp_path / f"{dark}.gif", dark=dark).read_bytes() for dark in (False, True))
    assert light.startswith(b"GIF")
    assert light != dark
    with pytest.raises(
        ConfigError, match=r"only a Path can be animated: got Matrix; expected Path. Try: use draw for a picture"
    ):
        animate(Matrix([[1.0]], ["a"], ["b"]), tmp_path / "a.gif")


@pytest.mark.bare
def test_what_is_no_explanation():
    with pytest.raises(
        ConfigError, match="this is not an explanation that can be drawn: got str; expected matrix, path"
    ):
        draw("matrix")
