"""What trainings cost on a CPU: seconds of an update, and memory, of each recipe whose data are there.

    python tools/measure_costs.py                       # recipes that were not measured yet
    python tools/measure_costs.py 'ram/*' senet/small   # these, anew
    python tools/measure_costs.py --limit 300           # seconds of processor time for each (default: 120)

Each recipe runs in a process of its own, with one thread, 32 bits, and a limit of time and of memory. What was found is
written after each, so a second call goes on where the first one was stopped. The seconds are those of the processor, so
a busy machine changes long updates little; short ones suffer, as caches are shared, so they are measured several times
(--rounds), and the smallest figure is kept. What comes before the first update (imports, reading, learning units,
features) is counted apart. Recipes with the same data share what comes before: it is done once, in a process that each
of them is a copy of. Where evaluations are frequent, one of them is timed too.

Where an update with the whole batch passes a limit, a part of the batch is measured and its seconds are multiplied; a
result says so by `part`. Where one of two data sets is not at hand, another edition stands in for it (STAND_INS), whose
batches have the same shapes; a result says so by `stand_in`.

Results go to src/regard/recipes/costs.json, which `regard list`, `regard show`, `regard train`, docs/zoo.md and
docs/papers read: run tools/make_ledger.py afterwards.
"""

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).parents[1] / "src" / "regard" / "recipes" / "costs.json"
MOST, ENOUGH = 30, 2.0  # updates that are timed, at most; seconds that are enough
SLOW = 10.0  # seconds of an update that is measured once, without another before it
FEW = 3  # updates in ENOUGH seconds: they are so long that one measurement will do
FREQUENT = 10  # updates between evaluations that are so frequent that they count
PARTS = (1, 8, 64)  # of a batch that are tried: all, an eighth, …
STAND_INS = {"cifar10_lossless": "cifar10", "snli_full": "snli"}


class EnoughError(Exception):
    """All has been seen."""


class Stopwatch:
    """Listens to a training, times its updates, and ends it."""

    def __init__(self) -> None:
        self.times: list[float] = []  # from the beginning of the first update on

    def begin(self) -> None:
        """The first update begins."""
        self.times = [time.process_time()]

    def __call__(self, kind: str, facts: Mapping[str, Any]) -> None:
        if kind == "step":
            self.times.append(time.process_time())
            timed = self.timed()
            if len(timed) > MOST or (len(timed) > 1 and timed[-1] - timed[0] >= ENOUGH):
                raise EnoughError

    def timed(self) -> list[float]:
        """The beginning and the ends of updates that count: not of the first ones, which also fill caches."""
        first = self.times[1] - self.times[0]
        return self.times[0 if first > SLOW else 1 if first > 1 else 2 :]

    def step(self) -> float:
        """Seconds of an update."""
        timed = self.timed()
        return (timed[-1] - timed[0]) / (len(timed) - 1)


