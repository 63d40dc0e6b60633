"""`regard demo`: the main job on embedded data."""

import argparse

HELP = "the main job on embedded data: with attention, without, and a report"


def add(command: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    command.add_argument("--out", default="demo", metavar="FOLDER", help="where runs and report go (default: demo)")
    command.add_argument("--seconds", type=float, default=1200.0,
                         help="stop training after so many, however little was learnt (default: 1200)")  # fmt: skip


def run(asked: argparse.Namespace) -> None:
    """Train two translators, compare them, and write a report."""
    from regard.cli.twins import compare_twins

    compare_twins(asked.out, asked.seconds)
