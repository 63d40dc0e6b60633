import math
from itertools import combinations

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from regard.base import ConfigError
from regard.viz import LengthBucket, length_curves, loss_curves, save

BUCKETS = [("1–10", 30.0, 80), ("11–20", 28.5, 1120), ("21–30", None, 0), ("> 30", 12.0, 7)]
NAMES = [f"{place}: RNNsearch with the additive score and a name that does not end" for place in range(8)]


def drawn(ax):
    ax.figure.canvas = FigureCanvasAgg(ax.figure)
    ax.figure.draw_without_rendering()
    return ax.figure.canvas.get_renderer()


def texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def records(*steps, kind="train", start=9.0):
    return [{"step": step, "kind": kind, "loss": start - step / 1000, "tokens_per_second": 1e4} for step in steps]


def test_lengths_are_drawn_with_gaps_and_counts():
    ax = length_curves({"a": [LengthBucket(*bucket) for bucket in BUCKETS], "b": BUCKETS}, title="BLEU by length")
    values = ax.lines[0].get_ydata()
    assert values[:2].tolist() == [30.0, 28.5]
    assert math.isnan(values[2]), "an empty bucket is a gap, not a zero"
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1–10", "11–20", "21–30", "> 30"]
    assert [text.get_text() for text in ax.texts] == ["80", "1,120", "0", "7"]
    assert (ax.get_ylabel(), ax.get_title(loc="left"), texts(ax)) == ("BLEU", "BLEU by length", ["a", "b"])
    assert ax.get_ylim()[0] == 0


def test_a_measure_may_be_negative():
    ax = length_curves({"a": [("1–10", -0.4, 3), ("11–20", 0.2, 3)]}, ylabel="COMET")
    assert ax.get_ylim()[0] < -0.4


@pytest.mark.parametrize("draw", [length_curves, loss_curves])
def test_eight_runs_differ_with_and_without_colour(draw):
    given = BUCKETS if draw is length_curves else records(1, 2, kind="valid")
    ax = draw(dict.fromkeys(NAMES, given))
    assert len({line.get_color() for line in ax.lines}) == 8
    assert len({line.get_marker() for line in ax.lines}) == 8
    if draw is length_curves:
        assert ax.lines[0].get_linestyle() != ax.lines[1].get_linestyle()
    for first, second in combinations([np.array(to_rgb(line.get_color())) for line in ax.lines], 2):
        assert np.abs(first - second).max() > 0.2


@pytest.mark.parametrize("draw", [length_curves, loss_curves])
@pytest.mark.parametrize("number", [1, 8])
def test_the_legend_hides_nothing_and_is_inside(draw, number):
    given = BUCKETS if draw is length_curves else records(1, 2, 3)
    ax = draw(dict.fromkeys(NAMES[:number], given), title="a title")
    pen = drawn(ax)
    legend = ax.get_legend().get_window_extent(pen)
    labels = [*ax.get_xticklabels(), *ax.texts, ax.xaxis.label]
    assert legend.y1 < min(label.get_window_extent(pen).y0 for label in labels if label.get_text()) + 1
    assert legend.y1 < ax.get_window_extent(pen).y0
    page = ax.figure.bbox
    assert legend.x1 <= page.x1
    assert legend.y0 >= page.y0
    assert ax.get_window_extent(pen).height > 120, "room for the curves is left"


def test_labels_do_not_touch():
    few, many = BUCKETS, [(f"{5 * n + 1}–{5 * n + 5}", 20.0, 10_000 * n) for n in range(14)]
    for buckets in (few, many):
        ax = length_curves({"a": buckets})
        pen = drawn(ax)
        boxes = [text.get_window_extent(pen) for text in [*ax.get_xticklabels(), *ax.texts, ax.xaxis.label]]
        assert not [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])]
    assert ax.get_xticklabels()[1].get_text() == "6–10 (10,000)"


def test_a_run_without_numbers_keeps_its_colour():
    whole = length_curves({"a": BUCKETS, "b": BUCKETS}).lines[1].get_color()
    ax = length_curves({"a": [], "b": BUCKETS})
    assert (ax.lines[0].get_color(), texts(ax)) == (whole, ["b"])
    ax = loss_curves({"a": [{"step": 1}], "b": records(1)})
    assert (ax.lines[0].get_color(), texts(ax)) == (whole, ["b"])


