"""Where the time of an update goes, on one GPU: milliseconds, and the kernels that take most of it.

    python tools/profile_step.py ram/cluttered60 dram/pairs --set train.precision=pure_bfloat16 --top 20

A recipe is trained for a hundred updates, of which the second half is timed, without evaluation and the recording of
graphs; then three updates are profiled. Nothing is kept.
"""

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from regard import api
from regard.recipes import RECIPES, change, find_recipe
from regard.train import joined

WARM, TIMED, PROFILED = 50, 50, 3  # updates


class EnoughError(Exception):
    """All has been seen."""


class Watch:
    """Listens to a training, and ends it."""

    def __init__(self, top: int) -> None:
        self.top = top
        self.seconds: dict[int, float] = {}
        self.recorder = profile(activities=[ProfilerActivity.CUDA])

    def __call__(self, kind: str, facts: Mapping[str, Any]) -> None:
        if kind == "train":
            self.seconds[facts["step"]] = facts["seconds"]
            if facts["step"] == WARM + TIMED:
                if not self.top:
                    raise EnoughError
                self.recorder.__enter__()
        elif kind == "step" and facts["step"] == WARM + TIMED + PROFILED:
            torch.cuda.synchronize()
            self.recorder.__exit__(None, None, None)
            raise EnoughError

    def report(self, name: str) -> None:
        """Print what was seen."""
        milliseconds = 1000 * (self.seconds[WARM + TIMED] - self.seconds[WARM]) / TIMED
        print(f"{name}: {milliseconds:.3f} ms an update", flush=True)
        if not self.top:
            return
        kernels: dict[str, list[float]] = defaultdict(list)
        for event in self.recorder.events() or ():
            if event.device_time:
                kernels[event.name].append(event.device_time / 1000 / PROFILED)
        times = {kernel: sum(each) for kernel, each in kernels.items()}
        count = sum(map(len, kernels.values())) / PROFILED
        print(f"  {count:.0f} kernels, together {sum(times.values()):.3f} ms")
        for kernel in sorted(times, key=lambda each: -times[each])[: self.top]:
            print(f"  {times[kernel]:7.3f} ms {len(kernels[kernel]) / PROFILED:6.1f} × {kernel[:110]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="+")
    parser.add_argument("--set", nargs="*", default=[], dest="settings")
    parser.add_argument("--top", type=int, default=0, help="so many kernels; 0: the time alone")
    asked = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("there is no GPU here")
    quiet = [f"train.log_every={WARM}", "train.evaluate_every=1000000", "train.save_every=1000000"]
    for name in asked.recipes:
        recipe, watch = change(find_recipe(name, RECIPES), [*asked.settings, *quiet]), Watch(asked.top)
        with tempfile.TemporaryDirectory() as place, joined() as world:
            try:
                api.train(api.fit_device(recipe, world), Path(place) / "run", world=world, watch=watch)
            except EnoughError:
                watch.report(" ".join([name, *asked.settings]))
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
