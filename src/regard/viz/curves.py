"""Curves of training and of quality: metrics by step, BLEU by sentence length. No pyplot, no global state."""

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from regard.base import ConfigError, require
from regard.viz.fonts import extent, families, printable, renderer

if TYPE_CHECKING:
    import matplotlib.axes

Points = list[tuple[float, float]]

# Okabe and Ito (2008), the palest of the eight replaced by a grey: told apart by every kind of eyes, on white.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#767676")
ON_DARK = ("#4ba6e3", "#ff8b45", "#2dc596", "#e6a3c8", "#f2b63f", "#9ad6ff", "#f2f2f2", "#9b9b9b")  # the same there
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)))
INK, SOFT, RULE = "#262626", "#6e6e6e", "#dedede"  # words, lesser words, lines of the grid
_WIDTH, _HEIGHT = 4.6, 2.9  # inches of a figure of our own, without its legend
_LINE = 0.2  # inches of one line of the legend
_KEY = 0.54  # inches of a legend's key and the space around
_LONG = 48  # characters of a name in the legend, at most
_MOST = 400  # points of one line: more are averaged in groups


class LengthBucket(NamedTuple):
    """Sentences of about one length: a label such as "11–20", their BLEU or None, their number."""

    label: str
    bleu: float | None
    sentences: int


def length_curves(
    curves: Mapping[str, Sequence[LengthBucket | Sequence[Any]]],
    *,
    ax: "matplotlib.axes.Axes | None" = None,
    title: str | None = None,
    ylabel: str = "BLEU",
) -> "matplotlib.axes.Axes":
    """Draw BLEU by length of the source, one curve for each run: Bahdanau et al. (2015), figure 2.

    A bucket is (label, bleu, count); the counts stand below the labels, and a bucket without BLEU is a gap. All runs
    have the same buckets. A run without buckets is left out, but keeps its colour. The legend is below the axes.

    >>> ax = length_curves({"RNNsearch": [("1–10", 21.5, 80), ("11–20", 24.0, 120)]})
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['1–10', '11–20']
    """
    buckets = {str(name): [_as_bucket(str(name), bucket) for bucket in triples] for name, triples in curves.items()}
    drawn = {name: line for name, line in buckets.items() if any(bucket.bleu is not None for bucket in line)}
    if not drawn:
        what = "no bucket with a finite BLEU"
        raise ConfigError("there is nothing to draw", got=what, expected="name → [(label, bleu, count), …]")
    (first, reference), *others = drawn.items()
    for name, line in others:
        _compare(first, reference, name, line)
    return labelled_curves(buckets, x="words in the source, and number of sentences", y=ylabel, ax=ax, title=title)


def labelled_curves(
    lines: Mapping[str, Sequence[tuple[str, float | None, int | None]]],
    *,
    x: str,
    y: str,
    ax: "matplotlib.axes.Axes | None" = None,
    title: str | None = None,
) -> "matplotlib.axes.Axes":
    """Draw a curve for each run over the same labels: points (label, value, count).

    A value of None is a gap. A run without values is left out, but keeps its colour.
    """
    drawn = {name: line for name, line in lines.items() if any(value is not None for _, value, _ in line)}
    reference = next(iter(drawn.values()))
    ax = _axes(ax, list(drawn))
    handles = {}
    for place, (name, line) in enumerate(lines.items()):
        if name not in drawn:
            continue
        values = [math.nan if value is None else value for _, value, _ in line]
        dashes = DASHES[place % len(DASHES)]
        handles[name] = ax.plot(values, linestyle=dashes, marker=_marker(place), **_style(place))[0]
    ax.set_xlim(-0.5, len(reference) - 0.5)
    if min(value for line in drawn.values() for _, value, _ in line if value is not None) >= 0:
        ax.set_ylim(bottom=0)
    _name_points(ax, [label for label, _, _ in reference], [count for _, _, count in reference], x)
    ax.set_ylabel(y, color=INK, fontsize=9.5, parse_math=False)
    _finish(ax, title, handles)
    return ax


