import copy
import os
import subprocess
import sys
from itertools import combinations

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from regard.base import ConfigError, ShapeError
from regard.viz import heatmap, heatmaps, save

WORDS = ["the", "quick", "brown", "fox", "over", "a", "lazy", "dog", "$x_1$", "extraordinarily", "incomprehensible"]


def weights(*shape, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(shape[-1]), shape[:-1])


def texts(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def boxes(figure, labels):
    figure.canvas = FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    return [label.get_window_extent(figure.canvas.get_renderer()) for label in labels if label.get_text()]


def overlaps(figure, labels):
    return [pair for pair in combinations(boxes(figure, labels), 2) if pair[0].overlaps(pair[1])]


def outside(figure, labels):
    page = figure.bbox
    return [b for b in boxes(figure, labels) if b.x0 < page.x0 or b.y0 < page.y0 or b.x1 > page.x1 or b.y1 > page.y1]


def test_draws_the_weights_where_they_belong():
    given = weights(2, 3)
    ax = heatmap(given, ["la", "maison"], ["the", "white", "house"])
    assert np.array_equal(ax.images[0].get_array(), given)
    assert texts(ax.yaxis) == ["la", "maison"]
    assert texts(ax.xaxis) == ["the", "white", "house"]
    assert ax.yaxis_inverted(), "the first query is on top"
    assert ax.images[0].origin == "upper"
    ax.figure.draw_without_rendering()
    assert all(tick.label2.get_visible() and not tick.label1.get_visible() for tick in ax.xaxis.get_major_ticks())


def test_labels_that_repeat_stay_in_order():
    ax = heatmap(np.eye(4), ["a", "b", "a", "a"], ["x"] * 4)
    assert texts(ax.yaxis) == ["a", "b", "a", "a"]
    assert list(ax.get_yticks()) == [0, 1, 2, 3]
    assert ax.images[0].get_array().shape == (4, 4)


@pytest.mark.parametrize(
    "given",
    [
        [[0.25, 0.75]],
        ((0.25, 0.75),),
        np.array([[0.25, 0.75]], dtype=np.float16),
        torch.tensor([[0.25, 0.75]], dtype=torch.bfloat16),
        torch.tensor([[0.25, 0.75]], requires_grad=True),
        [torch.tensor([0.25, 0.75], requires_grad=True)],
    ],
    ids=["list", "tuple", "half", "bfloat16", "gradient", "tensors"],
)
def test_takes_any_array(given):
    assert heatmap(given).images[0].get_array().tolist() == [[0.25, 0.75]]


def test_counts_and_booleans_are_numbers_too():
    assert heatmap(np.eye(2, dtype=bool)).images[0].get_clim() == (0, 1)
    assert heatmap([[0, 3]]).images[0].get_clim() == (0, 3)


def test_colour_scale():
    assert heatmap([[0.1, 0.4]]).images[0].get_clim() == (0, 0.4)
    assert heatmap([[0.1, 0.4]], maximum=1.0).images[0].get_clim() == (0, 1)
    low, high = heatmap(np.zeros((2, 2))).images[0].get_clim()
    assert low == 0 < high
    assert heatmap([[0.5]], cmap="gray").images[0].get_cmap().name == "gray"
    assert heatmap([[0.5]], cmap=matplotlib.colormaps["magma"]).images[0].get_cmap().name == "magma"


@pytest.mark.parametrize("size", [3, 12, 25, 50])
def test_no_label_overlaps_another_or_leaves_the_page(size):
    labels = [WORDS[place % len(WORDS)] for place in range(size)]
    ax = heatmap(weights(size, size), labels, labels, title="a title", colorbar=True)
    assert texts(ax.xaxis) == texts(ax.yaxis) == labels, "all of them"
    every = [*ax.get_xticklabels(), *ax.get_yticklabels(), ax.title]
    assert overlaps(ax.figure, every) == []
    assert outside(ax.figure, every) == []
    assert min(label.get_fontsize() for label in every) >= 6
    assert max(ax.figure.get_size_inches()) < 12


def test_short_labels_lie_long_ones_stand():
    assert {label.get_rotation() for label in heatmap(np.eye(3), columns="abc").get_xticklabels()} == {0}
    assert {label.get_rotation() for label in heatmap(np.eye(3), columns=WORDS[8:11]).get_xticklabels()} == {90}


def test_longer_labels_make_the_figure_larger():
    short, long = (heatmap(np.eye(2), rows=[word] * 2).figure.get_size_inches() for word in ("a", "extraordinarily"))
    assert long[0] > short[0] + 0.5
    assert long[1] == pytest.approx(short[1], abs=0.05)


def test_without_labels_there_are_round_numbers():
    ax = heatmap(weights(300, 7))
    assert texts(heatmap(weights(5, 7)).xaxis) == list("0123456")
    assert texts(ax.yaxis)[:2] in (["0", "10"], ["0", "20"], ["0", "50"])
    assert max(ax.figure.get_size_inches()) < 7


def test_in_a_small_axes_some_labels_are_left_out_and_none_overlap():
    figure = Figure(figsize=(3, 3))
    ax = heatmap(weights(50, 50), range(50), [f"word {n}" for n in range(50)], ax=figure.add_subplot())
    shown = texts(ax.xaxis)
    assert 5 < len(shown) < 50
    assert shown == [f"word {place}" for place in ax.get_xticks()]
    assert overlaps(figure, [*ax.get_xticklabels(), *ax.get_yticklabels()]) == []
    assert tuple(figure.get_size_inches()) == (3, 3), "a given figure keeps its size"


def test_numbers_in_cells():
    ax = heatmap([[0.0, 0.004], [0.25, 0.746]])
    assert [text.get_text() for text in ax.texts] == ["0", "0.00", "0.25", "0.75"]
    assert [text.get_position() for text in ax.texts] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert not heatmap(np.eye(2), values=False).texts
    assert len(heatmap(weights(12, 12)).texts) == 144
    assert not heatmap(weights(13, 3)).texts
    assert len(heatmap(weights(13, 3), values=True).texts) == 39
    assert not heatmap(weights(12, 12), ax=Figure(figsize=(1, 1)).add_subplot()).texts, "too small to read"
    assert heatmap([[123.4]]).texts[0].get_text() == "123"


@pytest.mark.parametrize("cmap", ["viridis", "gray", "gray_r", "magma", "Blues"])
def test_numbers_fit_and_stand_out(cmap):
    ax = heatmap(np.linspace(0, 1, 16).reshape(4, 4), cmap=cmap)

    def luminance(colour):
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        return np.dot(linear, [0.2126, 0.7152, 0.0722])

    for text in ax.texts:
        column, row = text.get_position()
        value = ax.images[0].get_array()[row, column]
        cell, ink = luminance(matplotlib.colormaps[cmap](value)[:3]), luminance(to_rgb(text.get_color()))
        contrast = (max(cell, ink) + 0.05) / (min(cell, ink) + 0.05)
        assert contrast >= 4.5, f"{value} in {text.get_color()}"
    assert overlaps(ax.figure, ax.texts) == []


def test_labels_are_literal():
    label = r"$x_1$ \alpha"
    ax = heatmap([[1.0]], [label], [label], title="$\\frac$")
    for text in (*ax.get_xticklabels(), *ax.get_yticklabels(), ax.title):
        assert not text.get_parse_math()
    assert texts(ax.xaxis) == [label]
    ax.figure.canvas = FigureCanvasAgg(ax.figure)
    ax.figure.canvas.draw()  # as mathtext the title would not parse
    assert texts(ax.xaxis) == [label], "still after drawing"


def test_labels_in_any_script_and_none(tmp_path):
    odd = ["αλήθεια", "мир", "مرحبا", "你好", "😀", "👩\u200d💻", "", " ", "a\nb", "\x00", "\ud83d", "x" * 99, "⌶"]
    ax = heatmap(weights(13, 13), odd, odd, title="你\n二")
    assert texts(ax.xaxis)[6:9] == ["∅", "␣", "a⏎b"]
    assert len(texts(ax.yaxis)[11]) == 24
    assert ax.get_title().count("\n") == 1, "a title may have lines"
    for suffix in ("png", "svg", "pdf"):
        save(ax, tmp_path / f"odd.{suffix}")  # a warning about glyphs is an error
    assert overlaps(ax.figure, [*ax.get_xticklabels(), *ax.get_yticklabels()]) == []


def test_labels_need_not_be_strings():
    assert texts(heatmap(np.eye(2), np.array(["a", "b"]), (n for n in (7, 9))).xaxis) == ["7", "9"]


def test_colour_bar():
    assert not heatmap([[1.0]]).child_axes
    ax = heatmap(weights(1, 20), colorbar=True)
    (bar,) = ax.child_axes
    assert bar.get_ylim() == ax.images[0].get_clim()
    assert outside(ax.figure, list(bar.get_yticklabels())) == []


@pytest.mark.parametrize(
    ("call", "error", "parts"),
    [
        (lambda: heatmap(weights(4, 2, 3)), ShapeError, ["[4, 2, 3]", "[q k]", "heatmaps"]),
        (lambda: heatmap([0.5, 0.5]), ShapeError, ["[2]", "heatmaps"]),
        (lambda: heatmap(np.eye(3), rows="ab"), ShapeError, ["rows", "2 labels", "3"]),
        (lambda: heatmap(np.eye(3), columns="abcd"), ShapeError, ["columns", "4 labels", "3"]),
        (lambda: heatmap([[0.1], [0.1, 0.2]]), ShapeError, ["ragged"]),
        (lambda: heatmap([["a"]]), ShapeError, ["not numbers"]),
        (lambda: heatmap([[1j]]), ShapeError, ["not numbers"]),
        (lambda: heatmap(np.ones((0, 3))), ShapeError, ["nothing to draw", "[0, 3]"]),
        (lambda: heatmap([[0.5, np.nan, -np.inf]]), ConfigError, ["not finite", "2 of 3"]),
        (lambda: heatmap([[1.0]], maximum=0.0), ConfigError, ["maximum=0.0", "above 0"]),
        (lambda: heatmap([[1.0]], maximum=float("nan")), ConfigError, ["maximum=nan"]),
        (lambda: heatmap([[1.0]], cmap="mauve"), ConfigError, ["'mauve'", "matplotlib.colormaps"]),
        (lambda: heatmaps(np.eye(3)), ShapeError, ["[3, 3]", "[l h q k]", "use heatmap "]),
        (lambda: heatmaps(weights(1, 1, 1, 2, 2)), ShapeError, ["[1, 1, 1, 2, 2]", "weights[0]"]),
        (lambda: heatmaps({}), ShapeError, ["empty mapping"]),
        (lambda: heatmaps({"one": weights(2, 2), "two": weights(1, 1, 2, 2)}), ShapeError, ["'two'", "[1, 1, 2, 2]"]),
        (lambda: heatmaps({"one": np.eye(2), "two": np.eye(3)}, rows="ab"), ShapeError, ["rows", "2 labels", "3"]),
        (lambda: heatmaps(weights(2, 3, 3), titles=["a"]), ShapeError, ["title", "got 1", "expected 2"]),
        (lambda: save(heatmap([[1.0]]), "weights.bmp"), ConfigError, [".bmp", ".png, .pdf, .svg"]),
        (lambda: save(heatmap([[1.0]]), "weights"), ConfigError, ["''", ".png, .pdf, .svg"]),
    ],
)
def test_errors_say_what_and_how(call, error, parts):
    with pytest.raises(error) as caught:
        call()
    assert [part for part in parts if part not in str(caught.value)] == [], str(caught.value)


@pytest.mark.parametrize(
    ("suffix", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml"), ("PNG", b"\x89PNG")]
)
def test_save_by_suffix_into_new_folders(suffix, magic, tmp_path):
    path = save(heatmap(weights(3, 3)), tmp_path / "new" / "folder" / f"weights.{suffix}")
    assert path.read_bytes().startswith(magic)
    assert os.listdir(path.parent) == [path.name], "nothing else is left behind"


def test_saved_picture_has_the_size_of_the_figure(tmp_path):
    axes = heatmaps(weights(2, 5, 5))
    picture = matplotlib.image.imread(save(axes, tmp_path / "weights.png", dpi=100))
    wide, high = axes[0, 0].figure.get_size_inches() * 100
    assert picture.shape[:2] == (pytest.approx(high, abs=12), pytest.approx(wide, abs=12))
    assert picture[..., :3].std() > 0.1, "not blank"


def test_save_replaces_the_file_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "weights.png"
    path.write_bytes(b"old")
    ax = heatmap(weights(3, 3))
    with monkeypatch.context() as patch:
        patch.setattr(type(ax.figure), "savefig", lambda *_, **__: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            save(ax, path)
    assert path.read_bytes() == b"old"
    save(ax, str(path))
    assert path.read_bytes().startswith(b"\x89PNG")


def test_save_in_a_subfigure(tmp_path):
    part = Figure().subfigures(1, 2)[0]
    assert save(heatmap([[1.0]], ax=part.add_subplot()), tmp_path / "part.png").stat().st_size > 1000


def test_settings_stay_untouched():
    before = copy.deepcopy(dict(matplotlib.rcParams))
    heatmap(weights(3, 3), "abc", "abc", title="t", colorbar=True)
    heatmaps(weights(3, 3, 3), "abc", "abc")
    assert dict(matplotlib.rcParams) == before


def test_settings_of_the_user_do_no_harm():
    with matplotlib.rc_context({"image.origin": "lower", "axes.grid": True, "figure.autolayout": True}):
        ax = heatmap(weights(20, 20), WORDS + WORDS[:9], WORDS + WORDS[:9])
        assert ax.yaxis_inverted()
        assert not any(line.get_visible() for line in ax.get_xgridlines())
        assert overlaps(ax.figure, [*ax.get_xticklabels(), *ax.get_yticklabels()]) == []


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_no_pyplot():
    program = (
        "import sys; from regard.viz import heatmap, heatmaps; heatmap([[1.0]], colorbar=True); heatmaps([[[1.0]]]);"
    )
    done = run(program + "sys.exit('matplotlib.pyplot' in sys.modules)")
    assert done.returncode == 0, done.stderr


def test_without_matplotlib_the_import_works_and_the_call_says_what_to_install():
    program = "import sys; sys.modules['matplotlib'] = None; import regard.viz; regard.viz.heatmap([[1.0]])"
    done = run(program)
    assert done.returncode == 1
    assert "Try: pip install matplotlib, or in a clone of regard pip install '.[viz]'." in done.stderr
    light = run("import sys, regard.viz; sys.exit('matplotlib' in sys.modules or 'torch' in sys.modules)")
    assert light.returncode == 0, light.stderr
