"""Small pictures of explanations as SVG and tables, for the kinds that do not answer to the pointer."""

import html
import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from regard.explanation.edges import EdgeWeights
from regard.explanation.gates import Gates
from regard.explanation.hops import Hops
from regard.explanation.path import Path
from regard.explanation.places import Places
from regard.explanation.png import data_address, to_png
from regard.explanation.shading import Shading
from regard.explanation.tape import Tape

SHADES = 16  # of colour in a matrix; widget.js has the same number
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")  # HTML has no way to say them
_LARGE, _SMALL, _GAP = 288, 112, 8  # pixels of the page: a picture, one of several, between them
_WIDE = 6  # pictures in one row
_MOST_SHADED = 4000  # words of all hops of a text; of more, the sharpest hops are shown
_DARKEST = 0.45  # opacity behind the word of the largest weight; on more, the word itself is hard to read
_LONG = 18  # letters of a label in a picture
_TIMES = ("#31688e", "#35b779", "#fde725")  # the colours of steps: early, halfway, late
_BINS = 25
_NAMED = 60  # nodes that have room for a name


def text(content: object) -> str:
    """A text as HTML, in elements and attributes; what HTML cannot hold becomes a replacement character."""
    return html.escape(_CONTROLS.sub("\ufffd", str(content)))


def fields_as_table(values: Mapping[str, Any]) -> str:
    """Values by name as a table: texts and numbers as they are, arrays by their shape and range, pictures as pictures.

    >>> '<th scope="row">share</th><td>0.25</td>' in fields_as_table({"share": 0.25})
    True
    """
    rows = (f'<tr><th scope="row">{text(name)}</th><td>{_value(value)}</td></tr>' for name, value in values.items())
    return _table("", list(rows))


def _value(value: Any) -> str:
    if isinstance(value, ndarray) and value.dtype == np.uint8:
        return f'<img src="{data_address(to_png(value))}" alt="picture">'
    if isinstance(value, ndarray):
        size = " × ".join(map(str, value.shape))
        return f"{size} numbers" + (f" from {value.min():.3g} to {value.max():.3g}" if value.size else "")
    if isinstance(value, Mapping):
        return "<br>".join(f"{text(name)}: {_value(each)}" for name, each in value.items())
    if isinstance(value, float):
        return f"{value:.3g}"
    return text(", ".join(map(str, value)) if isinstance(value, tuple) else value)


def cells(matrix: Float[ndarray, "rows columns"]) -> str:
    """The cells of a matrix as SVG paths, one for each shade: 0 to the largest weight."""
    shades = np.rint(SHADES * np.maximum(matrix, 0) / (matrix.max() if matrix.max() > 0 else 1)).astype(int)
    paths = []
    for shade in range(1, SHADES + 1):
        if squares := "".join(f"M{column} {row}h1v1h-1z" for row, column in np.argwhere(shades == shade).tolist()):
            paths.append(f'<path fill-opacity="{shade / SHADES:g}" d="{squares}"/>')
    return "".join(paths)


