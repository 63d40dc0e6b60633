"""Labels of any script: which fonts draw them, what stands for characters that no font has, how wide they are."""

import unicodedata
from functools import cache, lru_cache
from typing import Any

from regard.base import require

BASE = "DejaVu Sans"  # comes with matplotlib
ELLIPSIS = "…"
_SIGNS = {"\n": "⏎", "\t": "⇥", "▁": "␣"}
_SPACE, _NOTHING, _CIRCLE = "␣", "∅", "◌"
_JOINERS = "\u200c\u200d"  # invisible, but Persian words and families of emoji need them
_INVISIBLE = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"}


def families(text: str) -> list[str]:
    """The font families that draw `text`: DejaVu Sans, then as few installed ones as cover what it lacks.

    >>> families("être"), families("мир")
    (['DejaVu Sans'], ['DejaVu Sans'])
    """
    return [BASE, *_helpers(frozenset(map(ord, text)) - _characters(BASE))]


@lru_cache(maxsize=4096)
def printable(label: str, limit: int | None = 24) -> str:
    r"""`label` as it can be drawn: the invisible gets a sign, the undrawable its code, the long an ellipsis.

    >>> printable(" the"), printable("a b\n"), printable(""), printable("\x07")
    ('␣the', 'a b⏎', '∅', 'U+0007')
    >>> printable("Donaudampfschifffahrtsgesellschaft")
    'Donaudampfsc…esellschaft'
    """
    units = _units(label) or [_NOTHING]
    if limit is None or sum(map(len, units)) <= limit:
        return "".join(units)
    head, tail, room = 0, len(units), limit - len(ELLIPSIS)
    while head < tail:  # from both ends to the middle, whole units only
        front = len("".join(units[:head])) <= len("".join(units[tail:]))
        unit = units[head] if front else units[tail - 1]
        if len(unit) > room:
            break
        room -= len(unit)
        head, tail = (head + 1, tail) if front else (head, tail - 1)
    return "".join(units[:head]) + ELLIPSIS + "".join(units[tail:])


def extent(text: str, size: int | float) -> float:
    """Width in inches of one line of `text` at `size` points.

    >>> 2.9 < extent("wwwwww", 10) / extent("ww", 10) < 3.1
    True
    """
    return _width(text) * size / 10


def renderer(dpi: int | float) -> Any:
    """A renderer that measures and draws nothing."""
    return require("matplotlib.backends.backend_agg", extra="viz").RendererAgg(1, 1, dpi)


@lru_cache(maxsize=4096)
def _helpers(missing: frozenset[int]) -> tuple[str, ...]:
    """The families for what DejaVu Sans lacks, the most helpful first."""
    best = max(_installed(), key=lambda name: (len(missing & _characters(name)), "Sans" in name), default=BASE)
    covered = missing & _characters(best)
    return (best, *_helpers(missing - covered)) if covered else ()


@lru_cache(maxsize=4096)
def _width(text: str) -> float:
    """Of `text` at 10 points, in inches; measured in fine dots, which hinting does not spoil."""
    font = require("matplotlib.font_manager", extra="viz").FontProperties(family=families(text), size=10)
    return float(renderer(720).get_text_width_height_descent(text, font, False)[0]) / 720


def _units(label: str) -> list[str]:
    """What is drawn for each character of `label`; codes that follow each other are set apart."""
    units = [_unit(label, place) for place in range(len(label))]
    return [
        " " + unit if unit.startswith("U+") and before.startswith("U+") else unit
        for before, unit in zip(["", *units], units, strict=False)
    ]


def _unit(label: str, place: int) -> str:
    character, inside = label[place], 0 < place < len(label) - 1
    if character == " ":
        return " " if inside and " " not in (label[place - 1], label[place + 1]) else _SPACE
    if character in _SIGNS:
        return _SIGNS[character]
    if character in _JOINERS:  # only between what it joins
        drawable = inside and _drawable(label[place - 1]) and _drawable(label[place + 1])
    else:
        drawable = _drawable(character)
    if not drawable:
        return f"U+{ord(character):04X}"
    return (_CIRCLE if place == 0 and unicodedata.category(character)[0] == "M" else "") + character


def _drawable(character: str) -> bool:
    """Whether some installed font has `character` and it leaves a mark."""
    if unicodedata.category(character) in _INVISIBLE:
        return False
    return ord(character) in _characters(BASE) or len(families(character)) > 1


@cache
def _installed() -> tuple[str, ...]:
    """The families with an upright, regular face; colour bitmaps and the boxes of last resort are no help."""
    fonts = require("matplotlib.font_manager", extra="viz").fontManager.ttflist
    regular = {font.name for font in fonts if font.style == "normal" and font.weight in (400, "normal", "regular")}
    return tuple(sorted(name for name in regular if not any(word in name for word in ("Color", "Last", "Blank"))))


@cache
def _characters(family: str) -> frozenset[int]:
    """The code points of `family`, none when matplotlib cannot read or scale its file."""
    manager = require("matplotlib.font_manager", extra="viz")
    try:
        face = manager.get_font(manager.findfont(manager.FontProperties(family=[family])))
    except (OSError, RuntimeError):
        return frozenset()
    return frozenset(face.get_charmap()) if face.scalable else frozenset()
