"""`regard classify`: what pictures show, and where the model looked to see it."""

import sys
from argparse import Namespace

import torch

from regard import api
from regard.base import RegardError, check_installed
from regard.cli.pictures import check_format, chunks, numbered
from regard.viz import save
from regard.viz.heatmap import FORMATS


def classify(asked: Namespace) -> None:
    """Print what each picture shows, how sure that is, and in how many glimpses; of several, the name before it."""
    check_installed("PIL", what="regard classify")
    check_format("--path", asked.path, (*FORMATS, ".gif"))
    model = api.load(asked.run, device=asked.device)
    model.must_be("classification", "pictures")
    count, number = len(asked.pictures), 0
    for chunk in chunks(asked.pictures):
        shown = [model.prepared(picture) for picture in chunk]
        for picture, image, found in zip(
            chunk, shown, model.task.predict(model.module, torch.stack(shown)), strict=True
        ):
            number += 1
            print(*[picture] * (count > 1), api.recognised_text(found), sep="\t", flush=True)
            if asked.path is None:
                continue
            if found.where is None:
                cure = "draw a model that does: ram, dram, dt_ram"
                raise RegardError(f"{model.name} takes no glimpses", got=f"paper={model.recipe.paper}", cure=cure)
            drawing = api.glimpse_drawing(model, api.pixels(image), found, "path")
            path = numbered(asked.path, number, count)
            if path.suffix.lower() == ".gif" and drawing.animate is not None:
                print(drawing.animate(path, False), file=sys.stderr)
            else:
                print(save(drawing.axes(False), path), file=sys.stderr)
