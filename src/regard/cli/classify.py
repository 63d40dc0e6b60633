"""`regard classify`: what pictures show, and where the model looked to see it."""

import argparse
import sys

from regard.base import RegardError, check_installed
from regard.cli.flags import add_device, add_settings, prediction_settings
from regard.cli.predicting import check_format, chunks, numbered

HELP = "recognise pictures, with the path of the glimpses"


def add(command: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    command.add_argument("run", help="a run folder")
    command.add_argument("pictures", nargs="+", metavar="picture", help="PNG, JPEG, WebP, … files")
    command.add_argument("--path", metavar="FILE", help="draw where it looked: .png .pdf .svg, or .gif, which moves")
    add_settings(command)
    add_device(command)


def run(asked: argparse.Namespace) -> None:
    """Print what each picture shows, how sure that is, and in how many glimpses; of several, the name before it."""
    check_installed("PIL", what="regard classify")
    check_format("--path", asked.path, more=(".gif",))
    from regard import api
    from regard.viz import animate, draw, save

    model = api.load(asked.run, device=asked.device)
    model.must("classify")
    settings, count, number = prediction_settings(model.task, asked.settings), len(asked.pictures), 0
    for chunk in chunks(asked.pictures, 64):
        for picture, answer in zip(chunk, model.predict(chunk, **settings), strict=True):
            number += 1
            print(*[picture] * (count > 1), answer.described, sep="\t", flush=True)
            if asked.path is None:
                continue
            if not answer.explanations:
                cure = "draw a model that does: ram, dram, dt_ram"
                raise RegardError(f"{model.name} takes no glimpses", got=f"paper={model.recipe.paper}", cure=cure)
            path, glimpses = numbered(asked.path, number, count), answer.explanations[0]
            moves = path.suffix.lower() == ".gif"
            print(animate(glimpses, path) if moves else save(draw(glimpses), path), file=sys.stderr)
