"""`regard caption`: what pictures show, in words, and where each word looked."""

import sys
from argparse import Namespace

from regard import api
from regard.base import RegardError
from regard.cli.pictures import check_format, chunks, numbered
from regard.tasks import Caption
from regard.viz import save
from regard.viz.heatmap import FORMATS


def caption(asked: Namespace) -> None:
    """Print a caption for each picture; with --nbest the score before it, of several pictures the name before all."""
    check_format("--overlay", asked.overlay, FORMATS)
    model = api.load(asked.run, device=asked.device)
    model.must_be("captioning", "pictures")
    count, number = len(asked.pictures), 0
    for chunk in chunks(asked.pictures):
        for several in model.captions(chunk, beam=asked.beam, nbest=asked.nbest):
            number += 1
            for one in several:
                parts = [one.name] * (count > 1) + [f"{one.score:8.3f}"] * (asked.nbest > 1) + [one.text]
                print("\t".join(parts), flush=True)
            if asked.overlay is not None:
                path = numbered(asked.overlay, number, count)
                print(save(_overlaid(model, several[0]), path), file=sys.stderr)


def _overlaid(model: api.Model, found: Caption) -> object:
    if found.weights is None:
        raise RegardError(f"{model.name} has no attention", got="model.mean_pooled", cure="draw a model that has")
    if not found.tokens:
        raise RegardError("there is nothing to draw", got=f"no words for {found.name}")
    return api.overlaid(found)
