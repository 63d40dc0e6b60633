import re

import numpy as np

from regard.explanation import EdgeWeights, Gates, Hops, Path, Places, Shading, Tape
from regard.explanation.svg import SVG, cells, text

IMAGE = np.zeros((20, 40, 3), dtype=np.uint8)
EVIL = "<b>&\"'</script>"


def test_text_is_escaped_and_controls_are_replaced():
    assert text("<a>\x00&") == "&lt;a&gt;\ufffd&amp;"


def test_cells_have_shades_up_to_the_largest_weight():
    assert cells(np.array([[0.0, 1.0], [-1.0, 0.5]])) == (
        '<path fill-opacity="0.5" d="M1 1h1v1h-1z"/><path fill-opacity="1" d="M1 0h1v1h-1z"/>'
    )
    assert cells(np.zeros((1, 1))) == ""


def test_a_path_has_numbered_dots_where_it_looked():
    drawn = SVG["path"](Path(IMAGE, [[-1.0, -1.0], [0.0, 0.5]], size=4, label=EVIL))
    assert re.findall(r'<circle cx="([^"]+)" cy="([^"]+)"', drawn) == [("0", "0"), ("144", "108")]
    assert drawn.count("<rect") == 2
    assert "2 glimpses → <b>&lt;b&gt;" in drawn
    assert SVG["path"](Path(IMAGE, [], size=4)).count("<circle") == 0


def test_words_have_a_picture_each_and_share_its_bytes():
    drawn = SVG["places"](Places(IMAGE, np.ones((8, 2, 2)), [EVIL, *"bcdefgh"], box=(0, 10, 20, 20)))
    assert drawn.count("data:image/png") == 1
    assert drawn.count("<use") == 8
    assert drawn.count('x="28" y="0" width="56" height="56"') == 8, "the box, in pixels of the page"
    assert EVIL not in drawn


def test_gates_have_a_histogram_for_each_layer():
    drawn = SVG["gates"](Gates({"a": [[0.5, 0.5], [0.5, 1.0]], EVIL: [[0.0], [1.0]]}, [0, 1]))
    assert drawn.count("<svg") == 2
    assert "<td>0.625</td><td>±0.125</td>" in drawn
    assert EVIL not in drawn
    assert SVG["gates"](Gates({}, [])) == ""


def test_edges_are_as_wide_as_their_weight_and_the_strongest_is_on_top():
    drawn = SVG["edges"](EdgeWeights([0.1, 0.4, 0.2], [0, 1, 2], [1, 2, 2], ["a", EVIL, "c"]))
    widths = [float(width) for width in re.findall(r'stroke-width="([^"]+)"', drawn)]
    assert widths == sorted(widths)
    assert len(widths) == 3
    assert "3 nodes, 3 edges; largest weight 0.400" in drawn
    assert EVIL not in drawn
    assert "mean of 2 heads; largest weight 0.300" in SVG["edges"](EdgeWeights([[0.2], [0.4]], [0], [1], ["a", "b"]))


def test_hops_have_a_bar_for_each_line_and_hop():
    drawn = SVG["hops"](Hops([[0.25, 0.75], [1.0, 0.0]], ["one", EVIL], marked=[1], question=EVIL, answer="x"))
    assert [float(width) for width in re.findall(r"width:([\d.]+)rem", drawn)] == [0.75, 3.0, 2.25, 0.0]
    assert drawn.count('class="marked"') == 1
    assert EVIL not in drawn


def test_a_long_text_shows_its_sharpest_hops():
    weights = np.random.default_rng(0).dirichlet(np.ones(900), 12)
    weights[7] = np.eye(900)[4]
    drawn = SVG["shading"](Shading(weights, ["word"] * 900))
    assert "the 4 sharpest hops" in drawn
    assert drawn.count('<p class="shaded"') == 5  # and all hops together
    assert "hop 8<" in drawn
    [line] = [part for part in drawn.split('<p class="said">') if part.startswith("hop 8<")]
    assert line.count("<span") == 1  # words without weight are plain text
    assert 'style="--weight:0.45" title="1.000"' in line


def test_text_is_shaded_by_all_hops_and_by_each():
    drawn = SVG["shading"](Shading([[0.25, 0.75], [0.75, 0.25]], ["one", EVIL], answer=EVIL))
    assert [float(share) for share in re.findall(r"--weight:([\d.]+)", drawn)] == [
        0.45, 0.45, 0.15, 0.45, 0.45, 0.15,
    ]  # fmt: skip
    assert drawn.count('<p class="shaded"') == 3
    assert EVIL not in drawn
    assert "<details>" not in SVG["shading"](Shading([[1.0]], ["alone"]))
    assert SVG["shading"](Shading([], [])) == ""


def test_a_tape_goes_to_the_right():
    drawn = SVG["tape"](Tape({"read 0": [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], EVIL: np.ones((2, 1))}))
    assert 'viewBox="0 0 2 3"' in drawn
    assert 'd="M0 0h1v1h-1zM1 2h1v1h-1z"' in drawn
    assert EVIL not in drawn