def loss_curves(
    runs: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    ax: "matplotlib.axes.Axes | None" = None,
    x: str = "step",
    y: str = "loss",
    title: str | None = None,
    xlabel: str | None = None,
    ylabel: str | None = None,
) -> "matplotlib.axes.Axes":
    """Draw a metric of training, one colour for each run: solid lines for `"kind": "train"`, markers for other kinds.

    Records are the lines of metrics.jsonl. Those without a finite `x` and `y` are skipped; more than 400 in a line are
    averaged in groups. A run without any is left out, but keeps its colour. The legend is below the axes.

    >>> ax = loss_curves({"RNNsearch": [{"step": 1, "kind": "train", "loss": 9.0}, {"step": 2, "loss": 7.5}]})
    >>> ax.lines[0].get_ydata().tolist()
    [9.0, 7.5]
    """
    points = {str(name): _by_kind(records, x, y) for name, records in runs.items()}
    drawn = {name: kinds for name, kinds in points.items() if kinds}
    if not drawn:
        raise ConfigError(
            "there is nothing to draw",
            got=f"no record with finite {x!r} and {y!r}",
            expected="records such as {'step': 100, 'kind': 'train', 'loss': 4.2}",
            cure=f"use one of these keys: {', '.join(_keys(runs)) or 'none'}",
        )
    ax = _axes(ax, list(drawn))
    handles = {}
    for place, (name, kinds) in enumerate(points.items()):
        for kind, line in kinds.items():
            train = kind == "train"
            every = [len(line) - 1] if train else max(1, len(line) // 20)
            marker = None if train and len(kinds) > 1 else _marker(place)
            style = _style(place) | ({"linewidth": 1.0, "alpha": 0.75} if train and len(kinds) > 1 else {})
            handles[name] = ax.plot(*zip(*line, strict=True), marker=marker, markevery=every, **style)[0]
    ticker = require("matplotlib.ticker", extra="viz")
    places = [place for kinds in points.values() for line in kinds.values() for place, _ in line]
    counted = all(float(place).is_integer() for place in places)
    ax.xaxis.set_major_locator(ticker.MaxNLocator(6, steps=[1, 2, 2.5, 5, 10], integer=counted))  # no half steps
    ax.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: _short(value)))
    all_kinds = dict.fromkeys(kind for kinds in drawn.values() for kind in kinds)
    others = ", ".join(kind for kind in all_kinds if kind != "train")
    key = f" (thin line: train; markers: {others})" if others and "train" in all_kinds else ""
    ax.set_xlabel((xlabel or x.replace("_", " ")) + key, color=INK, fontsize=9.5, parse_math=False)
    ax.set_ylabel(ylabel or y.replace("_", " "), color=INK, fontsize=9.5, parse_math=False)
    _finish(ax, title, handles)
    return ax


def _as_bucket(name: str, triple: Sequence[Any]) -> LengthBucket:
    """A triple (label, bleu, count) of run `name`, checked; a BLEU that is not finite is None."""
    if isinstance(triple, str) or len(triple) != 3:
        raise ConfigError(f"a bucket of {name!r} is not a triple", got=repr(triple), expected="(label, bleu, count)")
    label, bleu, count = triple
    return LengthBucket(str(label), finite(bleu), int(count))


def _compare(first: str, reference: list[LengthBucket], name: str, line: list[LengthBucket]) -> None:
    """All runs are drawn over one axis, so it must be true of all."""
    wanted, labels = ([bucket.label for bucket in buckets] for buckets in (reference, line))
    if labels != wanted:
        raise ConfigError(
            "runs have different buckets",
            got=f"{', '.join(labels)} for {name!r}",
            expected=f"{', '.join(wanted)}, as for {first!r}",
            cure="cut the lengths of all runs at the same edges, or draw them apart",
        )
    for mine, theirs in zip(reference, line, strict=True):
        if mine.sentences != theirs.sentences:
            raise ConfigError(
                f"runs have different numbers of sentences in bucket {mine.label}",
                got=f"{theirs.sentences} for {name!r}",
                expected=f"{mine.sentences}, as for {first!r}",
                cure="translate one test set with all runs, or draw them apart",
            )


def _by_kind(records: Sequence[Mapping[str, Any]], x: str, y: str) -> dict[str, Points]:
    """The points of each kind, train first, in the order of `x`."""
    kinds: dict[str, Points] = {}
    for record in records:
        across, up = finite(record.get(x)), finite(record.get(y))
        if across is not None and up is not None:
            kinds.setdefault(str(record.get("kind", "train")), []).append((across, up))
    return {kind: _thinned(sorted(kinds[kind])) for kind in sorted(kinds, key=lambda kind: (kind != "train", kind))}


def _thinned(points: Points) -> Points:
    """At most `_MOST` points: means of groups that follow each other."""
    if len(points) <= _MOST:
        return points
    groups = np.array_split(np.array(points), _MOST)
    return [(float(across), float(up)) for across, up in (group.mean(axis=0) for group in groups)]


def finite(value: object) -> float | None:
    """`value` if it is a finite number."""
    return float(value) if isinstance(value, Real) and math.isfinite(value) else None


