"""Every kind of explanation on a page of the studio: opened in a browser, used, and compared with Python's numbers."""

import base64
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path as File
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from browser import needs_browser, open_browser, open_page
from examples_of import mirror_of
from PIL import Image
from static_page import STATIC, Site, serve

from regard.explanation import (
    EXPLANATIONS,
    Blocks,
    Boxes,
    Concepts,
    EdgeWeights,
    Gallery,
    Gates,
    Hops,
    Matrix,
    Path,
    Places,
    Shading,
    Tape,
    Video,
    side_by_side,
)  # fmt: skip

RNG = np.random.default_rng(7)
WORDS = ["▁I", "▁lost", "▁my", "▁keys", "</s>"]
IMAGE = RNG.integers(0, 256, (24, 32, 3), dtype=np.uint8)
FRAMES = RNG.integers(0, 256, (3, 8, 12, 3), dtype=np.uint8)


def soft(*shape: int) -> Any:
    """Weights whose last axis sums to 1, as JSON keeps them."""
    weights = np.exp(2 * RNG.normal(size=shape))
    return np.vectorize(lambda value: float(f"{value:.6g}"))(weights / weights.sum(-1, keepdims=True))


MATRIX = Matrix(soft(3, 4, 5), ["▁mes", "▁clés", "<b>", "</s>"], WORDS, layer="decoder.0", title="I lost my keys")
SEEN = np.array([[[1, 1, 0], [1, 0, 0]], [[1, 1, 1], [1, 1, 1]]])
EXAMPLES = {
    "matrix": MATRIX,
    "path": Path(IMAGE, [[0.0, 0.0], [0.5, -0.5], [-0.25, 0.75]], size=6, scales=2, label="7"),
    "places": Places(IMAGE, soft(3, 12).reshape(3, 3, 4), ["a", "red", "dog"], title="a caption"),
    "gates": Gates({"stages.0": RNG.random((6, 4)), "stages.1": RNG.random((6, 8))}, [0, 1, 1, 0, 2, 2],
                   ["cat", "dog", "ship"]),
    "edges": EdgeWeights(soft(2, 4), [1, 2, 3, 0], [0, 0, 0, 0], ["this", "cites", "is cited", "both"]),
    "hops": Hops(soft(3, 3), ["Mary went home.", "John took the milk.", "John went out."], [1, 2],
                 "Where is the milk?", "out"),
    "tape": Tape({"read 0": soft(5, 6), "write 0": soft(5, 6)}, list("abcde"), "copy"),
    "shading": Shading(soft(3, 4), ["not", "so", "bad", "."], "positive"),
    "concepts": Concepts(soft(2, 3, 3), ["▁the", "▁black", "▁cat"], residual=0.25, title="the black cat"),
    "blocks": Blocks(IMAGE, SEEN * soft(2, 6).reshape(2, 2, 3), SEEN, [[2, 3], [20, 30]], ["first", "last"]),
    "gallery": Gallery.of(RNG.integers(0, 256, (2, 3, 5, 5, 3), dtype=np.uint8), columns=["known", "drawn", "picture"]),
    "boxes": Boxes(IMAGE, [[2.0, 3.0, 6.0, 12.0], [12.0, 10.0, 8.0, 15.0]], ["exit", "way"]),
    "video": Video(side_by_side(FRAMES), soft(2, 12).reshape(2, 3, 2, 2), [[1, 1, 6, 7], [6, 2, 11, 7]], [0, 1],
                   ["jumps", "waves"], 1),
}  # fmt: skip


EXAMPLES |= {kind: mirror_of(kind).EXAMPLE for kind in EXPLANATIONS if kind not in EXAMPLES}


def test_every_kind_has_its_file_on_the_page() -> None:
    for kind in EXPLANATIONS:
        assert re.search(
            r"^export (function|const) draw\b", (STATIC / "explanations" / f"{kind}.js").read_text(), re.MULTILINE
        )