def test_names_are_drawn_as_they_are():
    ax = length_curves({"_hidden": BUCKETS, "$x_1$": BUCKETS})
    assert texts(ax) == ["_hidden", "$x_1$"]
    drawn(ax)


def test_train_is_solid_and_valid_has_markers():
    runs = {"a": [*records(200, 100), *records(150, kind="valid")], "b": records(100)}
    ax = loss_curves(runs)
    train, valid, other = ax.lines
    assert train.get_xdata().tolist() == [100, 200], "in the order of steps"
    assert (train.get_linestyle(), train.get_marker()) == ("-", "None")
    assert valid.get_marker() not in ("None", None)
    assert train.get_color() == valid.get_color() != other.get_color()
    assert ax.get_xlabel() == "step (thin line: train; markers: valid)"
    assert texts(ax) == ["a", "b"]


def test_other_metrics_and_axes():
    runs = {"a": [*records(1, 2), {"step": 2, "seconds": 3.5, "kind": "valid", "bleu": 21.3}]}
    ax = loss_curves(runs, x="seconds", y="bleu", ylabel="BLEU", xlabel="time")
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in ax.lines] == [(3.5, 21.3)]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time", "BLEU")
    assert loss_curves(runs, y="tokens_per_second").get_ylabel() == "tokens per second"


def test_what_is_no_number_is_skipped():
    bad = [{"step": 3, "loss": value} for value in (math.nan, math.inf, None, "4.2")]
    ax = loss_curves({"a": [*records(1, 2), *bad, {"loss": 1.0}, {"step": 9}]})
    assert ax.lines[0].get_xdata().tolist() == [1, 2]


def test_many_points_are_averaged():
    ax = loss_curves({"a": records(*range(4000))})
    steps, losses = ax.lines[0].get_data()
    assert len(steps) == 400
    assert (steps[0], losses[0]) == pytest.approx((4.5, 9 - 4.5 / 1000))


def test_draws_into_given_axes_and_leaves_the_settings_alone(tmp_path):
    before = dict(matplotlib.rcParams)
    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    assert length_curves({"a": BUCKETS}, ax=left) is left
    assert loss_curves({"a": records(1, 2)}, ax=right) is right
    assert save(left, tmp_path / "curves.svg").stat().st_size > 1000
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize(
    ("curves", "message"),
    [
        ({}, "there is nothing to draw: got no bucket with a finite BLEU"),
        ({"a": [], "b": [("1–10", None, 0)]}, "there is nothing to draw: got no bucket with a finite BLEU"),
        ({"a": [("1–10", 1.0)]}, r"a bucket of 'a' is not a triple: got \('1–10', 1.0\); expected \(label, bleu, co"),
        (
            {"a": BUCKETS, "b": [("1–15", 3.0, 4)]},
            "runs have different buckets: got 1–15 for 'b'; expected 1–10, 11–20, 21–30, > 30, as for 'a'. Try: cut",
        ),
        (
            {"a": BUCKETS, "b": [(*BUCKETS[0][:2], 81), *BUCKETS[1:]]},
            "runs have different numbers of sentences in bucket 1–10: got 81 for 'b'; expected 80, as for 'a'. Try: t",
        ),
    ],
)
def test_wrong_buckets(curves, message):
    with pytest.raises(ConfigError, match=message):
        length_curves(curves)


def test_nothing_to_draw_tells_what_there_is():
    with pytest.raises(
        ConfigError, match=r"no record with finite 'step' and 'perplexity'.*use one of these keys: kind, loss, step"
    ):
        loss_curves({"a": records(1)}, y="perplexity")
    with pytest.raises(ConfigError, match="use one of these keys: none"):
        loss_curves({"a": []})


def test_steps_are_counted_in_whole_numbers():
    shown = loss_curves({"a": records(1, 2)}).get_xticks()
    assert all(float(tick).is_integer() for tick in shown)
    seconds = [{"seconds": second, "kind": "train", "loss": 1.0} for second in (0.5, 1.0)]
    assert not all(float(tick).is_integer() for tick in loss_curves({"a": seconds}, x="seconds").get_xticks())