def _keys(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    return sorted({str(key) for records in runs.values() for record in records for key in record})


def _short(value: int | float) -> str:
    """A number for a tick: 20000 is 20k.

    >>> _short(20_000), _short(2_500_000), _short(0.5)
    ('20k', '2.5M', '0.5')
    """
    for size, sign in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{sign}"
    return f"{value:g}"


def colour_of(run: int, *, dark: bool = False) -> str:
    """The colour of a run in a report, from its place among the runs.

    >>> colour_of(0), colour_of(1, dark=True), colour_of(8) == colour_of(0)
    ('#0072b2', '#ff8b45', True)
    """
    return (ON_DARK if dark else COLOURS)[run % len(COLOURS)]


def _marker(place: int) -> str:
    return MARKERS[place % len(MARKERS)]


def _style(place: int) -> dict[str, Any]:
    return {
        "color": colour_of(place),
        "linewidth": 1.6,
        "markersize": 5.5,
        "markeredgecolor": "white",
        "markeredgewidth": 0.6,
        "solid_capstyle": "round",
        "clip_on": False,
        "zorder": 3,
    }


def _axes(ax: Any, names: list[str]) -> Any:
    """The axes given, or those of a figure of our own, high enough for the legend."""
    if ax is None:
        width = _WIDTH - 0.8
        lines = math.ceil(len(names) / _columns([_cut(name, width) for name in names], width))
        size = (_WIDTH, _HEIGHT + _LINE * lines)
        figure = require("matplotlib.figure", extra="viz").Figure(figsize=size, layout="constrained")
        ax = figure.add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set(color=RULE, linewidth=0.8)
    ax.grid(axis="y", color=RULE, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.tick_params(length=0, labelsize=9, labelcolor=INK, pad=5)
    return ax


def _columns(names: list[str], width: float) -> int:
    """How many columns of the legend fit into `width` inches."""
    return max(1, int(width / (max(extent(name, 9) for name in names) + _KEY)))


def _cut(name: str, width: float) -> str:
    """`name` as the legend shows it, short enough for one column of `width` inches."""
    lengths = (length for length in range(_LONG, 8, -2) if extent(printable(name, length), 9) + _KEY <= width)
    return printable(name, next(lengths, 8))


def _name_points(ax: Any, names: list[str], numbers: Sequence[int | None], x: str) -> None:
    """Labels, and below each its count where there is one; on end where there is no room."""
    labels, counts = [printable(name) for name in names], ["" if count is None else f"{count:,}" for count in numbers]
    room = 0.9 * ax.get_window_extent().width / ax.figure.dpi / len(labels)
    tight = max(max(extent(label, 9) for label in labels), max(extent(count, 8) for count in counts)) > room
    if tight:
        labels = [f"{label} ({count})" if count else label for label, count in zip(labels, counts, strict=True)]
    ax.set_xticks(range(len(labels)), labels, parse_math=False, usetex=False, rotation=90 if tight else 0)
    for tick in ax.get_xticklabels():
        tick.set_fontfamily(families(tick.get_text()))
    for place, count in enumerate([] if tight else counts):
        below = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "annotation_clip": False}
        if count:
            ax.annotate(count, (place, 0), (0, -19), color=SOFT, fontsize=8, ha="center", va="top", **below)
    ax.set_xlabel(x, color=INK, fontsize=9.5, labelpad=6 if tight or not any(counts) else 20, parse_math=False)


def _finish(ax: Any, title: str | None, handles: dict[str, Any]) -> None:
    """Title and legend; the legend stands below all that the axes have, so it hides nothing."""
    if title is not None:
        text = "\n".join(printable(line, limit=None) for line in title.split("\n"))
        style = {"fontfamily": families(text), "parse_math": False, "usetex": False}
        ax.set_title(text, loc="left", fontsize=10.5, color=INK, pad=10, **style)
    width = ax.get_window_extent().width / ax.figure.dpi
    names = [_cut(name, width) for name in handles]
    below = (ax.bbox.y0 - ax.get_tightbbox(renderer(ax.figure.dpi)).y0) / ax.figure.dpi + 0.06
    move = require("matplotlib.transforms", extra="viz").ScaledTranslation(0, -below, ax.figure.dpi_scale_trans)
    legend = ax.legend(
        list(handles.values()),
        ["."] * len(names),  # a name may begin with "_", which matplotlib would leave out
        loc="upper left",
        bbox_to_anchor=(0, 0),
        bbox_transform=ax.transAxes + move,
        ncols=_columns(names, width),
        frameon=False,
        fontsize=9,
        labelcolor=INK,
        handlelength=2.6,
        columnspacing=1.2,
        borderaxespad=0,
    )
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set(text=name, fontfamily=families(name), parse_math=False, usetex=False)