def test_files_of_the_page_keep_to_its_rules() -> None:
    for file in STATIC.rglob("*.js"):
        text = file.read_text()
        assert text.count("\n") <= 480, f"{file.name} is too long to read"
        for banned in (
            "innerHTML",
            "insertAdjacentHTML",
            "eval(",
            "new Function",
            "document.write",
            'setAttribute("style"',
        ):
            assert banned not in text, f"{file.name}: {banned}"
        for address in re.findall(r"https?://[^\s\"'`)]+", text):
            assert address.startswith("http://www.w3.org/"), f"{file.name} names {address}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serve(tmp_path_factory.mktemp("page")) as served:
        yield served


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def opened(browser: Any) -> Iterator[Any]:
    with open_page(browser, accept_downloads=True) as one:
        one.set_default_timeout(60_000)
        yield one


@pytest.fixture
def page(opened: Any) -> Iterator[Any]:
    """The one page of this file, as wide as a small window; an error of its scripts fails the test that saw it."""
    errors: list[str] = []
    opened.set_viewport_size({"width": 900, "height": 800})
    listen = lambda message: errors.append(message.text) if message.type == "error" else None  # noqa: E731
    opened.on("console", listen)
    yield opened
    opened.remove_listener("console", listen)
    assert not errors, errors


def readout(page: Any) -> str:
    return str(page.locator(".regard-readout").inner_text())


def state(page: Any) -> dict[str, str]:
    page.wait_for_timeout(400)  # what changes often is written after a moment
    return dict(page.evaluate("Object.fromEntries(new URLSearchParams(location.hash.slice(1)))"))


def data(page: Any, name: str) -> float:
    return float(page.locator(".regard-readout").get_attribute(f"data-{name}"))


def saved(page: Any, kind: str) -> tuple[str, bytes]:
    with page.expect_download() as waiting:
        page.get_by_role("button", name=f"save as {kind}").click()
    return waiting.value.suggested_filename, File(waiting.value.path()).read_bytes()


