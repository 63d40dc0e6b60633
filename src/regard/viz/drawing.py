"""Draws any kind of explanation, each by the file of its name."""

import os
import pathlib
from typing import Any

from regard.base import ConfigError
from regard.explanation import Explanation, Path
from regard.viz.path import animate as animate_path


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


def animate(explanation: Explanation, path: str | os.PathLike[str], *, dark: bool = False) -> pathlib.Path:
    """Write an explanation that moves, which is a `Path`, as a GIF, and return where it is."""
    if not isinstance(explanation, Path):
        got = type(explanation).__name__
        raise ConfigError("only a Path can be animated", got=got, expected="Path", cure="draw it")
    return animate_path(explanation, path, dark=dark)
