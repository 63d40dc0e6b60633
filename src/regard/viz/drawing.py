"""Draws any kind of explanation, each by the file of its name."""

import os
import pathlib
from collections.abc import Mapping
from typing import Any

from regard.base import ConfigError
from regard.explanation import Explanation, Path, Places
from regard.viz.overlay import overlays
from regard.viz.path import animate as animate_path
from regard.viz.places import as_overlay


def draw(explanation: Explanation, *, dark: bool = False) -> Any:
    """The axes of a drawing, which `save` writes; `dark` is for dark pages.

    >>> from regard.explanation import Matrix
    >>> draw(Matrix([[0.9, 0.1]], ["la"], ["the", "house"])).get_yticklabels()[0].get_text()
    'la'
    """
    from regard.viz import DRAWINGS  # the menu, which imports this file

    if getattr(explanation, "kind", None) not in DRAWINGS:
        got = type(explanation).__name__
        raise ConfigError("this is not an explanation that can be drawn", got=got, expected=", ".join(DRAWINGS))
    return DRAWINGS[explanation.kind](explanation, dark=dark)


def draw_beside(captions: Mapping[str, Places], *, dark: bool = False) -> Any:
    """The axes of several captions of one picture, one below the other under their names: what each word looked at."""
    if not captions:
        raise ConfigError("there is nothing to draw", got="no captions", expected="name → Places")
    if len(captions) == 1:
        return draw(next(iter(captions.values())), dark=dark)
    overlaid = {name: as_overlay(places) for name, places in captions.items()}
    return overlays(next(iter(captions.values())).image, overlaid, dark=dark)


def can_move(explanation: Explanation) -> bool:
    """Whether `animate` can draw it."""
    return isinstance(explanation, Path)


def animate(explanation: Explanation, path: str | os.PathLike[str], *, dark: bool = False) -> pathlib.Path:
    """Write an explanation that moves, which is a `Path`, as a GIF, and return where it is."""
    if not isinstance(explanation, Path):
        got = type(explanation).__name__
        raise ConfigError(
            "only a Path can be animated", got=got, expected="Path", cure="use draw for a picture that does not move"
        )
    return animate_path(explanation, path, dark=dark)