@needs_browser
@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_kind_is_drawn_and_saved(kind: str, page: Any, site: Site) -> None:
    """Dark, at the width of a phone; then its files: a picture, a drawing that parses, and the JSON of Python."""
    explanation = EXAMPLES[kind]
    page.set_viewport_size({"width": 390, "height": 800})
    site.open(page, explanation, theme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("figure.regard-figure").count() == 1
    assert readout(page)
    for control in page.locator("button, select, input, canvas[tabindex], [role=application]").all():
        assert control.evaluate(
            "node => !!(node.textContent.trim() || node.getAttribute('aria-label') || node.closest('label'))"
        ), control.evaluate("node => node.outerHTML")
    name, content = saved(page, "JSON")
    assert json.loads(content) == json.loads(json.dumps(explanation.to_json()))
    assert name.endswith(".json")
    name, content = saved(page, "SVG")
    root = ElementTree.fromstring(content)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(list(root.iter())) > 3
    assert b"var(--" not in content, "colours are written out"
    name, content = saved(page, "PNG")
    assert content.startswith(b"\x89PNG")
    assert len(content) > 500
    assert kind in name or kind in ("edges", "shading")


@needs_browser
def test_kinds_of_any_size_are_drawn(page: Any, site: Site, random_explanations: Any) -> None:
    """None of something, labels in any script, and markup in labels."""
    site.open(page, MATRIX)
    everything = [each.to_json() for seed in range(3) for each in random_explanations(seed).values()]
    told = page.evaluate(
        """async (everything) => {
          const { drawExplanations } = await import("/explanations/index.js");
          const root = document.body.appendChild(document.createElement("div"));
          const drawn = await drawExplanations(root, everything, {});
          const lines = root.querySelectorAll("figure.regard-figure > .regard-readout");
          const texts = [...lines].map((each) => each.textContent);
          const marked = root.querySelectorAll("figure b b, figcaption script, bdi b").length;
          drawn.destroy();
          return [texts, marked];
        }""",
        everything,
    )
    assert len(told[0]) == len(everything)
    assert all(text and "NaN" not in text and "undefined" not in text for text in told[0])
    assert told[1] == 0


@needs_browser
def test_a_kind_without_a_file_is_a_table_of_its_fields(page: Any, site: Site) -> None:
    """Such as a kind of a user; what is no explanation is refused."""
    site.open(page, MATRIX)
    content = MATRIX.to_json()
    told = page.evaluate(
        """async (content) => {
          const { draw } = await import("/explanations/fields.js");
          const { drawExplanation } = await import("/explanations/index.js");
          const root = document.createElement("div");
          draw(root, { ...content, kind: "other" }, {});
          const refused = [];
          for (const wrong of [{ ...content, kind: "../save" }, { ...content, format: "x" }, null]) {
            await drawExplanation(root, wrong).catch((error) => refused.push(error.message));
          }
          const [cell, line] = ["td", ".regard-readout"].map((name) => root.querySelector(name).textContent);
          return [cell, line, refused.length];
        }""",
        content,
    )
    assert told[0] == f"3 × 4 × 5 numbers, the largest {np.max(MATRIX.weights):.3f}"
    assert "no picture for the kind other" in told[1]
    assert told[2] == 3


@needs_browser
def test_the_map_is_one_of_lightness_and_words_on_it_can_be_read(page: Any, site: Site) -> None:
    site.open(page, MATRIX)
    for theme in ("light", "dark"):
        levels, contrasts, series = page.evaluate(
            """(theme) => {
              const { weightChannels, luminance, contrast, textOn, seriesColours } = window.modules.colours;
              const steps = [...Array(101).keys()].map((n) => weightChannels(n / 100, theme));
              const read = steps.map((each) => contrast(each, textOn(each)));
              return [steps.map(luminance), read, seriesColours(theme)];
            }""",
            theme,
        )
        steps = np.diff(levels) * (1 if theme == "dark" else -1)
        assert (steps > 0).all(), "lightness goes one way, so nobody needs to see hues"
        assert abs(levels[-1] - levels[0]) > 0.5
        assert min(contrasts) >= 4.5
        assert len(set(series)) == 8


@needs_browser
def test_a_matrix_by_pointer_keys_and_address(page: Any, site: Site) -> None:
    weights = np.asarray(MATRIX.weights)
    site.open(page, MATRIX, state="head=1&row=2&column=3")
    assert data(page, "weight") == weights[1, 2, 3]
    assert "␣keys" in readout(page)
    assert "▁" not in page.locator("body").inner_text()
    page.locator("canvas.regard-map").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    assert data(page, "weight") == weights[1, 1, 2]
    assert state(page) == {"head": "1", "row": "1", "column": "2"}
    assert page.evaluate("window.told.at(-1)") == f"clés to my: {weights[1, 1, 2]:.3f}"
    page.get_by_label("head", exact=True).select_option("mean")
    assert data(page, "weight") == pytest.approx(weights.mean(0)[1, 2], abs=1e-12)
    page.get_by_label("special tokens").uncheck()
    assert state(page)["special"] == "hidden"
    page.get_by_role("radio", name="ribbons").click()
    ribbons = page.locator(".regard-ribbons path")
    assert ribbons.count() > 0
    assert not any("</s>" in text for text in page.locator(".regard-ribbons text").all_text_contents())
    drawn = {
        (int(a), int(b)): float(w)
        for a, b, w in ribbons.evaluate_all(
            "all => all.map((p) => [p.dataset.row, p.dataset.column, p.dataset.weight])"
        )
    }
    for (row, column), weight in drawn.items():
        assert weight == pytest.approx(weights.mean(0)[row, column], abs=1e-12)
    page.get_by_role("radio", name="all heads").click()
    sizes = np.exp(-(weights / weights.sum(-1, keepdims=True) * np.log(weights)).sum(-1).mean(-1))
    page.get_by_label("special tokens").check()
    cleanest = page.locator(".regard-heads button", has_text="the cleanest")
    assert cleanest.inner_text().startswith(f"head {sizes.argmin()}")
    assert f"looks at {sizes.min():.1f} words" in cleanest.inner_text()
    cleanest.click()
    assert state(page)["head"] == str(sizes.argmin())
    page.locator("summary", has_text="as a table").click()
    assert page.locator(".regard-numbers td").nth(0).inner_text() == f"{weights[sizes.argmin(), 0, 0]:.3f}"


@needs_browser
def test_a_large_matrix_zooms_pans_and_reads_the_cell_below_the_pointer(page: Any, site: Site) -> None:
    weights = soft(300, 300)
    site.open(page, Matrix(weights, [f"r{n}" for n in range(300)], [f"c{n}" for n in range(300)]))
    canvas = page.locator("canvas.regard-map")
    box = canvas.bounding_box()
    canvas.focus()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.6)
    row, column = re.findall(r"[rc](\d+)", readout(page))[:2]
    assert data(page, "weight") == weights[int(row), int(column)]
    for _ in range(8):
        page.mouse.wheel(0, -200)
    assert re.findall(r"[rc](\d+)", readout(page))[:2] == [row, column], "what is below the pointer stays there"
    before = state(page)
    assert float(before["zoom"]) > 10
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6 - 80, box["y"] + box["height"] * 0.6 - 40, steps=3)
    page.mouse.up()
    after = state(page)
    assert float(after["x"]) > float(before["x"])
    assert "row" not in after, "a drag is not a click"
    page.mouse.click(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.6)
    chosen = state(page)
    assert data(page, "weight") == weights[int(chosen["row"]), int(chosen["column"])]
    page.keyboard.press("0")
    assert "zoom" not in state(page)


