"""A report of several runs as one HTML page that needs nothing else: no network, no fonts, no other file."""

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from string import Template
from typing import Any

from regard.base import ConfigError
from regard.explanation import Explanation, Matrix
from regard.explanation.svg import text as as_html
from regard.explanation.widget import read
from regard.viz.charts import Chart, chart_curves
from regard.viz.curves import COLOURS, INK, MARKERS, RULE, SOFT, finite, loss_curves
from regard.viz.embed import explanations_html, thumbnail_html

_OPEN = 3  # samples whose alignments are open at first
_INSIDE = r"\([^\s<>\"()]*\)"  # an address may have parentheses, in pairs
_LINK = re.compile(rf"(https?://(?:[^\s<>\"()]|{_INSIDE})*(?:[^\s<>\"().,;:!?\]]|{_INSIDE}))")
_SHAPES = {  # the markers of curves.py, around (0, 0)
    "o": "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z",
    "s": "M-4-4h8v8h-8z",
    "^": "M0-4.6L5 4H-5z",
    "D": "M0-5L5 0L0 5L-5 0z",
    "v": "M0 4.6L5-4H-5z",
    "P": "M-1.8-5h3.6v3.2h3.2v3.6h-3.2v3.2h-3.6v-3.2h-3.2v-3.6h3.2z",
    "X": "M0-2.4L2.4-4.8L4.8-2.4L2.4 0L4.8 2.4L2.4 4.8L0 2.4L-2.4 4.8L-4.8 2.4L-2.4 0L-4.8-2.4L-2.4-4.8z",
    "p": "M0-5L4.8-1.5L2.9 4H-2.9L-4.8-1.5z",
}
_INKS = {  # what the figures are drawn in, as the page's style names it: a dark page has its own
    **{colour: f"var(--c{place})" for place, colour in enumerate(COLOURS, 1)},
    INK: "var(--ink)",
    SOFT: "var(--soft)",
    RULE: "var(--rule)",
    "#ffffff": "var(--paper)",
}


@dataclass(frozen=True, eq=False)
class Sample:
    """One input, such as a sentence or a picture, with what a system answered and what it attended to.

    `source_text` is the sentence, or names the picture; several references are lines of `reference_text`. The page
    draws the `explanations`, and shows the picture itself if `image` has its pixels.
    """

    source_text: str
    reference_text: str = ""
    output_text: str = ""
    explanations: Sequence[Explanation] = ()
    image: Any = None
    quality: float = 1.0  # how near the answer is to the reference, 0 to 1; the page shows the worst first
    mistaken: bool = False  # whether there is one right answer, and this is another one


@dataclass(frozen=True, eq=False)
class RunReport:
    """What the page tells of one run.

    `description` names the paper; addresses in it become links. `scores` and `facts` are rows of the table, a second
    line of a value is small print: `{"BLEU": "28.4\\nnrefs:1|case:mixed|…"}`. `curves` are the records of
    metrics.jsonl, `explanations` show what the run attends to as a whole. Runs share a figure for each of their
    `charts`.
    """

    name: str
    description: str = ""
    scores: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    curves: Sequence[Mapping[str, Any]] = ()
    samples: Sequence[Sample] = ()
    explanations: Sequence[Explanation] = ()
    charts: Sequence[Chart] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


def report_page(
    runs: Sequence[RunReport],
    *,
    title: str,
    intro: str = "",
    figure: tuple[str, str] = ("bleu", "BLEU"),
    samples: str = "Translations",
) -> str:
    """One HTML document: a table of the runs, their curves, and what they made of the same sentences or pictures.

    Alignments and maps answer to the pointer; without scripts they are pictures. Blank lines part the paragraphs of
    `intro`. `figure` is what is drawn beside the loss, its name in the records and its label; `samples` is the heading
    of the examples.

    >>> page = report_page([RunReport("RNNsearch", scores={"BLEU": "26.75"})], title="English → French")
    >>> page.startswith("<!doctype html>"), "26.75" in page, "<script src" in page
    (True, True, False)
    """
    names = [run.name for run in runs]
    if not names:
        raise ConfigError("a report needs runs", got="none", expected="at least one RunReport")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError("runs must have different names", got=f"{', '.join(twice)} twice", cure="rename one of them")
    paragraphs = "\n".join(
        f'<p dir="auto">{_linked(paragraph)}</p>' for paragraph in re.split(r"\n\s*\n", intro) if paragraph.strip()
    )
    sections = {
        "Runs": _table(runs),
        "Curves": _figures(runs, *figure),
        "Inside": _overviews(runs),
        as_html(samples): _samples(runs),
        "Settings": _settings(runs),
    }
    return Template(_file("page.html")).substitute(
        title=as_html(title),
        intro=paragraphs,
        style=read("widget.css") + _file("page.css"),
        script=read("widget.js") + _file("page.js"),
        main="\n".join(f"<section>\n<h2>{name}</h2>\n{body}\n</section>" for name, body in sections.items() if body),
    )


