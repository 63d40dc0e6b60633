"""`regard report`: one HTML page for several runs."""

import argparse
from pathlib import Path

from regard.base import ConfigError, write_atomically
from regard.cli.flags import add_files

HELP = "one HTML page for several runs"


def add(command: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    command.add_argument("runs", nargs="+", metavar="run")
    command.add_argument("--out", default="report.html", metavar="FILE", help="the page (default: report.html)")
    command.add_argument("--split", help="which test set (default: the usual one of each run)")
    command.add_argument("--samples", type=int, default=8, help="sentences or pictures to show (default: 8)")
    add_files(command)


def run(asked: argparse.Namespace) -> None:
    """Write the page; runs that were not evaluated yet are evaluated now."""
    if Path(asked.out).is_dir():
        raise ConfigError(f"{asked.out} is a folder", cure=f"name a file: {Path(asked.out) / 'report.html'}")
    from regard import api
    from regard.cli.progress import Counter

    runs = [api.load(run, source=asked.source, target=asked.target) for run in asked.runs]
    with Counter("report") as progress:
        page = api.report(runs, split=asked.split, samples=asked.samples, progress=progress)
    print(write_atomically(asked.out, page).resolve())
