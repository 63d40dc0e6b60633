"""Timing side by side: the candidates take turns, so that a busy moment of the machine falls on all of them alike."""

import csv
import datetime
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from regard.base import environment

RESULTS = Path(__file__).parent / "results"


def side_by_side(
    candidates: Mapping[str, Callable[[], object]], *, rounds: int = 40, warm_up: int = 2
) -> dict[str, list[float]]:
    """Seconds of each candidate in each round; the order changes from round to round.

    The first `warm_up` rounds are not counted.
    """
    names = list(candidates)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds + warm_up):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            start = time.perf_counter()
            candidates[name]()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            if turn >= warm_up:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def ratio(ours: list[float], theirs: list[float]) -> float:
    """The median over rounds of ours / theirs."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def append(file: str, rows: Sequence[Mapping[str, object]]) -> Path:
    """Add rows to the history, with the machine, versions, commit and date.

    A history that has other columns gets the new ones too: they are empty in its older rows.
    """
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
    old_columns, old_rows = _history(path)
    figures = [*(name for name in old_columns if name not in common), *(name for row in rows for name in row)]
    columns = [*dict.fromkeys(figures), *common]
    renamed = path.with_suffix(".new")
    with renamed.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, columns, restval="")
        writer.writeheader()
        writer.writerows([*old_rows, *({**row, **common} for row in rows)])
    renamed.replace(path)
    return path


def _history(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    if not path.exists():
        return [], []
    with path.open(newline="") as handle:
        reader = csv.DictReader(handle)
        return list(reader.fieldnames or []), list(reader)
