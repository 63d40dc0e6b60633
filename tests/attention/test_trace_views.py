import base64
import html
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import regard
from regard.attention import EdgeList, Record, Trace
from regard.attention.record import GlimpsePath
from regard.attention.trace_views import PageFile, seen_layer
from regard.base import ConfigError, ShapeError

WORDS = ["the", "cat", "sat", "down", "now", "."]


def traced(**options: Any) -> Trace:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 4, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False).eval()
    with torch.no_grad(), regard.trace(model, **options) as seen:
        model(torch.randn(2, 6, 16))
    return seen


def of(*records: Record) -> Trace:
    seen = Trace()
    seen._records = {record.name: record for record in records}
    return seen


def rows_of(page: str, name: str, count: int) -> NDArray[Any]:
    found = re.search(rf'<script type="text/plain" id="{name}">([^<]*)</script>', page)
    assert found
    content = zlib.decompress(base64.b64decode(found[1]))
    low, high = np.frombuffer(content, "<f4", 2 * count).reshape(2, count, 1)
    return np.asarray(
        low + (high - low) * np.frombuffer(content, np.uint8, offset=8 * count).reshape(count, -1) / 255.0
    )


def test_from_a_model_to_its_page(tmp_path: Path) -> None:
    seen = traced(heads=[1, 3], rows=[2, -1])
    seen.label(rows=WORDS, columns=WORDS)
    written = seen.page(tmp_path / "seen.html", item=1, title="Six words")
    text = (tmp_path / "seen.html").read_text(encoding="utf-8")
    assert written == PageFile(tmp_path / "seen.html", len(text.encode()), ())
    assert re.fullmatch(r".*seen\.html: \d+ kB\.", str(written))
    assert str(PageFile(Path("x"), 2_340_000, ("A note.",))) == "x: 2.3 MB. A note."
    facts = re.search(r'id="facts">(.*?)</script>', text)
    assert facts
    layers, texts = (json.loads(facts[1])[name] for name in ("layers", "texts"))
    assert [layer["name"] for layer in layers] == list(seen) == ["layers.0.self_attn", "layers.1.self_attn"]
    assert (layers[1]["heads"], layers[1]["rows"], layers[1]["columnOfRow"]) == ([1, 3], [2, 5], [2, 5])
    assert texts == [["sat", "."], WORDS]
    for place, record in enumerate(seen.values()):
        for head in range(2):
            assert np.abs(rows_of(text, f"r{place}-{head}", 2) - record.weights[1, head]).max() <= 0.5 / 255


def test_heat_maps_grids_and_texts() -> None:
    seen = traced()
    seen.label("*.0.*", rows=[WORDS, WORDS[:4]], columns=[WORDS, WORDS[:4]])
    weights = seen[0].weights
    ax = seen.heatmap("layers.0.self_attn", head=2, item=1)
    np.testing.assert_allclose(np.asarray(ax.images[0].get_array()), weights[1, 2, :4, :4])
    assert [label.get_text() for label in ax.get_yticklabels()] == WORDS[:4]  # padding is cut
    mean = seen.heatmap(1, dark=True)
    np.testing.assert_allclose(np.asarray(mean.images[0].get_array()), seen[1].weights[0].mean(0), rtol=1e-6)
    assert mean.get_title() == "layers.1.self_attn · mean of 4 heads"
    assert len(seen.head_grid("*.1.*").images) == 4
    text = seen.text(0, head=1, row=-1)
    assert (list(text.words), text.title) == (WORDS, "layers.0.self_attn · head 1 · row 5 .")
    np.testing.assert_allclose(text.weights[0], weights[0, 1, 5])
    np.testing.assert_allclose(seen.text(1).weights[0], seen[1].weights[0].mean((0, 1)), rtol=1e-6)
    assert list(seen.text(1).words) == list("012345")


def test_empty_rows_are_not_part_of_the_mean() -> None:
    record = Record("inner", [np.array([[0.0, 0.0], [0.4, 0.6]])])
    assert of(record).text("inner").weights.tolist() == [[0.4, 0.6]]


def test_rows_of_steps_know_their_places() -> None:
    """Two rows of a prompt of five, then one row for each new token."""
    rng = np.random.default_rng(0)
    calls = [rng.dirichlet(np.ones(keys), (1, 2, rows)) for keys, rows in ((5, 2), (6, 1), (7, 1))]
    record = Record("inner", calls, True, queries=[1, 4])
    layer = seen_layer(record)
    assert (list(layer.rows), layer.weights.shape) == ([1, 4, 5, 6], (2, 4, 7))
    assert (layer.weights[:, 2, 6:] == 0).all()  # the key did not exist yet
    record.rows = record.columns = [f"w{number}" for number in range(8)]  # the last one was never read
    assert seen_layer(record).row_words == ["w1", "w4", "w5", "w6"]
    assert seen_layer(record).column_of_row == [1, 4, 5, 6]
    record.rows = ["p", "q", "r", "s"]  # labels of just the rows that were kept
    assert seen_layer(record).row_words == ["p", "q", "r", "s"]
    cross = Record("cross", [rng.dirichlet(np.ones(4), (1, 1)) for _ in range(3)])  # the same keys at every step
    assert list(seen_layer(cross).rows) == [0, 1, 2]
    assert not seen_layer(cross).has_heads
    static = Record("static", [rng.dirichlet(np.ones(9), (1, 1)) for _ in range(3)], queries=[5])  # a cache of one size
    assert list(seen_layer(static).rows) == [5, 6, 7]


