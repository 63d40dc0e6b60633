"""What trainings cost on a CPU: seconds of an update, and memory, of each recipe whose data are there.

    python tools/measure_costs.py                       # recipes that were not measured yet
    python tools/measure_costs.py 'ram/*' senet/small   # these, anew
    python tools/measure_costs.py --limit 120           # seconds of processor time for each (default: 40)

Each recipe runs in a process of its own, with one thread and 32 bits. The seconds are those of the processor, so a busy
machine changes them little; what comes before the first update (reading, learning units, features) is counted apart.
Results go to src/regard/recipes/costs.json, which `regard list`, `regard show`, `regard train` and docs/costs.md read.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).parents[1] / "src" / "regard" / "recipes" / "costs.json"
WARM, MOST, ENOUGH = 2, 30, 3.0  # updates that are not timed; updates that are, at most; seconds that are enough


class EnoughError(Exception):
    """All has been seen."""


class Watch:
    """Listens to a training, and ends it."""

    def __init__(self) -> None:
        self.start, self.times = time.process_time(), [0.0]

    def __call__(self, kind: str, facts: Mapping[str, Any]) -> None:
        if kind != "step":
            return
        self.times.append(time.process_time() - self.start)
        timed = len(self.times) - 1 - WARM
        if timed >= MOST or (timed >= 1 and self.times[-1] - self.times[WARM] > ENOUGH):
            raise EnoughError


def one(name: str) -> None:
    """Print the cost of a recipe as JSON."""
    from regard import api
    from regard.recipes import RECIPES, change, find_recipe
    from regard.train import World

    recipe, watch = find_recipe(name, RECIPES), Watch()
    quiet = ["train.log_every=1000000", "train.evaluate_every=1000000", "train.save_every=1000000"]
    with tempfile.TemporaryDirectory() as place:
        try:
            world = World()
            api.train(api.fit_device(change(recipe, quiet), world), Path(place) / "run", world=world, watch=watch)
        except EnoughError:
            pass
    timed = watch.times[WARM:]
    if len(timed) < 2:
        raise SystemExit("too few updates")
    step = (timed[-1] - timed[0]) / (len(timed) - 1)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"prepare": round(max(0.0, watch.times[1] - step), 2), "step": float(f"{step:.4g}"),
                      "timed": len(timed) - 1, "memory": round(memory)}))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", help="names or patterns (default: what was not measured yet)")
    parser.add_argument("--limit", type=int, default=40, help="seconds of processor time for each recipe")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        one(asked.one)
        return
    from regard.base import environment, write_atomically
    from regard.recipes import RECIPES

    content: dict[str, Any] = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else {"recipes": {}}
    machine = environment()
    content["machine"] = f"{machine['processor']}, one thread, torch {machine['torch'].partition('+')[0]}"
    content["date"] = time.strftime("%Y-%m-%d")
    known = content["recipes"]
    if asked.recipes:
        chosen = [name for name in RECIPES if any(fnmatchcase(name, pattern) for pattern in asked.recipes)]
    else:
        chosen = [name for name in RECIPES if name not in known]
    for name in chosen:
        found = measure(name, asked.limit)
        print(name, found or "not measured", flush=True)
        if found is not None:
            known[name] = found
        content["recipes"] = {each: known[each] for each in RECIPES if each in known}
        write_atomically(OUTPUT, json.dumps(content, indent=1) + "\n")


def measure(name: str, limit: int) -> dict[str, Any] | None:
    """The cost of a recipe; nothing where its data are not there, or where it takes too long."""
    script = f"ulimit -t {limit}; exec {sys.executable} {__file__} --one {name}"
    done = subprocess.run(
        ["bash", "-c", script], env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True
    )
    if done.returncode:
        print(done.stderr.strip().rpartition("\n")[2], file=sys.stderr, flush=True)
        return None
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
