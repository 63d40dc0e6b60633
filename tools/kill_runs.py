"""Kill trainings at random touches of the disk, again and again, and see that nothing is lost.

    python tools/kill_runs.py --kills 500 --seed 0

Four recipes in tiny sizes, on data that the package ships or that is made here. Each training is a process of its own,
which SIGKILL ends just before its n-th touch of the run folder: before a file is opened for writing, synced, renamed,
truncated or removed; n is drawn from the seed. Then every checkpoint must be whole or absent, nothing may lock the
folder, and another process goes on from there, until one gets to the end. What it leaves must be, to the bit, what a
training leaves that nobody disturbed. Exit status 1 on the first fault.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads do not survive a fork

import torch
from tqdm import tqdm

from regard import api
from regard.base import RegardError
from regard.datasets.shapes import shapes
from regard.recipes import RECIPES, Recipe, change, load_recipe, with_files
from regard.train import load_checkpoint, load_tensors
from regard.train.lock import check_free
from regard.train.trainer import BEST, CHECKPOINTS, FINAL

TOUCHES = ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.truncate", "shutil.rmtree")
TIMES = ("seconds", "per_second", "preparing", "mark")  # what differs between two runs that are equal
TRAIN = ["train.steps=7", "train.log_every=2", "train.evaluate_every=3", "train.save_every=2", "train.warmup=0"]
NUMBERS = ("one", "two", "three", "four", "five")
SETTINGS: dict[str, list[str]] = {
    "bahdanau/plain_en_fr": [
        *(f"model.{name}_dim=8" for name in ("embed", "hidden", "align", "maxout")),
        "task.batch_size=8", "train.keep=2",
    ],
    "transformer/plain_en_fr": [
        "model.dim=8", "model.hidden_dim=8", "model.num_heads=2", "model.encoder_layers=1", "model.decoder_layers=1",
        "task.batch_size=8", "train.ema=0.9", "train.average=2", "train.keep=2",
    ],
    "ram/mini": [
        *(f"model.{name}_dim=8" for name in ("part", "glimpse", "hidden")), "model.glimpses=2",
        "task.batch_size=8", "train.keep=1",
    ],
    "show_attend_tell/shapes": [
        *(f"model.{name}_dim=8" for name in ("embed", "hidden", "align", "project")),
        "task.batch_size=8", "task.max_words=10", "task.encoder.keep=false", "train.keep=1",
    ],
}  # fmt: skip


# ── processes that die at a chosen moment; tests/train/killed.py uses them too ──────────────────────────────────────


def child(work: Callable[[], object], log: Path | None = None) -> int:
    """The work in a process of its own, which says nothing but in `log`; gives its id."""
    number = os.fork()
    if number == 0:
        code = 1
        try:
            if log is not None:
                handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(handle, 1)
                os.dup2(handle, 2)
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return number


def ended_by(number: int) -> int:
    """0 when it ended well, −9 when it was killed."""
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def at_touches(folder: Path, do: Callable[[int], None]) -> None:
    """From now on `do(n)` is called just before this process touches the folder for the n-th time."""
    sync, count = os.fsync, [0]

    def seen(event: str, arguments: tuple[Any, ...]) -> None:
        writes = event in TOUCHES and str(folder) in str(arguments[0])
        if writes and (event != "open" or arguments[1] not in ("r", "rb")):
            count[0] += 1
            do(count[0])

    def synced(handle: int) -> None:
        seen("open", (str(folder), "fsync"))
        sync(handle)

    sys.addaudithook(seen)
    os.fsync = synced


def die_at(touch: int, folder: Path) -> None:
    """From now on this process dies just before it touches the folder for the n-th time."""

    def die(number: int) -> None:
        if number == touch:
            os.kill(os.getpid(), signal.SIGKILL)

    at_touches(folder, die)


# ── runs, and what may be wrong with them ───────────────────────────────────────────────────────────────────────────


def small_recipes(place: Path) -> dict[str, Recipe]:
    """The four recipes in tiny sizes: 45 pairs of text, 1,797 digits, 30 painted shapes.

    The third begins with the weights of another run.
    """
    table = place / "pairs.tsv"
    pairs = [f"{a} and {b} {c}\t{c} {b} et {a}\n" for a in NUMBERS[:3] for b in NUMBERS for c in NUMBERS[:3]]
    table.write_text("".join(pairs))
    pictures, captions = place / "pictures", place / "captions.tsv"
    pictures.mkdir()
    made = shapes((30, 0, 0))["train"]
    for picture in made.names:
        (pictures / picture).write_bytes(made.read(picture))
    lines = [f"{picture}\t{texts[0]}\n" for picture, texts in zip(made.names, made.captions, strict=True)]
    captions.write_text("".join(lines))
    recipes = {}
    for name, settings in SETTINGS.items():
        recipe = RECIPES[name]()
        if name.endswith("plain_en_fr"):
            recipe = with_files(recipe, str(table), None)
        elif name.endswith("shapes"):
            recipe = with_files(recipe, str(captions), str(pictures))
        recipes[name] = change(recipe, [*TRAIN, *settings])
    first = place / "first"
    api.train(change(recipes["ram/mini"], ["train.steps=1", "train.seed=5"]), first)
    recipes["ram/mini"] = change(recipes["ram/mini"], [f"start={first}"])
    return recipes


def faults_after_a_kill(folder: Path) -> Iterator[str]:
    """What must not be, whenever a process was killed."""
    for path in sorted((folder / CHECKPOINTS).glob("step_*")):
        try:
            load_checkpoint(path)
        except RegardError as error:
            yield f"a checkpoint is not whole: {error}"
    for path in (folder / BEST, folder / FINAL):
        try:
            if path.exists():
                load_tensors(path)
        except RegardError as error:
            yield f"weights are not whole: {error}"
    try:
        check_free(folder)
        if (folder / "recipe.json").exists():
            load_recipe(folder)
    except RegardError as error:
        yield str(error)


def faults_at_the_end(folder: Path, undisturbed: Path) -> Iterator[str]:
    """What differs from a run that nobody disturbed, times apart."""
    names, wanted = ({str(path.relative_to(run)) for path in run.rglob("*")} for run in (folder, undisturbed))
    if names != wanted:
        yield f"other files: {sorted(names ^ wanted)}"
    for name in sorted(names & wanted):
        one, other = folder / name, undisturbed / name
        if one.is_dir():
            continue
        if name.endswith(("metrics.jsonl", "state.json")):
            if _without_times(one) != _without_times(other):
                yield f"{name} differs"
        elif one.read_bytes() != other.read_bytes():
            yield f"{name} differs"


def _without_times(path: Path) -> list[dict[str, Any]]:
    lines = [path.read_text()] if path.suffix == ".json" else path.read_text().splitlines()
    left_out = (*TIMES, "sha256")  # state.json: its checksum is over the times too
    return [{key: value for key, value in json.loads(line).items() if key not in left_out} for line in lines]


class Trial:
    """One recipe: an undisturbed run, and one that is killed until it gets to the end, then the next."""

    def __init__(self, name: str, recipe: Recipe, place: Path) -> None:
        self.name, self.recipe, self.place = name, recipe, place / name.replace("/", "_")
        self.undisturbed, self.folder, self.log = (self.place / part for part in ("undisturbed", "killed", "log.txt"))
        self.place.mkdir(parents=True)
        api.train(recipe, self.undisturbed)  # here: what torch loads late is loaded before the first fork
        counter = self.place / "touches.txt"
        self._process(lambda: at_touches(self.folder, lambda number: counter.write_text(str(number))))
        self.touches = int(counter.read_text())
        shutil.rmtree(self.folder)

    def kill(self, touch: int) -> tuple[bool, list[str]]:
        """Go on until the n-th touch: whether the process was killed there, else it got to the end; and all faults."""
        end = self._process(lambda: die_at(touch, self.folder))
        if end == -signal.SIGKILL:
            return True, list(faults_after_a_kill(self.folder))
        if end != 0:
            return False, [f"the training failed, status {end}:\n{self.log.read_text()}"]
        found = list(faults_at_the_end(self.folder, self.undisturbed))
        if not found:
            shutil.rmtree(self.folder)
        return False, found

    def _process(self, prepare: Callable[[], None]) -> int:
        def work() -> None:
            prepare()
            api.train(self.recipe, self.folder, resume=True)

        return ended_by(child(work, self.log))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500, help="how many processes are killed (default: 500)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (default: 0)")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    draw, place = random.Random(asked.seed), Path(tempfile.mkdtemp(prefix="kill_runs_"))
    os.environ["REGARD_CACHE"] = str(place / "cache")  # where the key lies that signs paths in recipes
    trials = [Trial(name, recipe, place) for name, recipe in small_recipes(place).items()]
    killed, finished = Counter[str](), Counter[str]()
    with tqdm(total=asked.kills, unit="kill", disable=None) as bar:
        while killed.total() < asked.kills or any(trial.folder.exists() for trial in trials):
            over = killed.total() >= asked.kills  # now every run may get to its end
            trial = next((t for t in trials if t.folder.exists()), trials[0]) if over else draw.choice(trials)
            touch = sys.maxsize if over else draw.randint(1, trial.touches)
            was_killed, found = trial.kill(touch)
            if found:
                print(
                    f"{trial.name}, seed {asked.seed}, after {killed.total()} kills, touch {touch}:", *found, sep="\n  "
                )
                print(f"what is left of it: {place}")
                return 1
            killed[trial.name] += was_killed
            finished[trial.name] += not was_killed
            bar.update(was_killed)
    shutil.rmtree(place)
    for trial in trials:
        name = trial.name
        print(f"{name:26} {trial.touches:4} touches, {killed[name]:4} kills, {finished[name]:4} runs to the end")
    print(f"{killed.total()} kills, seed {asked.seed}: every checkpoint whole or absent, every finished run bit-equal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
