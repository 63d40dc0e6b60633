"""What trainings cost on a CPU: seconds of an update, and memory, of each recipe whose data are there.

    python tools/measure_costs.py                       # recipes that were not measured yet
    python tools/measure_costs.py 'ram/*' senet/small   # these, anew
    python tools/measure_costs.py --limit 300           # seconds of processor time for each (default: 120)

Each recipe runs in a process of its own, with 32 bits and a limit of time and of memory. The costs are written after
each, so a second call goes on where the first one was stopped. First come updates with one thread, whose seconds are
those of the processor: a busy machine changes them little. Then come updates with two threads, in seconds of the
clock, which count only where other programs left both cores alone; then one evaluation, if it is short. What comes
before the first update (reading, learning units, features) is counted apart.

Where an update with the whole batch passes a limit, a part of the batch is measured and its seconds are multiplied; a
result says so by `part`. Where one of two data sets is not at hand, another edition stands in for it (STAND_INS), whose
batches have the same shapes; a result says so by `stand_in`.

Results go to src/regard/recipes/costs.json, which `regard list`, `regard show`, `regard train` and docs/zoo.md read.
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).parents[1] / "src" / "regard" / "recipes" / "costs.json"
MOST, ENOUGH = 30, 3.0  # updates that are timed, at most; seconds that are enough
SLOW = 10.0  # seconds of an update that is measured once, without another before it, and with one thread only
EVALUATION = 10.0  # seconds of the processor after which an evaluation is given up
QUIET = 0.05  # the share of both cores that other programs may take while two threads are measured
CLOCK = 5  # the limit of the clock is so many times that of the processor
PARTS = (1, 8, 64)  # of a batch that are tried: all, an eighth, …
STAND_INS = {"cifar10_lossless": "cifar10", "snli_full": "snli"}


class EnoughError(Exception):
    """All has been seen."""


class Stopwatch:
    """Listens to a training, times its updates with one thread and then with two, and ends it."""

    def __init__(self) -> None:
        self.now: Callable[[], float] = time.process_time
        self.times: list[float] = []  # of this number of threads, from the beginning of its first update on
        self.found: dict[str, Any] = {}
        self.others = 0.0
        self.fixed = 0.0  # megabytes before the first update, with room for gradients and the state of Adam

    def begin(self) -> None:
        """The first update begins."""
        self.found["prepare"] = round(time.process_time(), 2)
        self.times = [self.now()]

    def __call__(self, kind: str, facts: Mapping[str, Any]) -> None:
        if kind != "step":
            return
        self.times.append(self.now())
        first = self.times[1] - self.times[0]
        warm = 0 if first > SLOW else 1 if first > 1 else 2  # the first updates also fill caches
        timed = self.times[warm:]
        if len(timed) <= MOST and (len(timed) < 2 or timed[-1] - timed[0] < ENOUGH):
            return
        seconds = (timed[-1] - timed[0]) / (len(timed) - 1)
        if "step" not in self.found:
            self.found |= {"step": _rounded(seconds), "timed": len(timed) - 1}
            if seconds > SLOW:
                raise EnoughError
            self._take_two_threads()
            return
        if _by_others() - self.others < QUIET * 2 * (self.times[-1] - self.times[0]):
            self.found["two_threads"] = _rounded(seconds)
        raise EnoughError

    def _take_two_threads(self) -> None:
        import torch

        torch.set_num_threads(2)
        self.now, self.others = time.perf_counter, _by_others()
        self.times = [self.now()]


def _by_others() -> float:
    """Seconds that other programs have had of the processors since the machine began; without them, infinitely many."""
    with suppress(OSError):
        user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
        busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
        return busy - time.process_time()
    return float("inf")


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.4g}")


def one(name: str, part: int) -> None:
    """Print the cost of a recipe as JSON, and again when more is known; of a part of its batch, as if it were whole."""
    import torch

    from regard import api
    from regard.api import runs
    from regard.recipes import RECIPES, change, find_recipe
    from regard.train import World
    from regard.train.trainer import Trainer

    watch, stood_in = Stopwatch(), stand_in()
    trainers: list[Trainer] = []

    class Watched(Trainer):
        """Says when its first update begins."""

        def run(self) -> torch.nn.Module:
            trainers.append(self)
            watch.begin()
            watch.fixed = _megabytes() + 3 * sum(each.nbytes for each in self.model.parameters()) / 2**20
            print(json.dumps(watch.found), flush=True)
            return super().run()

    runs.Trainer = Watched  # type: ignore[misc]
    world = World()
    quiet = ["train.log_every=1000000", "train.evaluate_every=1000000", "train.save_every=1000000"]
    recipe = change(find_recipe(name, RECIPES), quiet)
    used = [stood_in[each] for each in recipe.task.data_set().split(", ") if each in stood_in]
    recipe = api.fit_device(replace(recipe, train=replace(recipe.train, steps=1_000_000, seconds=None)), world)
    sizes = {each: getattr(recipe.task, each, None) for each in ("batch_size", "batch_tokens")}
    smaller = {each: max(1, size // part) for each, size in sizes.items() if size is not None}
    recipe = replace(recipe, task=replace(recipe.task, **smaller))
    with tempfile.TemporaryDirectory() as place:
        with suppress(EnoughError):
            api.train(recipe, Path(place) / "run", world=world, watch=watch)
        found = watch.found | ({"stand_in": ", ".join(used)} if used else {})
        if part > 1:  # what does not depend on the batch is multiplied too, so this is an upper bound
            found |= {each: _rounded(part * found[each]) for each in ("step", "two_threads") if each in found}
            print(json.dumps(found | {"part": part, "memory": round(watch.fixed + part * _growth(watch))}))
            return
        print(json.dumps(found | {"memory": round(_megabytes())}), flush=True)
        with suppress(EnoughError):
            found["evaluation"] = evaluation(trainers[-1])
            print(json.dumps(found | {"memory": round(_megabytes())}))


def _megabytes() -> float:
    """The memory of this process, at its most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _growth(watch: Stopwatch) -> float:
    """Megabytes that updates have taken beside the weights, their gradients and the state of Adam."""
    return max(0.0, _megabytes() - watch.fixed)