@needs_browser
def test_places_follow_words_pointer_and_keys(page: Any, site: Site) -> None:
    places = EXAMPLES["places"]
    site.open(page, places, state="word=1")
    assert data(page, "weight") == places.weights[1].max()
    row, column = np.unravel_index(places.weights[1].argmax(), (3, 4))
    assert f"row {row + 1}, column {column + 1} of 3 × 4" in readout(page)
    page.get_by_role("radio", name="dog").hover()
    assert data(page, "weight") == places.weights[2].max()
    page.get_by_role("radio", name="red").focus()
    page.keyboard.press("ArrowLeft")
    assert state(page) == {"word": "0"}
    canvas = page.locator(".regard-picture canvas")
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.1)
    assert f"here, at row 1, column 4, {places.weights[0, 0, 3]:.3f}" in readout(page)
    raster = Places(IMAGE, soft(6, 6).reshape(6, 2, 3), grid=(2, 3))
    site.open(page, raster)
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    canvas = page.locator(".regard-picture canvas")
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.9)
    assert data(page, "weight") == raster.weights[5].max()
    canvas.focus()
    page.keyboard.press("ArrowUp")
    page.mouse.move(0, 0)
    assert state(page) == {"word": "1"}
    assert data(page, "weight") == raster.weights[1].max()


@needs_browser
def test_blocks_tell_what_was_seen(page: Any, site: Site) -> None:
    blocks = EXAMPLES["blocks"]
    site.open(page, blocks)
    assert f"it sees {100 * blocks.shares()[0]:.0f} % of the picture" in readout(page)
    page.get_by_role("radio", name="last").click()
    assert data(page, "weight") == blocks.weights[1].max()
    assert "it sees 100 %" in readout(page)


@needs_browser
def test_a_path_has_its_places_and_what_was_seen_there(page: Any, site: Site) -> None:
    path = EXAMPLES["path"]
    site.open(page, path, state="step=0")
    assert [data(page, "x"), data(page, "y")] == path.pixels()[0].tolist()
    patch = page.locator(".regard-patches canvas")
    assert patch.count() == path.scales
    address = patch.nth(0).evaluate("canvas => canvas.toDataURL()")
    pixels = patch.nth(0).evaluate("canvas => [...canvas.getContext('2d').getImageData(0, 0, 6, 6).data]")
    assert address.startswith("data:image/png")
    np.testing.assert_array_equal(np.array(pixels).reshape(6, 6, 4)[..., :3], IMAGE[9:15, 13:19])
    page.get_by_role("slider", name="glimpse").focus()
    page.keyboard.press("ArrowRight")
    assert [data(page, "x"), data(page, "y")] == path.pixels()[1].tolist()
    assert state(page) == {"step": "1"}
    assert page.locator(".regard-path svg circle[opacity='1']").count() == 2  # those that come later are faint
    page.get_by_label("boxes of all scales").check()
    assert state(page)["scales"] == "all"


