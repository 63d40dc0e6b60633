"""`regard classify`: pictures → labels and the path of the glimpses; texts → labels and the words looked at."""

import argparse
import sys
from collections.abc import Iterable
from typing import Any

from regard.base import ConfigError, RegardError, check_installed
from regard.cli.flags import add_device, add_settings, prediction_settings
from regard.cli.predicting import AT_ONCE, check_format, chunks, numbered, typed_or_piped

HELP = "classify pictures or texts, with what was looked at"


def add(command: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    command.add_argument("run", help="a run folder")
    command.add_argument("inputs", nargs="*", metavar="input", help="PNG, JPEG, WebP, … files; or texts, pairs with "
                         "' ||| ' between them (texts default to the lines of standard input)")  # fmt: skip
    command.add_argument("--file", metavar="FILE", help="texts: one a line of this file")
    command.add_argument("--path", "--draw", dest="path", metavar="FILE", help="draw what it looked at: .png .pdf "
                         ".svg, or for glimpses .gif, which moves")  # fmt: skip
    add_settings(command)
    add_device(command)


def run(asked: argparse.Namespace) -> None:
    """Print the label of each input and how sure that is; of several, the input before it."""
    check_format("--path", asked.path, more=(".gif",))
    from regard import api

    model = api.load(asked.run, device=asked.device)
    model.must("classify")
    kind = model.entry.inputs
    if kind == "pictures":
        check_installed("PIL", what="regard classify")
    inputs, count, at_once = _inputs(asked, kind)
    settings, number = prediction_settings(model.task, asked.settings), 0
    for chunk in chunks(inputs, at_once):
        for given, answer in zip(chunk, model.predict(chunk, **settings), strict=True):
            number += 1
            print(*[given] * (count != 1), answer.described, sep="\t", flush=True)
            if asked.path is not None:
                _draw(model, answer, asked.path, number, count)


def _inputs(asked: argparse.Namespace, kind: str) -> tuple[Iterable[str], int, int]:
    """What is to be classified, how many there are (0 where that is not known before), and how many go together."""
    at_once = AT_ONCE.get(kind, 64)
    if kind == "pictures":
        if asked.file is not None:
            raise ConfigError("--file is for texts", got="a model of pictures", cure="name the picture without --file")
        if not asked.inputs:
            raise ConfigError("no picture is given", expected="the name of one, or of several")
        return asked.inputs, len(asked.inputs), at_once
    if asked.file is not None:
        if asked.inputs:
            raise ConfigError("texts come from one place", got="--file and texts", cure="give one of them")
        from regard.data import read_lines

        lines = [line for line in read_lines(asked.file) if line.strip()]
        return lines, len(lines), at_once
    if asked.inputs:
        return asked.inputs, len(asked.inputs), at_once
    lines_of_input, is_typed = typed_or_piped()
    return (line for line in lines_of_input if line.strip()), 0, 1 if is_typed else at_once


def _draw(model: Any, answer: Any, where: str, number: int, count: int) -> None:
    """Writes a drawing for each explanation of an answer."""
    from regard import api
    from regard.viz import animate, can_move, draw, save
    from regard.viz.heatmap import FORMATS

    explanations = list(answer.explanations) or api.explanations_of(model, answer)
    if not explanations and model.entry.inputs == "pictures":
        cure = "draw a model that does: ram, dram, dt_ram"
        raise RegardError(f"{model.name} takes no glimpses", got=f"paper={model.recipe.paper}", cure=cure)
    if not explanations:
        cure = "draw a model that attends: model.pooling=attention"
        raise RegardError(f"{model.name} has no weights to draw", got=f"paper={model.recipe.paper}", cure=cure)
    shown = explanations[:1] if model.entry.inputs == "pictures" else explanations
    for place, explanation in enumerate(shown, 1):
        path = numbered(str(numbered(where, number, count)), place, len(shown))
        moves = path.suffix.lower() == ".gif"
        if moves and not can_move(explanation):
            raise ConfigError("only glimpses can be animated", got=path.suffix, expected=f"one of {', '.join(FORMATS)}")
        print(animate(explanation, path) if moves else save(draw(explanation), path), file=sys.stderr)
