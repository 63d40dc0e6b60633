"""`regard caption`: what pictures show, in words, and where each word looked."""

import argparse
import sys
from typing import Any

from regard.base import check_installed
from regard.cli.flags import add_device, add_search, add_settings, prediction_settings
from regard.cli.predicting import check_format, chunks, numbered

HELP = "say what pictures show, with one overlay for each word"


def add(command: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    command.add_argument("run", help="a run folder")
    command.add_argument("pictures", nargs="+", metavar="picture", help="PNG, JPEG, WebP, … files")
    command.add_argument("--overlay", metavar="FILE", help="draw where each word looked: .png .pdf .svg")
    command.add_argument("--beside", nargs="+", action="extend", default=[], metavar="RUN",
                         help="what other runs say of the same pictures; --overlay draws all together")  # fmt: skip
    add_search(command, "captions of each picture")
    add_settings(command)
    add_device(command)


def run(asked: argparse.Namespace) -> None:
    """Print a caption for each picture; with --nbest the score before it, of several pictures the name before all.

    With --beside the captions of the other runs follow, each after what tells the runs apart.
    """
    check_installed("PIL", what="regard caption")
    check_format("--overlay", asked.overlay)
    from regard import api
    from regard.viz import draw_beside, save

    models = [api.load(run, device=asked.device) for run in (asked.run, *asked.beside)]
    for model in models:
        model.must("caption")
    flags = {"beam": asked.beam, "nbest": asked.nbest}
    labels, options = api.labels(models), [prediction_settings(model.task, asked.settings, **flags) for model in models]
    count, number = len(asked.pictures), 0
    for chunk in chunks(asked.pictures, 64):
        by_model = [model.predictions(chunk, **settings) for model, settings in zip(models, options, strict=True)]
        for captions_by_model in zip(*by_model, strict=True):
            number += 1
            drawn: dict[str, Any] = {}
            for model, label, captions in zip(models, labels, captions_by_model, strict=True):
                for rank, caption in enumerate(captions, 1):
                    words = [caption.name] * (count > 1) + [label] * (len(models) > 1)
                    print("\t".join([*words, *[f"{caption.score:8.3f}"] * (asked.nbest > 1), caption.text]), flush=True)
                    if asked.overlay is not None:
                        name = [label] * (len(models) > 1) + [str(rank)] * (len(captions) > 1)
                        drawn[" ".join(name)] = api.places_of(model, caption)
            if asked.overlay is not None:
                print(save(draw_beside(drawn), numbered(asked.overlay, number, count)), file=sys.stderr)
