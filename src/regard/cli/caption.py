"""`regard caption`: what pictures show, in words, and where each word looked."""

import sys
from argparse import Namespace

from regard import api
from regard.base import RegardError, check_installed
from regard.cli.pictures import check_format, chunks, numbered
from regard.cli.searching import search_settings
from regard.tasks import Caption
from regard.viz import save
from regard.viz.heatmap import FORMATS


def caption(asked: Namespace) -> None:
    """Print a caption for each picture; with --nbest the score before it, of several pictures the name before all.

    With --beside the captions of the other runs follow, each after what tells the runs apart.
    """
    check_installed("PIL", what="regard caption")
    check_format("--overlay", asked.overlay, FORMATS)
    models = [api.load(run, device=asked.device) for run in (asked.run, *asked.beside)]
    for model in models:
        model.must_be("captioning", "pictures")
    labels, options = api.labels(models), [search_settings(model, asked.settings) for model in models]
    count, number = len(asked.pictures), 0
    for chunk in chunks(asked.pictures):
        found = [
            model.captions(chunk, beam=asked.beam, nbest=asked.nbest, **settings)
            for model, settings in zip(models, options, strict=True)
        ]
        for by_model in zip(*found, strict=True):
            number += 1
            for label, several in zip(labels, by_model, strict=True):
                for one in several:
                    parts = [one.name] * (count > 1) + [label] * (len(models) > 1)
                    print("\t".join([*parts, *[f"{one.score:8.3f}"] * (asked.nbest > 1), one.text]), flush=True)
            if asked.overlay is not None:
                named = dict(zip(labels, zip(models, by_model, strict=True), strict=True))
                print(save(api.overlaid(_drawn(named)), numbered(asked.overlay, number, count)), file=sys.stderr)


def _drawn(found: dict[str, tuple[api.Model, list[Caption]]]) -> Caption | dict[str, Caption]:
    """One caption, or several by name: that of their run, where there are several, and their rank, where there are."""
    drawn = {}
    for label, (model, several) in found.items():
        for rank, one in enumerate(several, 1):
            parts = [label] * (len(found) > 1) + [str(rank)] * (len(several) > 1)
            drawn[" ".join(parts)] = _drawable(model, one)
    return drawn if len(drawn) > 1 else next(iter(drawn.values()))


def _drawable(model: api.Model, found: Caption) -> Caption:
    if found.weights is None:
        raise RegardError(f"{model.name} has no attention", got="model.mean_pooled", cure="draw a model that has")
    if not found.tokens:
        raise RegardError("there is nothing to draw", got=f"no words for {found.name}")
    return found
