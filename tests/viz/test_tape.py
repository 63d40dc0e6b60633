import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex

from regard.explanation import Tape
from regard.viz.tape import draw
from regard.viz.theme import DARK

RNG = np.random.default_rng(0)


def tape(length, slots, **more):
    return Tape({name: RNG.dirichlet(np.ones(slots), length) for name in ("read 0", "write 0")}, **more)


def test_steps_go_to_the_right_and_slots_down():
    given = tape(6, 4, steps=list("abcdef"), title="Copying")
    axes = draw(given)
    assert axes.shape == (1, 2)
    assert np.allclose(axes[0, 1].images[0].get_array(), given.weights["write 0"].T)
    assert [label.get_text() for label in axes[0, 0].get_xticklabels()] == list("abcdef")
    assert [ax.get_title(loc="left") for ax in axes.flat] == ["Copying\nread 0", "write 0"]


def test_long_tapes_and_other_memories_stand_below_each_other():
    assert draw(tape(60, 20)).shape == (2, 1)
    assert draw(Tape({"read 0": np.ones((3, 2)), "read 1": np.ones((3, 5))})).shape == (2, 1)
    box = draw(tape(80, 20))[0, 0].get_window_extent()
    assert box.width / 100 == pytest.approx(4.8, rel=0.02)


def test_many_heads_of_a_kind_share_a_line():
    """Also where they read: a machine with three heads, whose vectors of four numbers stand below each other."""
    given = {"inputs": RNG.random((30, 2)), "adds": RNG.random((30, 12))}
    given |= {f"write {head}": RNG.dirichlet(np.ones(9), 30) for head in range(3)}
    axes = draw(Tape(given | {"reads": RNG.random((30, 5)), "read 0": RNG.dirichlet(np.ones(9), 30)}))
    assert axes.shape == (5, 3)
    shown = [[ax.get_title(loc="left") for ax in line if ax.get_visible()] for line in axes]
    assert shown[0] == ["inputs"]
    assert shown[1] == ["adds, write 0", "adds, write 1", "adds, write 2"]
    assert shown[2] == ["write 0", "write 1", "write 2"]
    assert shown[3:] == [["reads"], ["read 0"]]
    assert np.allclose(axes[1, 2].images[0].get_array(), given["adds"].T[8:])
    assert np.allclose(axes[2, 1].images[0].get_array(), given["write 1"].T)


def test_only_rows_of_heads_are_slots():
    axes = draw(Tape({"inputs": np.ones((3, 2)), "read 0": np.ones((3, 5)), "reads": np.ones((3, 4))}))
    assert [ax.get_ylabel() for ax in axes[:, 0]] == ["", "slot", ""]


@pytest.mark.parametrize("start", [0, 1, 50, 95, 99])
def test_of_a_large_memory_only_what_is_looked_at_is_drawn(start):
    slots = (start + np.arange(12)) % 100  # a circle
    weights = np.zeros((12, 100))
    weights[np.arange(12), slots] = 1.0
    [ax] = draw(Tape({"read 0": weights}))[0]
    drawn = ax.images[0].get_array()
    assert drawn.shape == (14, 12)
    assert np.array_equal(drawn[1:-1], np.eye(12))
    name = ax.yaxis.get_major_formatter()
    assert [name(place, None) for place in (0, 1, 12)] == [str((start - 1) % 100), str(start), str((start + 11) % 100)]


@pytest.mark.parametrize("weights", [np.full((3, 100), 0.01), np.eye(41), np.eye(100)[:2] + np.eye(100)[[50, 50]]])
def test_all_slots_are_drawn_where_heads_look_everywhere_or_nowhere(weights):
    [ax] = draw(Tape({"read 0": weights}))[0]
    assert len(ax.images[0].get_array()) >= 41
    assert ax.images[0].get_array().sum() == pytest.approx(weights.sum())


@pytest.mark.parametrize("given", [tape(1, 1), tape(9, 128), tape(200, 3), tape(20, 20, steps=["слово"] * 20)])
@pytest.mark.parametrize("dark", [False, True])
def test_everything_is_on_the_page(given, dark):
    axes = draw(given, dark=dark)
    figure = axes.flat[0].figure
    figure.canvas = FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    for ax in axes.flat:
        box = ax.get_tightbbox(figure.canvas.get_renderer())
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= figure.bbox.x1
        assert box.y1 <= figure.bbox.y1


def test_dark_and_empty():
    assert to_hex(draw(tape(3, 3), dark=True)[0, 0].figure.get_facecolor()) == DARK.ground
    for nothing in (Tape({}), Tape({"read 0": np.zeros((0, 4))}), Tape({"read 0": np.zeros((4, 0))})):
        assert draw(nothing)[0, 0].texts[0].get_text() == "no steps"
