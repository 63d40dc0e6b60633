"""Record the first losses of every recipe, and compare two records: a refactoring changes no training.

    python tools/first_losses.py record before.json
    python tools/first_losses.py compare before.json after.json

`record` trains each recipe of `RECIPES` for 20 updates on the CPU, with one thread and the recipe's own seed, by
`regard train` in a process of its own, and keeps the loss of each update with all its digits. It ends the process
once the last loss is written, so nothing is evaluated, saved or drawn. It relies only on what a refactoring leaves
alone: the command line, the names of recipes and settings, and metrics.jsonl in the run folder.

    python tools/first_losses.py record after.json --source ../other/src --only "luong/*" --jobs 1

`--source` names the folder that holds the package `regard` of the tree to train, so one script can record two trees.
Nothing is downloaded: REGARD_DATA names the folder with the data sets, and a recipe whose data are missing is skipped.
Most recipes are made for a GPU: `CUTS` makes them small enough for a CPU, by settings.

`compare` prints a line for each recipe. Its exit status is 1 if a loss differs by more than 1e-5 of its value, or if a
record lacks a recipe that the other has; a recipe that both have skipped is named, and is not an error.
"""

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

UPDATES = 20
TOLERANCE = 1e-5  # relative; a sum in another order stays below it
LIMIT = 900.0  # seconds for one recipe, data included; a training that takes longer has failed
OWN_SOURCE = Path(__file__).resolve().parents[1] / "src"
NEVER = 1_000_000  # updates
COMMON = [
    f"train.steps={UPDATES}", "train.log_every=1", f"train.evaluate_every={NEVER}", f"train.save_every={NEVER}"
]  # fmt: skip
NARROW = ["model.embed_dim=128", "model.hidden_dim=128"]
FEW = ["task.batch_size=8", "task.vocabulary=1000"]
SHORT = ["task.max_words=10"]  # of europarl's sentences about one in seven
CUTS: list[tuple[str, list[str], str]] = [  # recipes, settings, reason; the first pattern that matches counts
    ("*/plain_en_fr", [], "made for a CPU"),
    ("ram/mini", [], "made for a CPU"),
    ("show_attend_tell/shapes", [], "made for a CPU"),
    ("ram/fully_connected", [], "an update takes less than a second"),
    ("ram/convolutional", [], "an update takes less than a second"),
    ("transformer/europarl_en_fr",
     ["task.batch_tokens=256", "task.vocabulary=1000", *SHORT, "model.dim=128", "model.hidden_dim=128"],
     "16,384 tokens a batch, 30 M parameters; splitting 300,000 long pairs into sub-words takes longer than training"),
    ("*/europarl_en_fr", [*FEW, *SHORT, *NARROW],
     "256 pairs a batch, 30 M parameters; splitting 300,000 long pairs into sub-words takes longer than training"),
    ("transformer/*", FEW, "128 to 1024 pairs a batch"),
    ("convs2s/*", [*FEW, "model.dim=128"], "256 pairs a batch, 20 M parameters"),
    ("*/*multi30k_*", [*FEW, *NARROW], "128 pairs a batch: 3 s an update and more; 20 M parameters"),
    ("luong/*", [*FEW, *NARROW], "128 pairs a batch: 3 s an update and more; 20 M parameters"),
    ("ram/*", ["task.batch_size=16", "model.hidden_dim=256", "model.glimpse_dim=256"],
     "1024 pictures a batch, up to 1024 wide: up to 20 s an update"),
    ("dt_ram/*", ["task.batch_size=16"], "1024 pictures a batch: 1 s an update and more"),
    ("dram/*", ["task.batch_size=4"], "512 or 1024 pictures a batch: 5 s an update and more"),
    ("senet/*", ["task.batch_size=8"], "256 pictures a batch: 5 s an update and more"),
    ("nonlocal/*", ["task.batch_size=8"], "256 pictures a batch: 5 s an update and more"),
    ("show_attend_tell/flickr8k_*",
     ["task.batch_size=10", "task.encoder.size=64", "task.encoder.keep=false", "model.hidden_dim=256"],
     "256 captions a batch; all 8,000 pictures are decoded first, and for the frozen encoder encoded: views of 64×64 "
     "pixels have 2×2 places; they are not kept on disk, or the next record would read them in place of making them"),
    ("*/smoke", [], "made for a CPU"),
    ("*", ["task.batch_size=8"], "made for a GPU, so batches are large"),
]  # fmt: skip
LIST_RECIPES = """
import json, sys
from pathlib import Path
import regard
if not Path(regard.__file__).resolve().is_relative_to(sys.argv[1]):
    sys.exit(f"Python imports {regard.__file__}")
from regard.recipes import RECIPES
print(json.dumps(list(RECIPES)))
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recorder = commands.add_parser("record", help="train each recipe for 20 updates, and write the losses")
    recorder.add_argument("file", type=Path, help="the JSON file to write")
    recorder.add_argument("--only", default="*", metavar="GLOB", help='recipes by name, such as "ram/*" (default: all)')
    recorder.add_argument("--jobs", type=int, default=2, metavar="N", help="trainings at a time (default: 2)")
    recorder.add_argument("--source", type=Path, default=OWN_SOURCE, metavar="DIR",
                          help="the folder that holds the package to train (default: src of this tree)")  # fmt: skip
    comparer = commands.add_parser("compare", help="compare the losses of two records")
    comparer.add_argument("before", type=Path)
    comparer.add_argument("after", type=Path)
    asked = parser.parse_args(arguments)
    if asked.command == "compare":
        lines, equal = compare(*(json.loads(path.read_text()) for path in (asked.before, asked.after)))
        print("\n".join(lines))
        return 0 if equal else 1
    recipes = record(asked.file, asked.source.resolve(), asked.only, asked.jobs)
    failed = [name for name, entry in recipes.items() if "failed" in entry]
    if failed:
        print(f"{len(failed)} failed: {', '.join(failed)}")
    return 1 if failed else 0


# ── record ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def record(file: Path, source: Path, only: str, jobs: int) -> dict[str, dict[str, Any]]:
    """The losses of each recipe of a source tree, or why there are none, by name; prints a line for each.

    The file is written anew after each recipe, so that what was recorded stays when the rest is not awaited.
    """
    start = time.perf_counter()
    names = [name for name in recipe_names(source) if fnmatch(name, only)]
    if not names:
        raise SystemExit(f"no recipe matches --only {only!r}; `regard list` names them all")
    stop, writing = threading.Event(), threading.Lock()
    recipes: dict[str, dict[str, Any]] = {}

    def recorded(name: str) -> None:
        begun = time.perf_counter()
        entry = first_losses(name, source, stop)
        if stop.is_set():
            return
        outcome = f"{len(entry['losses'])} losses" if "losses" in entry else " ".join(map(": ".join, entry.items()))
        with writing:
            recipes[name] = entry
            print(f"{name:42} {time.perf_counter() - begun:5.0f} s  {outcome}", flush=True)
            content = {"updates": UPDATES, "recipes": {name: recipes[name] for name in names if name in recipes}}
            file.write_text(json.dumps(content, indent=1) + "\n")

    pool = ThreadPoolExecutor(jobs)
    try:
        list(pool.map(recorded, names))
    finally:  # Ctrl-C ends the trainings that run, and begins no other
        stop.set()
        pool.shutdown(cancel_futures=True)
    count = sum("losses" in entry for entry in recipes.values())
    print(f"{count} of {len(names)} recipes recorded in {time.perf_counter() - start:.0f} s")
    return {name: recipes[name] for name in names}


def recipe_names(source: Path) -> list[str]:
    """The names in the RECIPES of a source tree; stops where Python would import the package from elsewhere."""
    command = [sys.executable, "-c", LIST_RECIPES, str(source)]
    done = subprocess.run(command, env=environment(source), cwd=tempfile.gettempdir(), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"the recipes of --source {source} cannot be listed: {last_line(done.stderr)}")
    names: list[str] = json.loads(done.stdout)
    return names


def environment(source: Path) -> dict[str, str]:
    """The environment of a training: this source tree, one thread, no GPU, no network."""
    paths = [str(source), *filter(None, [os.environ.get("PYTHONPATH")])]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    own = {"PYTHONPATH": os.pathsep.join(paths), "CUDA_VISIBLE_DEVICES": "", "REGARD_OFFLINE": "1"}
    return {**os.environ, **threads, **own}


def settings_of(name: str) -> list[str]:
    """The settings with which a recipe is trained here, in the words of `regard train --set`."""
    return [*COMMON, *next((settings for pattern, settings, _ in CUTS if fnmatch(name, pattern)), [])]


def first_losses(name: str, source: Path, stop: threading.Event) -> dict[str, Any]:
    """The settings of a recipe and its first losses; or, under "skipped" or "failed", the reason why it has none.

    The training is killed when it has written its losses, and when another thread sets `stop`.
    """
    settings = settings_of(name)
    with tempfile.TemporaryDirectory(prefix="first_losses_") as place:
        run, log = Path(place) / "run", Path(place) / "log.txt"
        command = [sys.executable, "-m", "regard", "train", name, "--out", str(run), "--device", "cpu"]
        with open(log, "wb") as said:
            process = subprocess.Popen(
                [*command, "--set", *settings], env=environment(source), cwd=place, stdout=said, stderr=said
            )
        try:
            in_time = wait_for_losses(process, run / "metrics.jsonl", stop)
        finally:
            process.kill()
            process.wait()
        losses = read_losses(run / "metrics.jsonl")
        text = log.read_text(errors="replace")
    if len(losses) == UPDATES:
        return {"settings": settings, "losses": losses}
    if not in_time:
        return {"failed": f"{len(losses)} of {UPDATES} losses after {LIMIT:.0f} s"}
    return {"skipped" if "REGARD_DATA" in text else "failed": last_line(text)}  # the cure of missing data names it


def wait_for_losses(process: subprocess.Popen[bytes], path: Path, stop: threading.Event) -> bool:
    """Wait until all losses are written, the process has ended, or `stop` is set; False after the time limit."""
    deadline = time.monotonic() + LIMIT
    while len(read_losses(path)) < UPDATES and process.poll() is None and not stop.wait(0.1):
        if time.monotonic() > deadline:
            return False
    return True


def read_losses(path: Path) -> list[float]:
    """The losses of a run so far, one for each update, exactly as they were written; a line half written is left out.

    A gap ends them, so that the n-th loss is always that of update n.
    """
    losses: list[float] = []
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    for event in map(json.loads, lines):
        if event["kind"] == "train" and event["step"] == len(losses) + 1:
            losses.append(event["loss"])
    return losses[:UPDATES]


def last_line(text: str) -> str:
    """The last line of a text that is not empty."""
    lines = [line.strip() for line in text.replace("\r", "\n").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


# ── compare ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[list[str], bool]:
    """A line for each recipe of two records and one for all, and whether no training has changed."""
    names = list(dict.fromkeys([*before["recipes"], *after["recipes"]]))
    verdicts = [verdict(before["recipes"].get(name), after["recipes"].get(name)) for name in names]
    lines = [f"{name:42} {words}" for name, (words, _) in zip(names, verdicts, strict=True)]
    compared, bad = (sum(state == wanted for _, state in verdicts) for wanted in ("equal", "bad"))
    lines.append(f"{compared} of {len(names)} recipes agree, {bad} differ or are missing")
    return lines, compared > 0 and not bad


def verdict(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> tuple[str, str]:
    """What to print for a recipe, and "equal", "bad" or "skipped"."""
    for when, entry in (("before", before), ("after", after)):
        if entry is None:
            return f"missing {when}", "bad"
        if "failed" in entry:
            return f"missing {when}: {entry['failed']}", "bad"
    assert before is not None
    assert after is not None
    if "skipped" in before and "skipped" in after:
        return f"skipped in both: {after['skipped']}", "skipped"
    for when, entry in (("before", before), ("after", after)):
        if "skipped" in entry:
            return f"missing {when}: {entry['skipped']}", "bad"
    if before["settings"] != after["settings"] or len(before["losses"]) != len(after["losses"]):
        return "not comparable: recorded with different settings", "bad"
    if before["losses"] == after["losses"]:
        return "bit-equal", "equal"
    differences = list(relative_differences(before["losses"], after["losses"]))
    largest = max(differences)
    first = next(update for update, difference in enumerate(differences, 1) if difference)
    words = f"largest relative difference {largest:.1e}, from update {first} on"
    return words, "equal" if largest <= TOLERANCE else "bad"


def relative_differences(one: Sequence[float], other: Sequence[float]) -> Iterator[float]:
    """|a − b| / max(|a|, |b|) of each pair; infinite where a loss is not a number.

    >>> list(relative_differences([2.0, 0.0, 1.0], [1.0, 0.0, float("nan")]))
    [0.5, 0.0, inf]
    """
    for a, b in zip(one, other, strict=True):
        if a == b:
            yield 0.0
        else:
            yield abs(a - b) / max(abs(a), abs(b)) if math.isfinite(a) and math.isfinite(b) else math.inf


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the trainings too, as Ctrl-C does
    raise SystemExit(main())