@needs_browser
def test_hops_and_shaded_words_have_the_weights(page: Any, site: Site) -> None:
    hops, shading = EXAMPLES["hops"], EXAMPLES["shading"]
    site.open(page, hops)
    cells = page.locator(".regard-cell").evaluate_all(
        "all => all.map((cell) => [cell.dataset.hop, cell.dataset.slot, cell.dataset.weight].map(Number))"
    )
    assert all(hops.weights[int(hop), int(slot)] == weight for hop, slot, weight in cells)
    assert page.locator(".regard-fact").count() == 2
    page.get_by_role("radio", name="hop 2").click()
    assert readout(page) == f"hop 2 looks most at {hops.slots[hops.weights[1].argmax()]} {hops.weights[1].max():.3f}"
    assert state(page) == {"hop": "1"}
    site.open(page, shading)
    together = (
        page.locator(".regard-text")
        .first.locator("span")
        .evaluate_all("all => all.map((span) => Number(span.dataset.weight))")
    )
    np.testing.assert_allclose(together, shading.together(), atol=1e-12)
    page.get_by_role("radio", name="each hop").click()
    assert page.locator(".regard-text").count() == 4
    page.get_by_role("radio", name="hop 3").click()
    page.locator(".regard-text").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert data(page, "weight") == shading.weights[2, 1]
    assert state(page) == {"hop": "2", "word": "1"}
    sharpest = page.evaluate(
        "async (json) => (await import('/explanations/shading.js')).sharpest(window.modules.parts.numbers(json), 2)",
        shading.to_json()["weights"],
    )
    assert sharpest == shading.sharpest(2)


@needs_browser
def test_a_tape_goes_through_time(page: Any, site: Site) -> None:
    tape = EXAMPLES["tape"]
    site.open(page, tape, state="step=3")
    for place, weights in enumerate(tape.weights.values()):
        told = page.locator(".regard-tapes figcaption span").nth(place)
        assert float(told.get_attribute("data-weight")) == weights[3].max()
        assert f"at slot {weights[3].argmax() + 1}:" in told.inner_text()
    assert readout(page) == "step 4 of 5: d"
    page.get_by_role("slider", name="step").focus()
    page.keyboard.press("ArrowLeft")
    assert state(page) == {"step": "2"}
    box = page.locator(".regard-tapes canvas").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.4)
    assert data(page, "weight") == tape.weights["read 0"][4, 2]


@needs_browser
def test_a_graph_stands_where_python_puts_it(page: Any, site: Site) -> None:
    edges = EXAMPLES["edges"]
    site.open(page, edges, state="head=1&node=0")
    assert data(page, "weight") == edges.weights[1].max()
    assert "this takes from" in readout(page)
    drawn = page.locator("path[data-edge]").evaluate_all(
        "all => all.map((p) => [p.dataset.edge, p.dataset.weight, p.getAttribute('stroke-width')].map(Number))"
    )
    widths = {int(edge): width for edge, _, width in drawn}
    assert {int(edge): weight for edge, weight, _ in drawn} == dict(enumerate(edges.weights[1].tolist()))
    assert sorted(widths, key=widths.get) == np.argsort(edges.weights[1], kind="stable").tolist()
    page.locator("svg[role=application]").focus()
    page.keyboard.press("ArrowRight")
    assert state(page) == {"head": "1", "node": "1"}
    others = [
        edges,
        EdgeWeights([0.5] * 3, [0, 0, 1], [2, 3, 3], list("abcd")),
        EdgeWeights([0.5] * 2, [0, 1], [1, 0], list("abc")),
    ]
    for each in others:
        content = each.to_json()
        places = page.evaluate(
            "async ([n, s, t]) => (await import('/explanations/edges.js')).layout(n, s, t)",
            [len(each.nodes), content["sources"]["values"], content["targets"]["values"]],
        )
        np.testing.assert_allclose(places, each.layout(), atol=1e-12)


@needs_browser
def test_gates_have_means_by_layer_and_class(page: Any, site: Site) -> None:
    gates = EXAMPLES["gates"]
    site.open(page, gates)
    assert data(page, "mean") == pytest.approx(gates.values["stages.0"].mean(), abs=1e-6)
    rows = page.locator("figure table").first.locator("tbody tr").all()
    for row, values in zip(rows, gates.values.values(), strict=True):
        assert row.locator("td").nth(0).inner_text() == f"{values.mean():.3f}"
        assert row.locator("td").nth(1).inner_text() == f"±{values.std(0).mean():.3f}"
    page.get_by_role("radio", name="stages.1").click()
    page.locator("svg[role=application]").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert state(page) == {"layer": "1", "channel": "1"}
    assert data(page, "gate") == pytest.approx(gates.values["stages.1"][:, 1].mean(), abs=1e-6)
    dog = gates.values["stages.1"][1:3, 1].mean()
    assert f"dog {dog:.3f}" in readout(page)


