"""`regard answer`: answers to questions about stories, and which sentences were looked at."""

import argparse
import json
import sys
from typing import Any

from regard.base import ConfigError
from regard.cli.flags import add_device, add_run, add_settings, prediction_settings
from regard.cli.predicting import check_format, chunks, numbered, typed_or_piped

HELP = "answer questions about stories, with the weights of each hop"


def add(command: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    add_run(command)
    command.add_argument("stories", nargs="*", metavar="story", help="sentences with a question at the end, in quotes; "
                         "none: standard input, a story a line")  # fmt: skip
    command.add_argument("--file", metavar="FILE", help="answer the questions of a file in bAbI format")
    command.add_argument("--draw", metavar="FILE", help="draw which sentences each hop looked at: .png .pdf .svg")
    command.add_argument("--nbest", type=int, default=1, help="answers to each question (default: 1)")
    command.add_argument("--json", action="store_true", help="print answers and weights as JSON, one a line")
    add_settings(command)
    add_device(command)


def run(asked: argparse.Namespace) -> None:
    """Print an answer for each question, with its probability; of several questions, the question before it."""
    if asked.stories and asked.file:
        raise ConfigError("stories and --file exclude each other", cure="give one of them")
    check_format("--draw", asked.draw)
    from regard import api
    from regard.data import read_stories
    from regard.viz import draw, save

    model = api.load(asked.run, device=asked.device)
    model.must("answer")
    settings = prediction_settings(model.task, asked.settings, nbest=asked.nbest)
    stories: Any = asked.stories
    one_by_one = False
    if asked.file:
        stories = read_stories(asked.file, answers=False).questions
    elif not stories:
        stories, one_by_one = typed_or_piped()
    several = asked.file is not None or len(asked.stories) > 1
    number = 0
    for chunk in chunks(stories, 1 if one_by_one else 256):
        for answers in model.predictions(chunk, **settings):
            number += 1
            for answer in answers:
                if asked.json:
                    told = {"question": answer.source, "text": answer.text, "probability": answer.probability}
                    told["explanations"] = [explanation.to_json() for explanation in answer.explanations]
                    print(json.dumps(told, ensure_ascii=False), flush=True)
                else:
                    print(*[answer.source] * several, answer.described, sep="\t", flush=True)
            for explanation in answers[0].explanations if asked.draw is not None else ():
                print(save(draw(explanation), numbered(asked.draw, number, 2 if several else 1)), file=sys.stderr)
