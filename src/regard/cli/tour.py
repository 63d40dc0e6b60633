"""`regard tour`: what attention is, in a minute."""

import argparse

HELP = "soft look-up and the six scores on one sentence, with pictures"


def add(command: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    command.add_argument("--out", default="tour", metavar="FOLDER", help="where the pictures go (default: tour)")


def run(asked: argparse.Namespace) -> None:
    """Print the look-ups and the table of scores; draw the pictures."""
    from regard.cli.first_steps import take_tour

    take_tour(asked.out)