@needs_browser
def test_concepts_are_sums_of_words_as_in_python(page: Any, site: Site) -> None:
    concepts = EXAMPLES["concepts"]
    site.open(page, concepts)
    for layer in (1, 0):
        page.locator("input[type=range]").fill(str(layer))
        told = page.locator(".regard-concepts table").first.locator("td.regard-sum").all_inner_texts()
        assert told == [concepts.as_sum(layer, word) for word in range(3)]
    page.get_by_role("radio", name="cat").click()
    assert data(page, "share") == pytest.approx(concepts.made_of(0, 2, 1)[0].weight, abs=1e-9)
    assert state(page) == {"layer": "0", "word": "2"}


@needs_browser
def test_galleries_boxes_and_clips(page: Any, site: Site) -> None:
    gallery, boxes, video = EXAMPLES["gallery"], EXAMPLES["boxes"], EXAMPLES["video"]
    site.open(page, gallery)
    page.get_by_role("button", name="row 2, drawn").click()
    assert state(page) == {"tile": "4"}
    page.keyboard.press("ArrowLeft")
    assert state(page) == {"tile": "3"}
    large = page.locator("canvas[role=img]").bounding_box()
    page.mouse.move(large["x"] + large["width"] * 0.5, large["y"] + large["height"] * 0.3)
    red, green, blue = gallery.tiles()[1, 0, 1, 2].tolist()
    assert f"row 2, column 3 is red {red}, green {green}, blue {blue}" in readout(page)
    site.open(page, boxes)
    assert readout(page) == "2 boxes"
    page.get_by_role("radio", name="way").click()
    assert page.locator(".regard-readout").get_attribute("data-box") == "12 10 8 15"
    assert readout(page) == "way: 15.0 × 8.0 pixels, from x 10.0, y 12.0"
    site.open(page, video)
    assert data(page, "share") == pytest.approx(video.weights[0, 1].sum(), abs=1e-12)
    page.get_by_role("radio", name="waves").click()
    page.get_by_role("button", name="frame 3").click()
    assert data(page, "share") == pytest.approx(video.weights[1, 2].sum(), abs=1e-12)
    assert state(page) == {"query": "1", "frame": "2"}


@needs_browser
def test_a_saved_picture_is_what_is_shown(page: Any, site: Site) -> None:
    """The largest cell of a matrix has the darkest colour in the SVG, and pictures of tiles come back as they were."""
    matrix = Matrix([[0.1, 0.9], [0.75, 0.25]], ["a", "b"], ["c", "d"], title="<b> & „x“")
    site.open(page, matrix)
    name, content = saved(page, "SVG")
    assert name == "matrix-b-x.svg"
    rects = [
        rect
        for rect in ElementTree.fromstring(content).iter("{http://www.w3.org/2000/svg}rect")
        if rect.find("{*}title") is not None
    ]
    assert [rect.find("{*}title").text for rect in rects] == [
        "a ← c 0.100",
        "a ← d 0.900",
        "b ← c 0.750",
        "b ← d 0.250",
    ]
    light = [sum(map(int, re.findall(r"\d+", rect.get("fill")))) for rect in rects]
    assert np.argsort(light).tolist() == [1, 2, 3, 0]
    page.evaluate("document.querySelector('.regard-figure').remove()")
    site.open(page, EXAMPLES["path"])
    _, content = saved(page, "SVG")
    image = next(ElementTree.fromstring(content).iter("{http://www.w3.org/2000/svg}image"))
    head, _, data_ = image.get("href", "").partition(",")
    assert head == "data:image/png;base64"
    with Image.open(io.BytesIO(base64.b64decode(data_))) as picture:
        np.testing.assert_array_equal(np.asarray(picture.convert("RGB")), IMAGE)
