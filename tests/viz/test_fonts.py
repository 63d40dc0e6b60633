import warnings

import pytest
from matplotlib.figure import Figure

from regard.viz import fonts
from regard.viz.fonts import extent, families, printable

APL = "⌶"  # in DejaVu Sans Mono, which comes with matplotlib, and not in DejaVu Sans
NOWHERE = "\U0001f9ff"  # an emoji that may have a font here; the fixture takes it away


@pytest.fixture
def only_dejavu(monkeypatch):
    """A machine whose only fonts are matplotlib's own Sans and Sans Mono."""
    caches = fonts._helpers, fonts.printable, fonts._width
    for cache in caches:
        cache.cache_clear()
    monkeypatch.setattr(fonts, "_installed", lambda: ("DejaVu Sans", "DejaVu Sans Mono"))
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.mark.parametrize("text", ["the", "αλήθεια", "мир", "مرحبا", "שלום", "😀", "␣the", "Ġthe", "⏎⇥␣∅◌…"])
def test_dejavu_alone_is_enough(text):
    assert families(text) == ["DejaVu Sans"]
    assert printable(text) == text


def test_a_second_font_fills_in(only_dejavu):
    assert families("a" + APL) == ["DejaVu Sans", "DejaVu Sans Mono"]
    assert printable(APL) == APL


def test_answers_are_not_shared():
    families("the").append("spoiled")
    assert families("the") == ["DejaVu Sans"]


def test_what_no_font_has_is_shown_by_its_code(only_dejavu):
    assert printable("你") == "U+4F60"
    assert printable("a你好b") == "aU+4F60 U+597Db"
    assert printable(NOWHERE) == "U+1F9FF"
    assert families("你") == ["DejaVu Sans"]


def test_the_boxes_of_last_resort_are_no_font():
    assert not any("Last Resort" in name for name in fonts._installed())


def test_an_unreadable_font_covers_nothing(monkeypatch):
    from matplotlib import font_manager

    def broken(*_, **__):
        raise RuntimeError("cannot open")

    monkeypatch.setattr(font_manager, "get_font", broken)
    assert fonts._characters.__wrapped__("DejaVu Sans") == frozenset()


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("", "∅"),
        (" ", "␣"),
        ("   ", "␣␣␣"),
        (" the ", "␣the␣"),
        ("New York", "New York"),
        ("two  spaces", "two␣␣spaces"),
        ("\n", "⏎"),
        ("a\tb", "a⇥b"),
        ("\r\n", "U+000D⏎"),
        ("\x00\x07", "U+0000 U+0007"),
        ("\xa0", "U+00A0"),
        ("\u200b", "U+200B"),
        ("\u200d", "U+200D"),
        ("\ue000", "U+E000"),
        ("\ud83d", "U+D83D"),
        ("\u0301", "◌\u0301"),
        ("e\u0301", "e\u0301"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("$x_1$ \\", "$x_1$ \\"),
    ],
)
def test_the_invisible_becomes_visible(label, shown):
    assert printable(label) == shown


def test_long_labels_lose_their_middle():
    assert printable("a" * 24) == "a" * 24
    assert printable("a" * 12 + "X" + "b" * 12) == "a" * 12 + "…" + "b" * 11
    assert printable("a" * 99, limit=None) == "a" * 99
    assert len(printable("x" * 10_000)) == 24


def test_codes_are_not_cut(only_dejavu):
    shown = printable("你好世界吗我们")
    assert shown == "U+4F60 U+597D… U+4EEC"
    assert len(shown) <= 24


def test_extent_is_what_matplotlib_draws():
    figure = Figure(dpi=300)
    text = figure.text(0, 0, "incomprehensible", fontsize=9, family="DejaVu Sans")
    drawn = text.get_window_extent(fonts.renderer(300)).width / 300
    assert extent("incomprehensible", 9) == pytest.approx(drawn, rel=0.05)


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_nothing_printable_warns(suffix, tmp_path, only_dejavu):
    odd = ["你好", APL, NOWHERE, "\ud83d", "\u0301", "❤\ufe0f", "👩\u200d💻", "می\u200cخواهم", "\x00", "हिन्दी", "𝔸"]
    figure = Figure()
    for place, label in enumerate(odd):
        shown = printable(label)
        figure.text(0.1, place / len(odd), shown, family=families(shown), parse_math=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.savefig(tmp_path / f"odd.{suffix}")