def test_edges_become_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = [EdgeList(np.array([[0, 1, 1], [1, 0, 2]]), (2, 3))]
    record = Record("graph", [np.array([[1.0, 0.3, 0.7]])], True, edges=edges)
    assert seen_layer(record).weights.tolist() == [[[0, 1, 0], [0.3, 0, 0.7]]]
    monkeypatch.setattr("regard.attention.trace_views._MOST_DENSE", 5)
    with pytest.raises(ShapeError, match="too many for a matrix: got 2 × 3 pairs"):
        seen_layer(record)


def test_mistakes_are_named(tmp_path: Path) -> None:
    seen = traced(heads=[1, 3], rows=[2, 4])
    place = GlimpsePath(np.zeros((1, 2, 2)), np.ones((1, 2), dtype=bool))
    glimpses = of(Record("ram", [], paths=[place]))
    cases: list[tuple[Any, str]] = [
        (
            lambda: seen.heatmap("layers.1.self_atn"),
            "no such layer: got 'layers.1.self_atn'; expected one of layers.0.*",
        ),
        (lambda: seen.heatmap(2), "no such layer: got 2; .* a number up to 1"),
        (lambda: seen.heatmap(0, head=2), r"head of layers.0.self_attn was not kept: got 2; expected one of \[1, 3\]"),
        (lambda: seen.text(0, row=5), r"row of layers.0.self_attn was not kept: got 5; expected one of \[2, 4\]"),
        (lambda: seen.text(0, row=-3), r"got -3; expected one of \[2, 4\]"),
        (lambda: seen.heatmap(0, item=2), "no such item: got 2; expected a number from 0 to 1"),
        (lambda: seen.head_grid("decoder.*"), "no layer matches: got 'decoder.\\*'; expected a pattern for layers.0"),
        (lambda: seen.page(tmp_path / "x.html", item=-3), "no such item"),
        (lambda: glimpses.page(tmp_path / "x.html"), "ram has no weights: got places"),
        (lambda: glimpses.heatmap("ram"), "ram has no weights: got places"),
        (lambda: Trace().page(tmp_path / "x.html"), "the trace has no records"),
        (lambda: Trace().heatmap(0), "the trace has no records"),
        (lambda: of(Record("x", [np.zeros((2, 3))])).heatmap("x", head=0), "x has no heads"),
        (lambda: of(Record("x", [np.zeros((2, 0))])).text("x"), "nothing to draw"),
        (lambda: of(Record("x", [np.zeros((2, 1, 1))], rows=[["a"]])).text("x"), "got 1 lists; expected 2"),
    ]
    for call, said in cases:
        with pytest.raises((ConfigError, ShapeError), match=said):
            call()
    assert not (tmp_path / "x.html").exists()
    both = of(*traced().values(), *glimpses.values())
    assert both.page(tmp_path / "x.html").notes == ("Left out, since they have places and no weights: ram.",)


def test_notebooks_show_a_page_or_a_table() -> None:
    seen = traced()
    evil = "</iframe><script>alert(1)</script>"
    seen.label(rows=[evil] * 6, columns=[evil] * 6)
    for shown in (seen._repr_html_(), seen[1]._repr_html_()):
        frame = re.fullmatch(r'<iframe sandbox="allow-scripts" [^<>]* srcdoc="([^"<>]*)"></iframe>', shown)
        assert frame
        page = html.unescape(frame[1])
        assert page.startswith("<!doctype html>")
        assert "alert(1)</script>" not in page
        assert len(shown) < 200_000
    large = of(*(Record(f"<{number}>", [np.zeros((1, 8, 400, 400), np.float32)], True) for number in range(70)))
    table = large._repr_html_()
    assert "&lt;0&gt;</td><td>1 × 8 × 400 × 400</td><td>b h q k</td><td>all</td><td>all" in table
    assert "and 10 more layers" in table
    assert "<0>" not in table
    odd = Record("odd", [np.zeros((1, 2, 3)), np.zeros((2, 2, 3))])  # calls that cannot be joined
    assert "2 calls, the first 1 × 2 × 3" in odd._repr_html_()
    assert "nothing" in Trace()._repr_html_()