def explanation_page(explanations: Sequence[Explanation], *, title: str, lines: Sequence[str] = ()) -> str:
    """One HTML document with explanations that answer to the pointer; `lines` stand below the title.

    The first explanation stands alone; matrices after it that have the same labels share one figure, with a chooser.

    >>> page = explanation_page([Matrix([[0.9, 0.1]], ["la"], ["the", "house"])], title="the house")
    >>> page.startswith("<!doctype html>"), "<script src" in page
    (True, False)
    """
    first = explanations_html(explanations[:1])
    rest = explanations_html(explanations[1:])
    main = f'<section>\n<div class="maps">\n{"".join(first)}\n</div>\n</section>'
    if rest:
        maps = "\n".join(rest)
        main += f'\n<section>\n<h2>Every layer and head</h2>\n<div class="maps">\n{maps}\n</div>\n</section>'
    return Template(_file("page.html")).substitute(
        title=as_html(title),
        intro="\n".join(f'<p dir="auto">{as_html(line)}</p>' for line in lines if line.strip()),
        style=read("widget.css") + _file("page.css"),
        script=read("widget.js") + _file("page.js"),
        main=main,
    )


def _file(name: str) -> str:
    return resources.files("regard.viz").joinpath(name).read_text(encoding="utf-8")


def _linked(text: str) -> str:
    """`text` as HTML, where addresses are links."""
    parts = _LINK.split(str(text))  # every other one is an address
    addresses = (f'<a href="{as_html(piece)}">{as_html(piece.split("://")[1])}</a>' for piece in parts[1::2])
    return "".join(as_html(piece) + next(addresses, "") for piece in parts[::2])


def _key(place: int) -> str:
    """The colour and marker that a run has in the figures."""
    shape = _SHAPES[MARKERS[place % len(MARKERS)]]
    colour = place % len(COLOURS) + 1
    return f'<svg class="key k{colour}" viewBox="-6 -6 12 12" aria-hidden="true"><path d="{shape}"/></svg>'


def _named(place: int, name: str) -> str:
    return f'<span class="name">{_key(place)}<bdi>{as_html(name)}</bdi></span>'


def _table(runs: Sequence[RunReport]) -> str:
    """Scores, then facts, as rows; runs as columns."""
    head = "".join(
        f'<th scope="col">{_named(place, run.name)}<small dir="auto">{_linked(run.description)}</small></th>'
        for place, run in enumerate(runs)
    )
    lines = []
    for kind, rows in (("score", [run.scores for run in runs]), ("fact", [run.facts for run in runs])):
        for name in dict.fromkeys(name for row in rows for name in row):
            cells = "".join(f"<td>{_value(row.get(name))}</td>" for row in rows)
            lines.append(f'<tr class="{kind}"><th scope="row">{as_html(name)}</th>{cells}</tr>')
    body = "\n".join(lines)
    return (
        f'<div class="scroll" tabindex="0">\n<table class="runs">\n<thead><tr><td></td>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table>\n</div>"
    )


def _value(value: object) -> str:
    if value is None or not str(value).strip():
        return '<span class="empty">–</span>'
    first, _, rest = str(value).partition("\n")
    return _linked(first) + (f"<small>{_linked(rest).replace('|', '|<wbr>')}</small>" if rest.strip() else "")


def _figures(runs: Sequence[RunReport], key: str, label: str) -> str:
    """The charts of the runs, then their loss and the figure that counts by step."""
    figures = _charts(runs)
    records = {run.name: run.curves for run in runs}
    every = [record for run in runs for record in run.curves if finite(record.get("step")) is not None]
    for name, y in (("Loss", "loss"), (f"{label} during training", key)):
        points = [sum(finite(record.get(y)) is not None for record in run.curves) for run in runs]
        if every and max(points) > (y != "loss"):  # one evaluation is no curve
            figures.append((name, loss_curves(records, y=y, ylabel=label if y == key else y)))
    drawn = "\n".join(
        f"<figure>\n<figcaption>{as_html(name)}</figcaption>\n{_inline(ax, f'f{place}', name)}\n</figure>"
        for place, (name, ax) in enumerate(figures, 1)
    )
    return f'<div class="figures">\n{drawn}\n</div>' if drawn else ""


def _charts(runs: Sequence[RunReport]) -> list[tuple[str, Any]]:
    """Each chart once for all runs that have it; once more for those that have it with other labels or counts.

    A figure knows of all runs, so that they keep their colours.
    """
    groups: dict[Any, dict[str, Chart | None]] = {}
    for run in runs:
        for chart in run.charts:
            if not chart.empty:
                key = (chart.title, chart.x, chart.y, chart.axis)
                groups.setdefault(key, {each.name: None for each in runs})[run.name] = (
                    chart  # all, to keep their colours
                )
    return [(title, chart_curves(charts)) for (title, *_), charts in groups.items()]