def _path(path: Path) -> str:
    """The picture with a box, an arrow and a number for each glimpse."""
    scale = _LARGE / max(path.image.shape[:2])
    size = scale * np.array(path.image.shape[1::-1])
    places, half = scale * path.pixels(), scale * path.size / 2
    low, high = np.zeros(2), size
    if len(places):  # what is seen beyond the picture is shown too, up to a fifth of it
        low = np.clip(places.min(0) - half, -0.2 * size, 0)
        high = np.clip(places.max(0) + half, size, 1.2 * size)
    boxes, lines, dots = [], [], []
    for step, (x, y) in enumerate(places.tolist()):
        colour = _colour(step, len(places))
        side = f'width="{2 * half:g}" height="{2 * half:g}" fill="none" stroke="{colour}" stroke-width="1.5"'
        boxes.append(f'<rect x="{x - half:g}" y="{y - half:g}" {side}/>')
        if step:
            before = "{:g} {:g}".format(*places[step - 1])
            lines.append(f'<path d="M{before}L{x:g} {y:g}" stroke="{colour}" stroke-width="1.5"/>')
        ink = "#fff" if step < 0.4 * len(places) else "#000"
        style = f'text-anchor="middle" style="fill:{ink};font-size:9.5px"'
        dots.append(f'<circle cx="{x:g}" cy="{y:g}" r="7" fill="{colour}"/>')
        dots.append(f'<text x="{x:g}" y="{y + 3.4:g}" {style}>{step + 1}</text>')
    image = f'<image href="{data_address(to_png(path.image))}" width="{size[0]:g}" height="{size[1]:g}"/>'
    said = f'<p class="said">{len(places)} glimpses{_told(path.label)}</p>'
    return _svg([image, *boxes, *lines, *dots], (*low, *(high - low)), float(high[0] - low[0])) + said