def megabytes() -> float:
    """The memory of this process, at its most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def rounded(seconds: float) -> float:
    """Four digits of it."""
    return float(f"{seconds:.4g}")


def in_a_copy(work: Callable[[Callable[[dict[str, Any]], None]], None]) -> Iterator[dict[str, Any]]:
    """Give what `work` tells while it runs in a copy of this process, which may be ended by its limits."""
    sys.stdout.flush()
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        status = 1
        try:
            os.close(read)
            with open(write, "w") as told:
                work(lambda found: print(json.dumps(found), file=told, flush=True))
            status = 0
        except Exception as error:
            print(f"{type(error).__name__}: {error}".partition("\n")[0], file=sys.stderr, flush=True)
        finally:
            sys.stdout.flush()
            os._exit(status)
    os.close(write)
    with open(read) as told:
        yield from map(json.loads, told)
    os.waitpid(child, 0)


class Group:
    """Recipes with the same data, which are read once, in a process that each recipe is a copy of."""

    def __init__(self, recipes: Mapping[str, Any], asked: argparse.Namespace, stood_in: Mapping[str, str]) -> None:
        self.recipes, self.limit, self.memory, self.stood_in = recipes, asked.limit, asked.memory, stood_in
        self.parts = [part for part in PARTS if part >= asked.part]
        self.rounds = asked.rounds
        self.task: Any = None
        self.before = self.peak = 0.0  # seconds of the processor, and megabytes, until the task was ready

    def measure(self, tell: Callable[[dict[str, Any]], None]) -> None:
        """Tell the cost of each recipe that could be measured, with its name."""
        from regard.recipes import build_task
        from regard.train import World

        imports = time.process_time()  # of this copy, which has done nothing yet
        for name, recipe in self.recipes.items():
            if self.task is None:
                self.task = build_task(recipe)
                self.task.prepare(World().device, None)
            self.before, self.peak = time.process_time() - imports, megabytes()
            for part in self.parts:
                told = self.least(recipe, part)
                if told and "step" in told[-1]:  # else it was ended by its limits before an update was timed
                    tell({"name": name, **told[-1]})
                    break
                print(f"{name}: no update of 1/{part} of the batch within the limits", file=sys.stderr, flush=True)
                if not told:  # it had not begun, so the batch is not the reason
                    break

    def least(self, recipe: Any, part: int) -> list[dict[str, Any]]:
        """What was told where updates took the least, of several measurements if they are short."""
        best: list[dict[str, Any]] = []
        for _ in range(self.rounds):
            told = list(in_a_copy(lambda tell: self.one(recipe, part, tell)))
            if not told or "step" not in told[-1]:
                return best or told
            if not best or told[-1]["step"] < best[-1]["step"]:
                best = told
            if told[-1]["timed"] < FEW:
                break
        return best

    def one(self, recipe: Any, part: int, tell: Callable[[dict[str, Any]], None]) -> None:
        """Tell the cost of a recipe, and again when more is known; of a part of its batch, as if it were whole."""
        import torch

        from regard import api
        from regard.api import runs
        from regard.recipes import RECIPES, find_recipe
        from regard.train import World
        from regard.train.trainer import Trainer

        spent = int(time.process_time())  # copies begin with no time of their own
        resource.setrlimit(resource.RLIMIT_CPU, (spent + self.limit, spent + self.limit + 5))
        resource.setrlimit(resource.RLIMIT_DATA, (int(self.memory * 2**30),) * 2)
        watch, fixed, task = Stopwatch(), 0.0, self.task
        trainers: list[Trainer] = []

        class Watched(Trainer):
            """Says when its first update begins."""

            def run(self) -> torch.nn.Module:
                nonlocal fixed
                trainers.append(self)
                fixed = megabytes() + 3 * sum(each.nbytes for each in self.model.parameters()) / 2**20
                watch.begin()
                tell({"begun": True})
                return super().run()

        runs.Trainer = Watched  # type: ignore[misc]
        if part > 1:
            sizes = {each: getattr(recipe.task, each, None) for each in ("batch_size", "batch_tokens")}
            smaller = {each: max(1, size // part) for each, size in sizes.items() if size is not None}
            recipe = replace(recipe, task=replace(recipe.task, **smaller))
            task.config = recipe.task
        runs._new_task = lambda recipe, first: task  # type: ignore[assignment]
        begun = time.process_time()
        with tempfile.TemporaryDirectory() as place, suppress(EnoughError):
            api.train(recipe, Path(place) / "run", world=World(), watch=watch)
        found = {"prepare": round(self.before + watch.times[0] - begun, 2), "step": rounded(part * watch.step())}
        found["timed"] = len(watch.timed()) - 1
        if used := [self.stood_in[each] for each in recipe.task.data_set().split(", ") if each in self.stood_in]:
            found["stand_in"] = ", ".join(used)
        if part > 1:  # what does not depend on the batch is multiplied too, so this is an upper bound
            tell(found | {"part": part, "memory": round(max(self.peak, fixed + part * max(0, megabytes() - fixed)))})
            return
        tell(found | {"memory": round(max(self.peak, megabytes()))})
        if find_recipe(recipe.name, RECIPES).train.evaluate_every <= FREQUENT:
            start = time.process_time()
            trainers[-1].task.evaluate(trainers[-1].model, "valid")
            found["evaluation"] = rounded(time.process_time() - start)
            tell(found | {"memory": round(max(self.peak, megabytes()))})


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


def groups(names: list[str]) -> Iterator[dict[str, Any]]:
    """The recipes as a CPU runs them, those with the same data together, and those with little data first."""
    from regard import api
    from regard.recipes import RECIPES, change, find_recipe
    from regard.train import World

    quiet = [f"train.{each}_every=1000000" for each in ("log", "evaluate", "save")]
    fitted = []
    for name in names:
        recipe = api.fit_device(change(find_recipe(name, RECIPES), quiet), World())
        fitted.append(replace(recipe, train=replace(recipe.train, steps=1_000_000, seconds=None)))
    fitted.sort(key=lambda recipe: (num_bytes(recipe), repr(recipe.task)))
    for _, same in groupby(fitted, key=lambda recipe: repr(recipe.task)):
        yield {recipe.name: recipe for recipe in same}


def num_bytes(recipe: Any) -> int:
    """The size of the files of a recipe; 0 for what is in the package."""
    from regard.datasets import DATASETS

    sets = [DATASETS[name] for name in recipe.task.data_set().split(", ") if name in DATASETS]
    return sum(source.num_bytes for each in sets if not each.embedded for source in each.sources.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", help="names or patterns (default: what was not measured yet)")
    parser.add_argument("--limit", type=int, default=120, help="seconds of processor time for each recipe")
    parser.add_argument("--part", type=int, default=1, help="begin with this part of a batch, 8 for an eighth")
    parser.add_argument(
        "--rounds", type=int, default=3, help="measurements of short updates, of which the smallest is kept"
    )
    parser.add_argument("--memory", type=float, default=12.0, help="GB of memory for each recipe")
    asked = parser.parse_args()
    os.environ["REGARD_OFFLINE"] = "1"
    import torch

    from regard import api  # noqa: F401 - before the copies are made, so that each has it
    from regard.base import environment, write_atomically
    from regard.recipes import RECIPES

    torch.set_num_threads(1)
    imports = time.process_time()
    content: dict[str, Any] = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else {"recipes": {}}
    machine = environment()
    content["machine"] = f"{machine['processor']}, one thread, torch {machine['torch'].partition('+')[0]}"
    known = content["recipes"]
    if asked.recipes:
        chosen = [name for name in RECIPES if any(fnmatchcase(name, pattern) for pattern in asked.recipes)]
    else:
        chosen = [name for name in RECIPES if name not in known]
    stood_in = stand_in()
    for group in groups(chosen):
        for found in in_a_copy(Group(group, asked, stood_in).measure):
            name = found.pop("name")
            known[name] = found | {"prepare": round(imports + found["prepare"], 2)}
            print(name, known[name], flush=True)
            content["date"] = time.strftime("%Y-%m-%d")
            content["recipes"] = {each: known[each] for each in RECIPES if each in known}
            write_atomically(OUTPUT, json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
