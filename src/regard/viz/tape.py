"""Weights over the slots of a memory over time: a heat map for each head, side by side."""

import numpy as np

from regard.explanation.tape import Tape
from regard.viz.heatmap import Floats, Grid, fit_figure
from regard.viz.matrix import heatmaps
from regard.viz.theme import DARK, LIGHT, blank_drawing

_CELL = 0.06  # inches of a cell, where there is room
_LONG = 24  # steps from which on heads stand below each other
_APART = 2  # heads of a kind that stand below each other on a long tape; more share a line
_MANY = 40  # slots from which on only those are drawn that a head looks at
_NOTICED = 0.02  # the weight from which on a head looks at a slot


def draw(tape: Tape, *, dark: bool = False) -> Grid:
    """Draw one heat map for each head: steps go to the right, slots go down. Returns the axes.

    Heads stand side by side; below each other where the tape is long and there are one or two of a kind. Of a large
    memory only the stretch of slots that the heads look at is drawn; a memory is a circle, so it may go on from the
    last slot to slot 0.

    >>> draw(Tape({"read 0": [[0.0, 1.0], [1.0, 0.0]], "write 0": [[1.0, 0.0], [0.0, 1.0]]})).shape
    (1, 2)
    """
    palette = DARK if dark else LIGHT
    weights = {name: array.T for name, array in tape.weights.items() if array.size}
    if not weights:
        return np.array([[blank_drawing(tape.title, "no steps", palette)]], dtype=object)
    slots = _drawn_slots([array for name, array in weights.items() if _is_head(name)])
    if slots is not None:
        weights = {name: array[slots] if _is_head(name) else array for name, array in weights.items()}
    alike = len({array.shape for array in weights.values()}) == 1
    side_by_side = alike and tape.length <= _LONG
    heads, names = (np.stack(list(weights.values())), list(weights)) if side_by_side else _lines(weights)
    inches = float(np.clip(_CELL * max(side for array in weights.values() for side in array.shape), 2.5, 5))
    titles = [f"{tape.title}\n{names[0]}" if tape.title else names[0], *names[1:]]
    axes = heatmaps(heads, columns=tape.steps or None, titles=titles, inches=inches, dark=dark)
    for ax in axes[:, 0]:
        if _is_head(ax.get_title(loc="left").rpartition("\n")[2]):
            ax.set_ylabel("slot", fontsize=8, color=palette.soft)
            if slots is not None:
                ax.yaxis.set_major_formatter(lambda place, _: f"{slots[round(place) % len(slots)]}")
    for ax in axes[-1]:
        ax.set_xlabel("step →", fontsize=8, color=palette.soft)
    fit_figure(axes.flat[0].figure)
    return axes


def _lines(weights: dict[str, Floats]) -> tuple[dict[str, Floats], list[str]]:
    """The panels line by line, and their titles: more than two heads that read, or that write, share a line.

    What such heads read or added, the vectors of all heads below each other, is divided among them.
    """
    lines: dict[str, Floats] = {}
    titles: list[str] = []
    for name, array in weights.items():
        kind = {"reads": "read", "adds": "write"}.get(name, name.split(" ")[0])
        heads = [other for other in weights if _is_head(other) and other.split(" ")[0] == kind]
        many, own = len(heads) > _APART and len({weights[head].shape for head in heads}) == 1, _is_head(name)
        if many and own and name == heads[0]:
            lines[name] = np.stack([weights[head] for head in heads])
            titles += heads
        elif many and not own and len(array) % len(heads) == 0:
            lines[name] = array.reshape(len(heads), -1, array.shape[1])
            titles += [f"{name}, {head}" for head in heads]
        elif not (many and own):
            lines[name] = array
            titles.append(name)
    return lines, titles


def _is_head(name: str) -> bool:
    """Whether a panel holds weights over slots, and not what came in, went out, was read or added."""
    return name.startswith(("read ", "write "))


def _drawn_slots(heads: list[Floats]) -> list[int] | None:
    """The slots that are drawn, from top to bottom; None means all of them.

    Of a large memory it is the shortest stretch that holds all slots which some head looks at. A memory is a circle,
    so the stretch may go on from the last slot to slot 0.
    """
    sizes = {len(head) for head in heads}
    if len(sizes) != 1 or max(sizes) <= _MANY:
        return None
    count = sizes.pop()
    seen = np.flatnonzero(np.max([head.max(1) for head in heads], 0) >= _NOTICED)
    if seen.size == 0:
        return None
    steps_to_next = np.diff(seen, append=seen[0] + count)  # the largest one jumps over what is left out
    gap = int(np.argmax(steps_to_next))
    start, length = int(seen[(gap + 1) % seen.size]), count - int(steps_to_next[gap]) + 1
    return [slot % count for slot in range(start - 1, start + min(length, count - 2) + 1)]
