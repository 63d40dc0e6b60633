import re
from html.parser import HTMLParser

import numpy as np
import pytest

from regard.base import ConfigError
from regard.explanation import Gates, Matrix, Path, Places, Tape
from regard.viz import Chart, RunReport, Sample, explanation_page, report_page

EVIL = "<b>&\"'</script><script>alert(1)</script>"
VOID = {"meta", "br", "wbr", "img", "link", "input", "hr", "source"}
RECORDS = [
    {"step": 1, "kind": "train", "loss": 4.0},
    {"step": 2, "kind": "train", "loss": 3.0},
    {"step": 1, "kind": "valid", "loss": 3.9, "bleu": 4.0},
    {"step": 2, "kind": "valid", "loss": 3.5, "bleu": 12.0},
]


class Page(HTMLParser):
    """The elements of a page with their attributes; fails where tags do not nest."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.words = [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.words.append(data)

    def all(self, tag, kind=None):
        return [
            attrs
            for name, attrs in self.elements
            if name == tag and (not kind or kind in attrs.get("class", "").split())
        ]

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def weights(rows, columns, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(columns, 0.2), rows)


def lengths(*points):
    points = points or [("1–10", 30.0, 80), ("11–20", None, 0), ("21–30", 12.0, 7)]
    return Chart("BLEU by length of the source", "words in the source, and number of sentences", "BLEU", points)


def alignment(values=None, **more):
    return Matrix(weights(2, 3) if values is None else values, ["la", "maison"], ["the", "house", "."], **more)


def sample(*more):
    return Sample("the house .", "la maison .", "la maison", [alignment(), *more])


@pytest.fixture(scope="module")
def three():
    heads = alignment(np.stack([weights(2, 3, head) for head in range(4)]))
    runs = [
        RunReport(
            "plain", "Cho et al., https://arxiv.org/abs/1406.1078.", samples=[Sample("the house .", "", "maison")]
        ),
        RunReport(
            "additive",
            scores={"BLEU": "26.75\nnrefs:1|case:mixed", "chrF": "50.1"},
            facts={"Parameters": "51 M"},
            curves=RECORDS,
            charts=[lengths()],
            samples=[sample()],
        ),
        RunReport("heads", curves=RECORDS, charts=[lengths()], facts={"Steps": "2"}, samples=[sample(heads)]),
    ]
    return report_page(runs, title="Three runs", intro="First.\n\nSecond, with https://example.org/a_(b).")


def test_the_page_stands_alone(three):
    page = Page(three)
    assert [attrs for tag, attrs in page.elements if "src" in attrs or "srcset" in attrs] == []
    assert page.all("link") == []
    for tag, attrs in page.elements:
        href = attrs.get("href", attrs.get("xlink:href", ""))
        assert not href or href.startswith("#") or (tag == "a" and href.startswith("https://")), (tag, href)
        assert "url(" not in attrs.get("style", "").replace("url(#", "")
    assert "@import" not in three
    assert "default-src 'none'" in next(attrs["content"] for attrs in page.all("meta") if "http-equiv" in attrs)
    style = re.search(r"<style>(.*?)</style>", three, re.DOTALL)[1]
    assert "url(" not in style
    assert "prefers-color-scheme: dark" in style
    assert "@media print" in style


def test_ids_are_unique_and_references_lead_somewhere(three):
    elements = Page(three).elements
    ids = [attrs["id"] for _, attrs in elements if "id" in attrs]
    assert len(ids) == len(set(ids)) > 20
    used = {attrs["href"][1:] for tag, attrs in elements if tag == "use"} | set(re.findall(r"url\(#([^)]+)\)", three))
    assert used == set(ids), "only what is used is named"


def test_the_table_has_runs_as_columns(three):
    page = Page(three)
    table = three[three.index("<table") : three.index("</table>")]
    assert [len(re.findall("<th|<td", line)) for line in table.split("<tr")[1:]] == [4] * 5
    assert table.count('<td><span class="empty">') == 8, "a run may lack a score or a fact"
    assert "26.75<small>nrefs:1|<wbr>case:mixed</small>" in table
    assert table.index("BLEU") < table.index("chrF") < table.index("Parameters") < table.index("Steps")
    assert {attrs["href"] for attrs in page.all("a")} == {
        "https://arxiv.org/abs/1406.1078",
        "https://example.org/a_(b)",
    }
    assert 'href="https://arxiv.org/abs/1406.1078">arxiv.org/abs/1406.1078</a>.' in three
    assert len(re.findall(r'<p dir="auto">', three)) == 2


def test_figures_are_drawn_in_the_colours_of_the_page(three):
    page = Page(three)
    pictures = re.findall(r"<figcaption>([^<]+)</figcaption>\n(<svg .*?</svg>)", three, re.DOTALL)
    assert [name for name, _ in pictures] == ["BLEU by length of the source", "Loss", "BLEU during training"]
    for _, svg in pictures:
        assert "var(--c2)" in svg, "the second run keeps its colour where the first has no numbers"
        assert "var(--c3)" in svg
        assert "var(--c1)" not in svg
        assert not re.search(r"#[0-9a-f]{6}", svg), "all colours follow the scheme"
        assert len(svg) < 40_000
        assert "<style" not in svg
    assert len(page.all("svg", "key")) == 3 + 3 + 2


def test_one_evaluation_is_no_curve():
    page = report_page([RunReport("a", curves=RECORDS[:2] + RECORDS[-1:])], title="t")
    assert "<figcaption>Loss" in page
    assert "BLEU during training" not in page


def test_runs_on_different_test_sets_have_figures_of_their_own():
    charts = {"a": lengths(), "b": lengths(("1–9", 3.0, 4)), "c": lengths()}
    runs = [RunReport(name, charts=[chart]) for name, chart in charts.items()]
    assert report_page(runs, title="t").count("<figcaption>BLEU by length") == 2


def test_a_sentence_comes_once_with_all_outputs(three):
    page = Page(three)
    assert len(page.all("article", "sample")) == 1
    assert len(page.all("dd", "output")) == 3
    assert len(page.all("dd", "reference")) == 1
    assert len(page.all("figure", "map")) == 2, "a run without attention has no alignment"


def test_weights_are_embedded_in_thousandths(three):
    maps = Page(three).all("figure", "map")
    found = [[int(part or 0) / 1000 for part in row.split(",")] for row in maps[0]["data-weights"].split(";")]
    assert np.allclose(found, weights(2, 3), atol=5.01e-4)
    options = Page(three).all("option")
    assert ["data-weights" in option for option in options] == [False, True, True, True, True]
    names = re.findall(r"<option[^>]*>([^<]*)</option>", three)
    assert names == ["weights", "head 0", "head 1", "head 2", "head 3"]


def test_the_picture_is_there_without_the_script():
    given = Sample("a b", "", "x y", [Matrix([[1.0, 0.0], [0.25, 0.5]], ["x", "y"], ["a", "b"])])
    text = report_page([RunReport("r", samples=[given])], title="t")
    cells = re.findall(r'<path fill-opacity="([^"]+)" d="([^"]+)"/>', text)
    assert cells == [("0.25", "M0 1h1v1h-1z"), ("0.5", "M1 1h1v1h-1z"), ("1", "M0 0h1v1h-1z")]
    assert "largest weight 1.000" in text
    assert 'data-weights="1000,;250,500"' in text


def test_everything_is_escaped():
    run = RunReport(
        EVIL, EVIL, {EVIL: EVIL + "\n" + EVIL}, {EVIL: "javascript:alert(1) https://a.org/" + EVIL}, [],
        [Sample(EVIL, EVIL, EVIL, [Matrix([[weight]], [EVIL], [EVIL], layer=EVIL) for weight in (1.0, 0.5, 0.1)])],
        charts=[Chart(EVIL, EVIL, EVIL, [(EVIL, 1.0, 2)])],
    )  # fmt: skip
    text = report_page([run], title=EVIL, intro=EVIL)
    page = Page(text)
    assert len(page.all("script")) == 2
    assert page.all("b") == [{}], "the number of the sentence only"
    assert page.text.count(EVIL) > 12
    assert {attrs["href"] for attrs in page.all("a")} == {"https://a.org/"}


def test_characters_that_html_cannot_hold():
    text = report_page([RunReport("a\x00b\ud800", samples=[Sample("s\x1b", "", "o")])], title="t")
    assert "a\ufffdb\ufffd" in text
    text.encode()


def test_sub_words_and_other_scripts():
    rows = ["▁mais", "on", "▁", "\n", "", "."]
    columns = ["他", "早上", "مدرسة", "a▁b"]
    given = Sample("他早上", "", "ولد", [Matrix(weights(6, 4), rows, columns)])
    text = report_page([RunReport("r", samples=[given])], title="t")
    labels = re.findall(r'<span dir="auto"( class="\w+")?>([^<]*)</span>', text[text.index('<div class="columns">') :])
    assert [label for _, label in labels] == ["他", "早上", "مدرسة", "a␣b", "mais", "on", "␣", "⏎", "␣", "."]
    assert [kind.strip() for kind, _ in labels if kind] == ['class="upright"'] * 2 + ['class="inner"']
    assert '<dd class="output" dir="auto">ولد' in text


def test_several_references_and_empty_outputs():
    given = [Sample("s", "one\ntwo", ""), Sample("t")]
    page = Page(report_page([RunReport("r", samples=given)], title="t"))
    assert len(page.all("dd", "reference")) == 2
    assert page.text.count("nothing") == 2


@pytest.mark.parametrize("number", [1, 8])
def test_one_and_eight_runs(number):
    runs = [RunReport(f"run {place}", samples=[sample()]) for place in range(number)]
    page = Page(report_page(runs, title="t"))
    assert len(page.all("figure", "map")) == number
    assert {attrs["class"] for attrs in page.all("svg", "key")} == {f"key k{place + 1}" for place in range(number)}


def test_parts_without_content_are_left_out():
    text = report_page([RunReport("r", samples=[])], title="t")
    assert re.findall("<h2>(.*?)</h2>", text) == ["Runs"]
    assert "<p" not in text[text.index("<body>") : text.index("<main>")]
    nothing = RunReport("r", charts=[lengths(("1–10", float("nan"), 0))], curves=[{"step": 1, "loss": float("nan")}])
    assert "Curves" not in report_page([nothing], title="t")


def test_a_report_is_small():
    rows = [f"▁word{place}" for place in range(30)]
    layers = [
        Matrix(np.stack([weights(30, 30, head) for head in range(4)]), rows, rows, layer=f"layer {layer}")
        for layer in range(2)
    ]
    many = [
        Sample(f"{number}", "r", "o", [Matrix(weights(30, 30, number), rows, rows), *layers]) for number in range(12)
    ]
    text = report_page([RunReport(name, samples=many) for name in "abc"], title="t")
    assert len(text.encode()) < 1_400_000, "figures need 100 kB more"
    assert (text.count("<details open>"), text.count("<details>")) == (3, 9)


def test_a_report_is_the_same_each_time():
    runs = [RunReport("a", charts=[lengths()], samples=[sample()])]
    assert report_page(runs, title="t") == report_page(runs, title="t")


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ([], "a report needs runs: got none; expected at least one RunReport"),
        ([RunReport("a"), RunReport("a")], "runs must have different names: got a twice. Try: rename"),
    ],
    ids=["none", "twice"],
)
def test_wrong_reports(runs, message):
    with pytest.raises(ConfigError, match=message):
        report_page(runs, title="t")


# ── pictures ────────────────────────────────────────────────────────────────────────────────────────────────────────


IMAGE = np.zeros((4, 6, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def seeing():
    raster = Places(IMAGE, np.full((4, 2, 2), 0.25), grid=(2, 2), title="every place")
    words = Places(IMAGE, np.full((1, 2, 2), 0.25), ["seven"])
    gates = Gates({"block": [[0.25, 0.75]]}, [0], ["seven"], title=EVIL)
    samples = [
        Sample("picture 1", "7", "7 (99 %)", [words], IMAGE),
        Sample("picture 2", "3", "8 (51 %)", image=IMAGE),
    ]
    runs = [
        RunReport("looks", samples=samples, curves=[{"step": s, "kind": "valid", "error": 9.0 - s} for s in (1, 2)]),
        RunReport("gates", samples=[Sample("picture 1", "7", "1 (40 %)", [raster])], explanations=[gates]),
    ]
    return report_page(runs, title="Pictures", figure=("error", "Error, %"), samples="Pictures & more")


def test_pictures_are_inside_the_page(seeing):
    page = Page(seeing)
    files = [attrs["src"] for attrs in page.all("img")] + [attrs["srcset"] for attrs in page.all("source")]
    assert len(files) == 2 + 1 + 2 + 2 + 1  # thumbnails; words; words and gates, for light and dark pages; a map
    assert all(file.startswith("data:image/png;base64,") for file in files)
    assert "img-src data:" in next(attrs["content"] for attrs in page.all("meta") if "http-equiv" in attrs)
    assert all(attrs["alt"] for attrs in page.all("img"))
    assert EVIL not in seeing


def test_runs_share_a_picture(seeing):
    page = Page(seeing)
    assert len(page.all("article")) == 2
    first = seeing[seeing.index("<article") : seeing.index("</article>")]
    assert first.count('class="output"') == 2  # what both said of it
    assert first.count('class="thumbnail"') == 1
    assert first.index('class="shown"') < first.index('class="places"')
    assert "<summary>Attention</summary>" in first
    assert "<summary>" not in seeing[seeing.index("</article>") :]  # the second has nothing to show


def test_sections_have_the_names_of_the_task(seeing):
    assert re.findall(r"<h2>(.*?)</h2>", seeing) == ["Runs", "Curves", "Inside", "Pictures &amp; more"]
    assert re.findall(r"<figcaption>([^<]+)</figcaption>", seeing) == ["Error, % during training"]


# ── explanations and charts ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_page_draws_explanations_itself():
    image = np.zeros((12, 16, 3), dtype=np.uint8)
    matrix = Matrix(weights(2, 3), ["la", "maison"], ["the", "house", "."], layer="cross")
    raster = Places(image, np.full((4, 2, 2), 0.25), grid=(2, 2), title=EVIL)
    tape = Tape({"read 0": [[0.5, 0.5]]})
    runs = [
        RunReport("text", samples=[Sample("the house .", "", "la maison", explanations=[matrix])]),
        RunReport(
            "seen", samples=[Sample("picture", "", "7", explanations=[raster], image=image)], explanations=[tape]
        ),
    ]
    text = report_page(runs, title="t")
    page = Page(text)
    assert len(page.all("figure", "map")) == 1
    assert len(page.all("figure", "places")) == 1
    assert len(page.all("figure", "shown")) == 1
    assert re.findall("<summary>(.*?)</summary>", text) == ["Alignments", "Attention"]
    assert re.findall(r"<h2>(.*?)</h2>", text) == ["Runs", "Inside", "Translations"]
    assert len(page.all("img", "thumbnail")) == 1
    assert EVIL not in text


def test_only_the_first_sample_moves():
    path = Path(np.zeros((12, 16, 3), dtype=np.uint8), [[0.0, 0.0]], size=4)
    samples = [Sample(f"picture {number}", explanations=[path]) for number in range(3)]
    text = report_page([RunReport("a", samples=samples)], title="t")
    assert text.count("step by step") == 2, "in its title and in its text"
    assert text.count("data:image/gif") == 2


def test_runs_share_their_charts():
    def chart(value, title="Error by glimpse", labels="12"):
        return Chart(title, "glimpses", "error, %", [(label, value, None) for label in labels])

    runs = [
        RunReport("a", charts=[chart(3.0), chart(None, "empty")]),
        RunReport("b", charts=[chart(2.0), chart(1.0, "Other \\1 <b>")]),
        RunReport("c", charts=[chart(2.0, labels="123")]),
    ]
    text = report_page(runs, title="t")
    figures = dict.fromkeys(re.findall(r"<figcaption>([^<]+)</figcaption>\n<svg", text))
    assert list(figures) == ["Error by glimpse", "Other \\1 &lt;b&gt;"]
    pictures = re.findall(r"<figcaption>[^<]+</figcaption>\n(<svg .*?</svg>)", text, re.DOTALL)
    colours = [[f"--c{n}" for n in (1, 2, 3) if f"var(--c{n})" in svg] for svg in pictures]
    assert sorted(colours) == [["--c1", "--c2"], ["--c2"], ["--c3"]]


def test_mistakes_come_first_and_are_marked():
    samples = [
        Sample("right", "7", "7"),
        Sample("wrong", "1", "9", quality=0.0, mistaken=True),
        Sample("near", "a", "b", quality=0.5),
    ]
    text = report_page([RunReport("a", samples=samples)], title="t")
    order = re.findall(r'<h3><b>\d</b><span dir="auto">(\w+)</span>', text)
    assert order == ["wrong", "near", "right"]
    assert text.count('<dd class="output wrong"') == 1
    assert text.index('<dd class="output wrong"') < text.index(">near<")


def test_settings_that_differ_come_first():
    runs = [
        RunReport("a", settings={"same": "1", "lr": "0.1"}),
        RunReport("b", settings={"same": "1", "lr": "0.2", "new": "x"}),
    ]
    text = report_page(runs, title="t")
    rows = re.findall(r'<tr class="(fact[ \w]*)"><th scope="row">(\w+)</th>', text)
    assert rows == [("fact differs", "lr"), ("fact differs", "new"), ("fact", "same")]
    assert "<summary>3 settings</summary>" in text
    assert "settings</summary>" not in report_page([RunReport("a")], title="t")


def test_a_page_of_explanations():
    first = Matrix(np.eye(2), ["a", "b"], ["x", "y"], layer="cross, head 1", axes=("translation", "source"))
    heads = Matrix(np.ones((3, 2, 2)) / 2, ["a", "b"], ["x", "y"], layer="cross")
    page = explanation_page([first, heads], title="<in>", lines=["out", ""])
    assert '<h1 dir="auto">&lt;in&gt;</h1>' in page
    assert page.count("<option") == 3
    assert "<span>cross, head 1</span>" in page
    assert page.count("translation ↓ · source →") == 1
    assert "Every layer and head" not in explanation_page([first], title="t")
