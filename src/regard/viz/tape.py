"""Weights over the slots of a memory over time: a heat map for each head, side by side."""

import numpy as np

from regard.explanation.tape import Tape
from regard.viz.heatmap import Grid, fit_figure
from regard.viz.matrix import heatmaps
from regard.viz.theme import DARK, LIGHT, blank_drawing

_CELL = 0.06  # inches of a cell, where there is room
_LONG = 24  # steps from which on heads stand below each other


def draw(tape: Tape, *, dark: bool = False) -> Grid:
    """Draw one heat map for each head: steps go to the right, slots go down. Returns the axes.

    Heads stand side by side; below each other where the tape is long.

    >>> draw(Tape({"read 0": [[0.0, 1.0], [1.0, 0.0]], "write 0": [[1.0, 0.0], [0.0, 1.0]]})).shape
    (1, 2)
    """
    palette = DARK if dark else LIGHT
    weights = {name: array.T for name, array in tape.weights.items() if array.size}
    if not weights:
        return np.array([[blank_drawing(tape.title, "no steps", palette)]], dtype=object)
    names = list(weights)
    alike = len({array.shape for array in weights.values()}) == 1
    heads = np.stack(list(weights.values())) if alike and tape.length <= _LONG else weights
    inches = float(np.clip(_CELL * max(side for array in weights.values() for side in array.shape), 2.5, 5))
    titles = [f"{tape.title}\n{names[0]}" if tape.title else names[0], *names[1:]]
    axes = heatmaps(heads, columns=tape.steps or None, titles=titles, inches=inches, dark=dark)
    for ax in axes[:, 0]:
        if ax.get_title(loc="left").rpartition("\n")[2].startswith(("read ", "write ")):
            ax.set_ylabel("slot", fontsize=8, color=palette.soft)
    for ax in axes[-1]:
        ax.set_xlabel("step →", fontsize=8, color=palette.soft)
    fit_figure(axes.flat[0].figure)
    return axes
