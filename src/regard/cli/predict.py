"""`regard predict`: what a model of any task makes of inputs, and what it attended to."""

import argparse
import json
import sys

from regard.cli.flags import add_device, add_run, add_settings, prediction_settings
from regard.cli.predicting import AT_ONCE, check_format, chunks, numbered

HELP = "what any model makes of inputs; translate, classify, caption and answer are the same with more flags"


def add(command: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    add_run(command)
    command.add_argument("inputs", nargs="+", metavar="input", help="texts, or the names of files, as the task wants")
    command.add_argument("--draw", metavar="FILE", help="draw what it attended to: .png .pdf .svg")
    command.add_argument("--concepts", metavar="FILE", help="draw what each word is made of, by layer: .png .pdf .svg")
    command.add_argument("--json", action="store_true", help="print predictions and explanations as JSON, one a line")
    add_settings(command)
    add_device(command)


def run(asked: argparse.Namespace) -> None:
    """Print a line for each input."""
    check_format("--draw", asked.draw)
    check_format("--concepts", asked.concepts)
    from regard import api
    from regard.viz import draw, save

    model = api.load(asked.run, device=asked.device)
    settings, count, number = prediction_settings(model.task, asked.settings), len(asked.inputs), 0
    for chunk in chunks(asked.inputs, AT_ONCE.get(model.entry.inputs, 64)):
        for source, prediction in zip(chunk, model.predict(chunk, **settings), strict=True):
            number += 1
            explanations = api.explanations_of(model, prediction) if asked.json or asked.draw else []
            if asked.concepts is not None:
                concepts = model.concepts(source)
                explanations = [*explanations, concepts] if asked.json else explanations
                print(save(draw(concepts), numbered(asked.concepts, number, count)), file=sys.stderr)
            if asked.json:
                told = {"input": source, "text": prediction.text}
                told["explanations"] = [explanation.to_json() for explanation in explanations]
                print(json.dumps(told, ensure_ascii=False), flush=True)
            else:
                print(*[source] * (count > 1), getattr(prediction, "described", prediction.text), sep="\t", flush=True)
            if asked.draw is not None:
                for place, explanation in enumerate(explanations, 1):
                    path = numbered(str(numbered(asked.draw, number, count)), place, len(explanations))
                    print(save(draw(explanation), path), file=sys.stderr)
