"""`regard generate`: continues texts from the command line, a file, standard input or the keyboard."""

import argparse
import sys
from collections.abc import Iterable

from regard.base import ConfigError, RegardError
from regard.cli.flags import add_device, add_run, add_settings, prediction_settings
from regard.cli.predicting import check_format, chunks, numbered, typed_or_piped

HELP = "continue a text, with what each word attended to"


def add(command: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    add_run(command)
    command.add_argument("text", nargs="*", help="starts of texts; none: standard input")
    command.add_argument("--file", metavar="FILE", help="continue each of its lines")
    command.add_argument("--tokens", type=int, help="how many are written at most (default: the recipe's)")
    command.add_argument(
        "--temperature", type=float, help="draw tokens, the sharper the lower; without it the likeliest"
    )
    command.add_argument("--top-k", type=int, help="draw among so many likeliest tokens")
    command.add_argument("--top-p", type=float, help="draw among the likeliest tokens that have this share")
    command.add_argument("--seed", type=int, help="of what is drawn (default: 0)")
    command.add_argument("--draw", metavar="FILE", help="draw what each token attended to: .png .pdf .svg")
    add_settings(command)
    add_device(command)


def run(asked: argparse.Namespace) -> None:
    """Print each text with its continuation."""
    if asked.text and asked.file:
        raise ConfigError("text and --file exclude each other", cure="give one of them")
    chance = {"--top-k": asked.top_k, "--top-p": asked.top_p, "--seed": asked.seed}
    for flag, value in chance.items():
        if (
            value is not None
            and asked.temperature is None
            and not any("temperature=" in each for each in asked.settings)
        ):
            raise ConfigError(
                f"{flag} needs --temperature", got="the likeliest token at each step", cure="--temperature 1"
            )
    check_format("--draw", asked.draw)
    from regard import api
    from regard.viz import draw, save

    model = api.load(asked.run, device=asked.device)
    model.must("generate")
    flags = {"max_tokens": asked.tokens, "temperature": asked.temperature, "seed": asked.seed}
    flags |= {"top_k": asked.top_k, "top_p": asked.top_p}
    settings, number = prediction_settings(model.task, asked.settings, **flags), 0
    count = len(asked.text) or 2  # of drawings: more than one where nobody knows
    for chunk in chunks(_texts(asked), 1):
        for generated in model.predict(chunk, **settings):
            number += 1
            print(generated.text, flush=True)
            if asked.draw is None:
                continue
            if not generated.explanations:
                raise RegardError(f"{model.recipe.paper} has no attention", cure="draw a model that has, such as lstmn")
            for place, explanation in enumerate(generated.explanations, 1):
                path = numbered(str(numbered(asked.draw, number, count)), place, len(generated.explanations))
                print(save(draw(explanation), path), file=sys.stderr)


def _texts(asked: argparse.Namespace) -> Iterable[str]:
    if asked.text:
        return list(asked.text)
    if asked.file:
        from regard.data import read_lines

        return read_lines(asked.file)
    return typed_or_piped()[0]
