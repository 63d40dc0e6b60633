"""Timing side by side: the candidates take turns, so that a busy moment of the machine falls on all of them alike."""

import csv
import datetime
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from regard.base import environment

RESULTS = Path(__file__).parent / "results"


def side_by_side(candidates: Mapping[str, Callable[[], object]], *, rounds: int = 40) -> dict[str, list[float]]:
    """Seconds of each candidate in each round; the order changes from round to round, two rounds warm up."""
    names = list(candidates)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds + 2):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            start = time.perf_counter()
            candidates[name]()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            if turn >= 2:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def ratio(ours: list[float], theirs: list[float]) -> float:
    """The median over rounds of ours / theirs."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def append(file: str, rows: list[dict[str, object]]) -> Path:
    """Add rows to the history, with the machine, versions, commit and date."""
    facts = environment()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=RESULTS.parent)
    common = {
        "device": facts.get("gpu", f"{facts['processor']}, {facts['threads']} threads"),
        "torch": facts["torch"],
        "commit": commit.stdout.strip() or "none",
        "date": datetime.date.today().isoformat(),
    }
    path = RESULTS / file
    path.parent.mkdir(exist_ok=True)
    new = not path.exists()
    with path.open("a", newline="") as handle:
        writer = csv.DictWriter(handle, [*rows[0], *common])
        if new:
            writer.writeheader()
        writer.writerows([row | common for row in rows])
    return path