def _places(places: Places) -> str:
    """The picture in grey for each word or place, yellow where it looks."""
    if not places.weights.size:
        return ""
    height, width = places.image.shape[:2]
    scale = _SMALL / max(width, height)
    wide, high = width * scale, height * scale
    count = len(places.weights)
    columns = min(_WIDE, count)
    lines = -(-count // columns)
    address = data_address(to_png(places.image))
    name = f"regard-{zlib.crc32(address.encode()):08x}-{count}"  # one page may show several
    head = 16
    parts = [
        f'<defs><image id="{name}" href="{address}" width="{wide:g}" height="{high:g}" preserveAspectRatio="none" '
        'style="filter:grayscale(1) brightness(.75)"/></defs>'
    ]
    left, top, right, bottom = (scale * side for side in places.corners())
    spots = places.spots()
    for number, weights in enumerate(places.weights):
        row, column = divmod(number, columns)
        x, y = column * (wide + _GAP), row * (high + head + _GAP)
        label = text(_short(places.labels[number])) if places.labels else str(number + 1)
        grid = (
            f'<svg x="{left:g}" y="{top:g}" width="{right - left:g}" height="{bottom - top:g}" fill="#ffd43b" '
            f'viewBox="0 0 {weights.shape[1]} {weights.shape[0]}" preserveAspectRatio="none">{cells(weights)}</svg>'
        )
        ring = ""
        if spots is not None:
            down, across = scale * (spots[number] + 0.5)
            ring = f'<circle cx="{across:g}" cy="{down:g}" r="4" fill="none" stroke="#fff" stroke-width="1.5"/>'
        parts.append(
            f'<g transform="translate({x:g} {y:g})"><text y="11" style="font-size:12px" dir="auto">{label}</text>'
            f'<g transform="translate(0 {head})"><use href="#{name}"/>{grid}{ring}</g></g>'
        )
    size = (columns * (wide + _GAP) - _GAP, lines * (high + head + _GAP) - _GAP)
    return _svg(parts, (0, 0, *size), size[0])


def _gates(gates: Gates) -> str:
    """A table of the layers: the mean gate, by how much it varies from picture to picture, and a histogram."""
    rows = []
    for layer, values in gates.values.items():
        if not values.size:
            continue
        counts, _ = np.histogram(values, bins=_BINS, range=(0, 1))
        bars = "".join(
            f"M{place} 1V{1 - count / counts.max():.3f}h.85V1z" for place, count in enumerate(counts.tolist()) if count
        )
        picture = f'<svg viewBox="0 0 {_BINS} 1" preserveAspectRatio="none" aria-hidden="true"><path d="{bars}"/></svg>'
        facts = f"<td>{values.mean():.3f}</td><td>±{values.std(0).mean():.3f}</td><td>{picture}</td>"
        rows.append(f'<tr><th scope="row">{text(layer)}</th>{facts}</tr>')
    head = "<tr><th>layer</th><th>mean gate</th><th>by picture</th><th>shut … open</th></tr>"
    return _table(head, rows)


def _edges(edges: EdgeWeights) -> str:
    """The graph, its lines as wide and as dark as they have weight; of several heads, the mean."""
    if not edges.nodes:
        return ""
    places = edges.layout() * [100, -100]
    weights = edges.weights.mean(0) if edges.weights.ndim == 2 else edges.weights
    top = max(float(np.abs(weights).max(initial=0)), 1e-12)
    lines = []
    for weight, source, target in sorted(zip(weights.tolist(), edges.sources, edges.targets, strict=True)):
        share = abs(weight) / top
        style = f'stroke-width="{0.8 + 3 * share:.2f}" stroke-opacity="{0.12 + 0.88 * share:.3f}"'
        tip = f"<title>{text(edges.nodes[source])} → {text(edges.nodes[target])} {weight:.3g}</title>"
        lines.append(f'<path d="{_arrow(places[source], places[target])}" {style}>{tip}</path>')
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" style="fill:var(--ink)"/>' for x, y in places]
    names = []
    for (x, y), label in zip(places, edges.nodes, strict=True) if len(edges.nodes) <= _NAMED else ():
        anchor = "middle" if abs(x) < 20 else "start" if x > 0 else "end"
        across, down = x + {"start": 11, "end": -11, "middle": 0}[anchor], y + 3.5
        down += (12 if y > -20 else -12) if anchor == "middle" else 0
        style = f'text-anchor="{anchor}" style="font-size:10px"'
        names.append(f'<text x="{across:.1f}" y="{down:.1f}" {style}>{text(_short(label))}</text>')
    lines = ['<g fill="none" style="stroke:rgb(var(--heat))" stroke-linecap="round">', *lines, "</g>"]
    heads = f"; mean of {len(edges.weights)} heads" if edges.weights.ndim == 2 else ""
    largest = f"largest weight {weights.max(initial=0):.3f}"
    said = f'<p class="said">{len(edges.nodes)} nodes, {weights.size} edges{heads}; {largest}</p>'
    return _svg([*lines, *dots, *names], (-220, -125, 440, 250), 1.6 * _LARGE) + said


def _hops(hops: Hops) -> str:
    """The story as a table with a bar for each hop; supporting facts are marked."""
    if not hops.slots:
        return ""
    top = max(float(hops.weights.max(initial=0)), 1e-12)
    rows = []
    for place, (slot, column) in enumerate(zip(hops.slots, hops.weights.T, strict=True)):
        bars = "".join(
            f'<td><i style="width:{3 * max(weight, 0) / top:.2f}rem"></i>{weight:.2f}</td>'
            for weight in column.tolist()
        )
        marked = ' class="marked"' if place in hops.marked else ""
        rows.append(f'<tr><th scope="row" dir="auto"{marked}>{text(slot)}</th>{bars}</tr>')
    numbers = "".join(f"<th>hop {number + 1}</th>" for number in range(len(hops.weights)))
    asked = f'<p class="said" dir="auto">{text(hops.question)}{_told(hops.answer)}</p>' if hops.question else ""
    return _table(f"<tr><th>memory</th>{numbers}</tr>", rows) + asked


def _tape(tape: Tape) -> str:
    """A heat map for each head: time goes to the right, slots go down."""
    figures = []
    for name, weights in tape.weights.items():
        if not weights.size:
            continue
        steps, slots = weights.shape
        wide, high = (int(np.clip(12 * count, 120, 420)) for count in (steps, slots))
        size = f'width="{wide}" height="{high}" viewBox="0 0 {steps} {slots}" preserveAspectRatio="none"'
        picture = f'<svg {size} role="img" aria-label="weights">{cells(weights.T)}</svg>'
        figures.append(
            f"<figure><figcaption>{text(name)}: {slots} slots over {steps} steps →</figcaption>{picture}</figure>"
        )
    return f'<div class="tapes">{"".join(figures)}</div>' if figures else ""


def _shading(shading: Shading) -> str:
    """The text with a ground behind each word: for all hops together, and for each hop in an element that opens."""
    if not shading.words:
        return ""
    hops = len(shading.weights)
    name = f"{hops} hops together" if hops > 1 else "weights"
    body = f'<p class="said">{name}{_told(shading.answer)}</p>{_shaded(shading, shading.together())}'
    if hops > 1:
        room = max(1, _MOST_SHADED // len(shading.words))
        chosen = list(range(hops)) if hops <= room else shading.sharpest(room)
        each = (f'<p class="said">hop {hop + 1}</p>{_shaded(shading, shading.weights[hop])}' for hop in chosen)
        summary = "each hop" if len(chosen) == hops else f"the {len(chosen)} sharpest hops"
        body += f"<details><summary>{summary}</summary>{''.join(each)}</details>"
    return body


def _shaded(shading: Shading, weights: Float[ndarray, " words"]) -> str:
    shares = np.maximum(weights, 0) / max(float(weights.max(initial=0)), 1e-12)
    words = (
        f'<span style="--weight:{_DARKEST * share:.2f}" title="{weight:.3f}">{text(word)}</span>'
        if share >= 0.02
        else text(word)
        for word, share, weight in zip(shading.words, shares.tolist(), weights.tolist(), strict=True)
    )
    return f'<p class="shaded" dir="auto">{" ".join(words)}</p>'


def _svg(parts: list[str], view: tuple[Any, ...], width: float) -> str:
    box = " ".join(f"{side:g}" for side in view)
    size = f'viewBox="{box}" width="{round(width)}"'
    return f'<svg class="drawn" {size} role="img" aria-label="drawing">{"".join(parts)}</svg>'


def _table(head: str, rows: list[str]) -> str:
    if not rows:
        return ""
    body = "".join(rows)
    table = f'<table class="facts">{f"<thead>{head}</thead>" if head else ""}<tbody>{body}</tbody></table>'
    return f'<div class="scroll" tabindex="0">{table}</div>'


def _told(answer: str) -> str:
    return f" → <b>{text(answer)}</b>" if answer else ""


def _short(label: str) -> str:
    return label if len(label) <= _LONG else label[: _LONG - 1] + "…"


def _colour(step: int, count: int) -> str:
    """The colour of a step, between those of early, halfway and late."""
    share = 2 * step / max(count - 1, 1)
    first, second = (_TIMES[0], _TIMES[1]) if share < 1 else (_TIMES[1], _TIMES[2])
    low, high = (np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) for colour in (first, second))
    red, green, blue = np.rint(low + (high - low) * (share % 1 if share < 2 else 1)).astype(int)
    return f"#{red:02x}{green:02x}{blue:02x}"


def _arrow(start: ndarray, end: ndarray) -> str:
    """A line that bends to its left and ends with a head, so that directions can be told apart; or a ring."""
    if np.allclose(start, end):
        x, y = start
        return f"M{x - 8:.1f} {y:.1f}a8 8 0 1 0 16 0a8 8 0 1 0 -16 0"
    length = np.linalg.norm(end - start)
    aside = np.array([end[1] - start[1], start[0] - end[0]]) / length
    bend = (start + end) / 2 + 0.1 * length * aside
    back = (end - bend) / np.linalg.norm(end - bend)
    tip = end - 5 * back
    wings = [tip - 6 * back + side * np.array([back[1], -back[0]]) for side in (3, -3)]
    points = [f"{x:.1f} {y:.1f}" for x, y in (start, bend, tip, *wings)]
    return f"M{points[0]}Q{points[1]} {points[2]}M{points[3]}L{points[2]}L{points[4]}"


SVG: dict[str, Callable[[Any], str]] = {
    "path": _path,
    "places": _places,
    "gates": _gates,
    "edges": _edges,
    "hops": _hops,
    "tape": _tape,
    "shading": _shading,
}
