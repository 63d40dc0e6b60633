"""`regard translate`: sentences from the command line, a file, standard input or the keyboard."""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from regard.base import ConfigError, RegardError
from regard.cli.flags import add_device, add_run, add_search, add_settings, prediction_settings
from regard.cli.predicting import AT_ONCE, check_format, chunks, typed_or_piped

HELP = "translate text, a file, standard input, or interactively"


def add(command: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    add_run(command)
    command.add_argument("text", nargs="*", help="sentences; none: standard input")
    command.add_argument("--file", metavar="FILE", help="translate its lines")
    add_search(command, "translations of each sentence")
    add_settings(command)
    command.add_argument("--heatmap", metavar="FILE", help="draw the alignment of the first sentence: .png .pdf .svg")
    command.add_argument("--heads", action="store_true", help="one picture for each layer and head")
    add_device(command)


def run(asked: argparse.Namespace) -> None:
    """Print a translation for each sentence; with --nbest the score before it."""
    if asked.text and asked.file:
        raise ConfigError("text and --file exclude each other", cure="give one of them")
    if asked.heads and asked.heatmap is None:
        raise ConfigError("--heads needs --heatmap", cure="add --heatmap heads.png")
    check_format("--heatmap", asked.heatmap)
    from regard import api

    model = api.load(asked.run, device=asked.device)
    model.must("translate")
    settings = prediction_settings(model.task, asked.settings, beam=asked.beam, nbest=asked.nbest)
    lines, one_by_one = _lines(asked)
    first: Any = None
    for chunk in chunks(lines, 1 if one_by_one else AT_ONCE["text"]):
        for translations in model.predictions(chunk, **settings):
            first = first or translations[0]
            for translation in translations:
                score = f"{translation.score:8.3f}\t" if asked.nbest > 1 else ""
                print(f"{score}{translation.text}", flush=True)
    if asked.heatmap is not None:
        if first is None or not first.tokens:
            raise RegardError("there is nothing to draw", got="no words in the first sentence, or in its translation")
        print(_draw(model, first, Path(asked.heatmap), asked.heads), file=sys.stderr)


def _lines(asked: argparse.Namespace) -> tuple[Iterable[str], bool]:
    """The sentences, and whether somebody types them."""
    if asked.text:
        return list(asked.text), False
    if asked.file:
        from regard.data import read_lines

        return read_lines(asked.file), False
    return typed_or_piped()


def _draw(model: Any, translation: Any, path: Path, heads: bool) -> Path:
    from regard.viz import draw, heatmaps, save

    if not translation.explanations:
        raise RegardError(f"{model.recipe.paper} has no attention", cure="draw a model that has")
    if not heads:
        return save(draw(translation.explanations[0]), path)
    layers = {matrix.layer: matrix.weights for matrix in model.layers(translation)}
    return save(heatmaps(layers, translation.tokens, translation.source_tokens), path)
