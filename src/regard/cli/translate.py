"""`regard translate`: sentences from the command line, a file, standard input or the keyboard."""

import argparse
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.base import ConfigError, RegardError, write_atomically
from regard.cli.flags import add_device, add_run, add_search, add_settings, prediction_settings
from regard.cli.predicting import AT_ONCE, check_format, chunks, typed_or_piped

SIDES = ("source", "target")
UNSURE = 0.6  # of the shipped model's test set 4 % are below; their chrF is 37, that of the others 72
HELP = "translate text, a file, standard input, or interactively"


def add(command: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    add_run(command)
    command.add_argument("text", nargs="*", help="sentences; none: standard input")
    command.add_argument("--file", metavar="FILE", help="translate its lines")
    add_search(command, "translations of each sentence")
    add_settings(command)
    command.add_argument("--heatmap", metavar="FILE", help="draw the alignment of the first sentence: .png .pdf .svg")
    command.add_argument("--html", metavar="FILE", help="the same as a page that answers to the pointer, with every "
                         "layer and head to choose from")  # fmt: skip
    command.add_argument("--heads", action="store_true", help="one picture for each layer and head")
    command.add_argument("--layer", type=int, metavar="N", help="draw this layer, from 0 (default: the best aligned "
                         "head of all layers, or the last layer)")  # fmt: skip
    command.add_argument("--head", type=int, metavar="N", help="draw this head, from 0 (default: the mean of a layer)")
    command.add_argument("--self", nargs="?", const="source", choices=SIDES, dest="side", help="draw what the words of "
                         "the source (default), or of the target, take from each other")  # fmt: skip
    add_device(command)


def run(asked: argparse.Namespace) -> None:
    """Print a translation for each sentence; with --nbest the score before it."""
    if asked.text and asked.file:
        raise ConfigError("text and --file exclude each other", cure="give one of them")
    _check_pictures(asked)
    from regard import api

    model = api.load(asked.run, device=asked.device)
    model.must("translate")
    settings = prediction_settings(model.task, asked.settings, beam=asked.beam, nbest=asked.nbest)
    lines, one_by_one = _lines(asked)
    first: Any = None
    done, unsure = 0, 0
    for chunk in chunks(lines, 1 if one_by_one else AT_ONCE["text"]):
        for translations in model.predictions(chunk, **settings):
            first = first or translations[0]
            for translation in translations:
                score = f"{translation.score:8.3f}\t" if asked.nbest > 1 else ""
                print(f"{score}{translation.text}", flush=True)
            done, doubted = done + 1, translations[0].sureness < UNSURE
            unsure += doubted
            if doubted and (one_by_one or asked.text):
                share = f"{100 * translations[0].sureness:.0f} %"
                print(f"not sure of this one: its tokens had a probability of {share} on average", file=sys.stderr)
    if unsure and not (one_by_one or asked.text):
        below = f"below {100 * UNSURE:.0f} %"
        print(f"not sure of {unsure:,} of {done:,}: their tokens had an average probability {below}", file=sys.stderr)
    if asked.heatmap is not None or asked.html is not None:
        if first is None or not first.tokens:
            raise RegardError("there is nothing to draw", got="no words in the first sentence, or in its translation")
        if not first.explanations and asked.side is None:
            raise RegardError(f"{model.recipe.paper} has no attention", cure="draw a model that has")
        if asked.heatmap is not None:
            print(_draw(model, first, asked), file=sys.stderr)
        if asked.html is not None:
            print(_write_page(model, first, asked), file=sys.stderr)


def _check_pictures(asked: argparse.Namespace) -> None:
    """Before any work: what is to be drawn is said without contradictions, and can be written."""
    if asked.heads and asked.heatmap is None:
        raise ConfigError("--heads needs --heatmap", cure="add --heatmap heads.png")
    flags = {"--layer": asked.layer, "--head": asked.head, "--self": asked.side}
    given = [flag for flag, value in flags.items() if value is not None]
    if given and asked.heatmap is None and asked.html is None:
        raise ConfigError(f"{given[0]} needs a picture", cure="add --heatmap alignment.png or --html alignment.html")
    if asked.heads and (asked.layer is not None or asked.head is not None):
        raise ConfigError("--heads draws all layers and heads", cure="leave --layer and --head out, or --heads")
    check_format("--heatmap", asked.heatmap)
    if asked.html is not None and Path(asked.html).suffix.lower() not in (".html", ".htm"):
        raise ConfigError("--html: unknown format", got=repr(Path(asked.html).suffix), expected=".html")


def _lines(asked: argparse.Namespace) -> tuple[Iterable[str], bool]:
    """The sentences, and whether somebody types them."""
    if asked.text:
        return list(asked.text), False
    if asked.file:
        from regard.data import read_lines

        return read_lines(asked.file), False
    return typed_or_piped()


def _layers(model: Any, translation: Any, side: str | None) -> Any:
    """The matrices of all layers: over the source, or of words that look at each other."""
    if side is None:
        return model.layers(translation)
    if not hasattr(model.task, "self_layers"):
        raise RegardError(f"{model.name} has no self-attention to draw", cure="leave --self out")
    return model.task.self_layers(model.module, translation, side)


def _chosen(model: Any, translation: Any, asked: argparse.Namespace) -> Any:
    """The one matrix that is asked for."""
    from regard.tasks import chosen_head

    if asked.side is None and asked.layer is None and asked.head is None:
        return translation.explanations[0]
    matrix = chosen_head(_layers(model, translation, asked.side), asked.layer, asked.head)
    return replace(matrix, title=translation.source if asked.side == "source" else translation.text)


def _draw(model: Any, translation: Any, asked: argparse.Namespace) -> Path:
    from regard.viz import draw, heatmaps, save

    path = Path(asked.heatmap)
    if not asked.heads:
        return save(draw(_chosen(model, translation, asked)), path)
    layers = _layers(model, translation, asked.side)
    grid = heatmaps({matrix.layer: matrix.weights for matrix in layers}, layers[0].rows, layers[0].columns)
    return save(grid, path)


def _write_page(model: Any, translation: Any, asked: argparse.Namespace) -> Path:
    """The chosen matrix, and all layers and heads to choose from, on a page that needs nothing else."""
    from regard.viz import explanation_page

    first, layers = _chosen(model, translation, asked), _layers(model, translation, asked.side)
    by_layer = layers if len(layers) > 1 or layers[0].weights.ndim == 3 else []
    page = explanation_page(
        [first, *by_layer], title=translation.source, lines=[translation.text, f"{model.name}: {first.layer}"]
    )
    return write_atomically(asked.html, page)