def _inline(ax: Any, prefix: str, name: str) -> str:
    """The figure of `ax` as SVG inside a page: its own ids, the page's colours, nothing superfluous."""
    picture = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    ax.figure.savefig(picture, format="svg", transparent=True, metadata=nothing)
    svg = picture.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    used = {
        identifier: f"{prefix}-{place}"
        for place, identifier in enumerate(dict.fromkeys(re.findall(r"[\"(]#([^\")]+)", svg)))
    }
    svg = re.sub(r' id="([^"]*)"', lambda match: f' id="{used[match[1]]}"' if match[1] in used else "", svg)
    svg = re.sub(r'(?:xlink:)?href="#([^"]+)"', lambda match: f'href="#{used[match[1]]}"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", lambda match: f"url(#{used[match[1]]})", svg)
    svg = re.sub(r"\bd=\"[^\"]*\"", lambda match: _shorter(match[0]), svg)
    for ink, variable in _INKS.items():
        svg = svg.replace(ink, variable)
    view = re.search(r'viewBox="[^"]*"', svg)
    head = f'<svg {view[0] if view else ""} role="img" aria-label="{as_html(name)}">'
    svg = re.sub(r"<svg[^>]*>", lambda _: head, svg, count=1)
    svg = re.sub(r"<defs>\s*</defs>|<g>\s*</g>|<g/>", "", svg)
    return re.sub(r">\s+<", "><", svg).strip()


def _shorter(path: str) -> str:
    """A path with one decimal, where hundredths of a point would not be seen."""
    path = re.sub(r"-?\d+\.\d+", lambda match: f"{float(match[0]):.2f}".rstrip("0").rstrip("."), path)
    return re.sub(r"\s+(?=[A-Za-z])|(?<=[A-Za-z])\s+|\s+(?=\")", "", path).replace("\n", " ")


def _overviews(runs: Sequence[RunReport]) -> str:
    """What each run attends to as a whole, run by run."""
    drawn = [
        figure
        for place, run in enumerate(runs)
        for figure in explanations_html(run.explanations, _named(place, run.name))
    ]
    return '<div class="pictures">\n' + "\n".join(drawn) + "\n</div>" if drawn else ""


def _samples(runs: Sequence[RunReport]) -> str:
    """Sentences or pictures, mistakes first, each with the outputs of all runs that have it."""
    sentences: dict[str, list[tuple[int, Sample]]] = {}
    for place, run in enumerate(runs):
        for sample in run.samples:
            sentences.setdefault(sample.source_text, []).append((place, sample))
    blocks = []
    ordered = sorted(sentences.items(), key=lambda each: min(sample.quality for _, sample in each[1]))
    for number, (source, answers) in enumerate(ordered, 1):
        lines = (line for _, sample in answers for line in sample.reference_text.splitlines() if line.strip())
        texts = [_line("Reference", line, "reference") for line in dict.fromkeys(lines)]
        texts += [
            _line(_named(place, runs[place].name), sample.output_text, "output wrong" if sample.mistaken else "output")
            for place, sample in answers
        ]
        figures = [
            figure
            for place, sample in answers
            for figure in explanations_html(sample.explanations, _named(place, runs[place].name), moving=number == 1)
        ]
        drawn = "\n".join(figures)
        opened = " open" if number <= _OPEN else ""
        seen = "Attention" if any(_is_seen(sample) for _, sample in answers) else "Alignments"
        more = f'<details{opened}><summary>{seen}</summary>\n<div class="maps">\n{drawn}\n</div>\n</details>\n'
        head = f'<h3><b>{number}</b><span dir="auto">{as_html(source)}</span></h3>'
        if (image := next((sample.image for _, sample in answers if sample.image is not None), None)) is not None:
            head += "\n" + thumbnail_html(image, source)
        body = '<dl class="texts">\n' + "\n".join(texts) + "\n</dl>\n" + (more if drawn else "")
        blocks.append(f'<article class="sample">\n{head}\n{body}</article>')
    return "\n".join(blocks)


def _settings(runs: Sequence[RunReport]) -> str:
    """Every setting of every run, by name; those in which the runs differ come first and stand out."""
    names = list(dict.fromkeys(name for run in runs for name in run.settings))
    if not names:
        return ""
    differing = [name for name in names if len({run.settings.get(name) for run in runs}) > 1]
    head = "".join(f'<th scope="col">{_named(place, run.name)}</th>' for place, run in enumerate(runs))
    lines = []
    for name in [*differing, *(name for name in names if name not in differing)]:
        cells = "".join(f"<td>{_value(run.settings.get(name))}</td>" for run in runs)
        kind = "fact differs" if name in differing and len(runs) > 1 else "fact"
        lines.append(f'<tr class="{kind}"><th scope="row">{as_html(name)}</th>{cells}</tr>')
    body = "\n".join(lines)
    table = f'<table class="runs"><thead><tr><td></td>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>'
    return (
        f'<details><summary>{len(names)} settings</summary>\n<div class="scroll" tabindex="0">\n{table}</div></details>'
    )


def _is_seen(sample: Sample) -> bool:
    """Whether what was attended to is more than alignments of words."""
    return any(not isinstance(explanation, Matrix) for explanation in sample.explanations)


def _line(label: str, text: str, kind: str = "output") -> str:
    body = as_html(text) if text.strip() else '<span class="empty">nothing</span>'
    return f'<dt>{label}</dt><dd class="{kind}" dir="auto">{body}</dd>'
