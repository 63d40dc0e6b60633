"""`regard report`: one HTML page for several runs."""

from argparse import Namespace
from pathlib import Path

from regard import api
from regard.base import ConfigError, write_atomically
from regard.cli.progress import Counter


def report(asked: Namespace) -> None:
    """Write the page; runs that were not evaluated yet are evaluated now."""
    if Path(asked.out).is_dir():
        raise ConfigError(f"{asked.out} is a folder", cure=f"name a file: {Path(asked.out) / 'report.html'}")
    runs = [api.load(run, source=asked.source, target=asked.target) for run in asked.runs]
    split = asked.split or api.first_test(runs[0])
    with Counter("report") as progress:
        page = api.report(runs, split=split, samples=asked.samples, progress=progress)
    print(write_atomically(asked.out, page).resolve())