def stand_in() -> dict[str, str]:
    """Put other data sets in the place of those that are not here; what stands for what."""
    from regard.data.download import is_here
    from regard.datasets import DATASETS

    stood_in = {}
    for name, other in STAND_INS.items():
        if not all(is_here(source) for source in DATASETS[name].sources.values()):
            DATASETS[name] = replace(DATASETS[name], read=DATASETS[other].read)
            stood_in[name] = other
    return stood_in


def evaluation(trainer: Any) -> float:
    """Seconds of the processor for one evaluation with one thread, if it is a short one."""
    import torch

    def stop(*_: object) -> None:
        raise EnoughError

    torch.set_num_threads(1)
    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, EVALUATION)
    start = time.process_time()
    with trainer.masters.in_full():
        trainer.task.evaluate(trainer.model, "valid")
    signal.setitimer(signal.ITIMER_PROF, 0)
    return _rounded(time.process_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", help="names or patterns (default: what was not measured yet)")
    parser.add_argument("--limit", type=int, default=120, help="seconds of processor time for each recipe")
    parser.add_argument("--memory", type=float, default=12.0, help="GB of memory for each recipe")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--part", type=int, default=1, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        one(asked.one, asked.part)
        return
    from regard.base import environment, write_atomically
    from regard.recipes import RECIPES

    content: dict[str, Any] = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else {"recipes": {}}
    machine = environment()
    content["machine"] = f"{machine['processor']}, torch {machine['torch'].partition('+')[0]}"
    known = content["recipes"]
    if asked.recipes:
        chosen = [name for name in RECIPES if any(fnmatchcase(name, pattern) for pattern in asked.recipes)]
    else:
        chosen = [name for name in RECIPES if name not in known]
    for name in chosen:
        found = measure(name, asked.limit, asked.memory)
        print(name, found or "not measured", flush=True)
        if found is not None:
            known[name] = found
        content["date"] = time.strftime("%Y-%m-%d")
        content["recipes"] = {each: known[each] for each in RECIPES if each in known}
        write_atomically(OUTPUT, json.dumps(content, indent=1) + "\n")


def measure(name: str, limit: int, memory: float) -> dict[str, Any] | None:
    """The cost of a recipe; nothing where its data are not there, or where it takes too much time or memory."""
    bound = f"ulimit -t {limit}; ulimit -d {int(memory * 1024**2)}"
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "REGARD_OFFLINE": "1"}
    for part in PARTS:
        command = ["bash", "-c", f"{bound}; exec {sys.executable} {__file__} --one {name} --part {part}"]
        with tempfile.TemporaryFile("w+") as told, tempfile.TemporaryFile("w+") as said:
            with suppress(subprocess.TimeoutExpired):
                subprocess.run(command, env=settings, stdout=told, stderr=said, timeout=CLOCK * limit, check=False)
            told.seek(0)
            said.seek(0)
            found: list[dict[str, Any]] = [json.loads(line) for line in told]
            why = said.read().strip().rpartition("\n")[2] or f"ended by its limits, with 1/{part} of its batch"
        if found and "step" in found[-1]:  # else the limit may have ended it after its updates were timed
            return found[-1]
        print(f"{name}: {why}", file=sys.stderr, flush=True)
        if not found:  # the limits are not the reason: there were no updates
            return None
    return None


if __name__ == "__main__":
    main()
