"""Timing side by side: the candidates take turns, so that a busy moment of the machine falls on all of them alike."""

import argparse
import csv
import datetime
import gc
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from regard.base import environment

RESULTS = Path(__file__).parent / "results"


def side_by_side(
    candidates: Mapping[str, Callable[[], object]],
    *,
    rounds: int = 40,
    warm_up: int = 2,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of each candidate in each round, by a clock; the order changes from round to round.

    The first `warm_up` rounds are not counted. As in `timeit`, Python does not look for garbage in between: where many
    libraries are loaded, that takes a fifth of a second, whenever it comes.
    """
    names = list(candidates)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    gc.disable()
    try:
        for turn in range(rounds + warm_up):
            gc.collect()
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                start = clock()
                candidates[name]()
                if torch.cuda.is_available():
                    torch.cuda.synchronize()
                if turn >= warm_up:
                    seconds[name].append(clock() - start)
    finally:
        gc.enable()
    return seconds


def flags_and_device(text: str | None, *, rounds: int | None = None) -> tuple[argparse.Namespace, torch.device]:
    """The flags of a benchmark for GPUs, and the device it runs on; without a GPU it is refused, but for `--check`.

    With a number of rounds, they can be chosen, and results need not be kept.
    """
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only compare, at small sizes; on a CPU too")
    if rounds is not None:
        parser.add_argument("--rounds", type=int, default=rounds, help="how often each way takes its turn")
        parser.add_argument("--no-save", dest="save", action="store_false", help="add nothing to the results")
    asked = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and not asked.check:
        raise SystemExit("this benchmark needs a CUDA device; --check compares without one")
    return asked, device


def peak_memory(run: Callable[[], object]) -> float:
    """The peak of a GPU's memory in MiB, above what was there before."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


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
