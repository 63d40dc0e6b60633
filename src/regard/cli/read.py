"""`regard read`: words in pictures, and where each letter was looked for; with --finder, all words of a photograph."""

import argparse
import json
import sys
from typing import Any

from regard.base import check_installed
from regard.cli.flags import add_device, add_run, add_search, add_settings, prediction_settings
from regard.cli.predicting import check_format, chunks, numbered

HELP = "read words in pictures, with the place of each letter"


def add(command: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    add_run(command)
    command.add_argument("pictures", nargs="+", metavar="picture", help="PNG, JPEG, WebP, … files, one word each; "
                         "with --finder, whole signs or photographs")  # fmt: skip
    command.add_argument("--finder", metavar="RUN", help="a model that finds words first: a run of scene_text/signs")
    command.add_argument("--draw", metavar="FILE", help="draw where each letter was looked for, and what was found "
                         "where: .png .pdf .svg")  # fmt: skip
    command.add_argument("--json", action="store_true", help="print words and explanations as JSON, one picture a line")
    add_search(command, "readings of each word")
    add_settings(command)
    add_device(command)


def run(asked: argparse.Namespace) -> None:
    """Print what is written in each picture; of several pictures, the name before it."""
    check_installed("PIL", what="regard read")
    check_format("--draw", asked.draw)
    from regard import api

    reader = api.load(asked.run, device=asked.device)
    reader.must("read")
    settings = prediction_settings(reader.task, asked.settings, beam=asked.beam, nbest=asked.nbest)
    count, number = len(asked.pictures), 0
    if asked.finder is not None:
        finder = api.load(asked.finder, device=asked.device)
        finder.must("find")
        for number, picture in enumerate(asked.pictures, 1):
            _tell(asked, api.read_sign(reader, finder, picture, **settings), number, count)
        return
    for chunk in chunks(asked.pictures, 64):
        for readings in reader.predictions(chunk, **settings):
            number += 1
            for rank, reading in enumerate(readings):
                _tell(asked, reading, number, count, drawn=rank == 0)


def _tell(asked: argparse.Namespace, reading: Any, number: int, count: int, *, drawn: bool = True) -> None:
    """Prints one reading, and draws it."""
    if asked.json:
        told = {"picture": reading.name, "text": reading.text}
        told |= {"explanations": [explanation.to_json() for explanation in reading.explanations]}
        print(json.dumps(told, ensure_ascii=False), flush=True)
    else:
        ranked = asked.nbest > 1 and hasattr(reading, "score")  # a whole sign has none
        score = [f"{reading.score:8.3f}"] if ranked else []
        for line in reading.text.splitlines() or [""]:
            print("\t".join([*[reading.name] * (count > 1), *score, line]), flush=True)
    if asked.draw is None or not drawn:
        return
    from regard.viz import draw, save

    explanations = reading.explanations
    for place, explanation in enumerate(explanations, 1):
        path = numbered(str(numbered(asked.draw, number, count)), place, len(explanations))
        print(save(draw(explanation), path), file=sys.stderr)
