"""Train recipes side by side, several seeds each, evaluate them, and write what came out into the ledger.

    python tools/reproduce.py transformer/multi30k_de_en bahdanau/multi30k_de_en --seeds 3 --jobs 6 --splits test2016

    python tools/reproduce.py ram/cluttered60 --variant 4 --seeds 3 --set model.glimpses=4

    python tools/reproduce.py --grid rows.txt --seeds 3 --together

A grid has a row of the ledger in each line: RECIPE or RECIPE@VARIANT, and the settings of that row. In a setting
{seed} stands for the seed: `start=runs/ram_mnist28@seven_{seed}` begins with the run of the same seed.

    python tools/reproduce.py dt_ram/mnist28 --seeds 3 --again --judged certainty=0.99

`--judged` says how trained models are judged, in the words of `regard evaluate --set`; with `--again` those in OUT are,
and nothing is trained.

    python tools/reproduce.py show_attend_tell/flickr8k_hard --again --trained show_attend_tell/flickr8k_hard \
        --variant argmax --judged places=argmax

`--trained RECIPE[@VARIANT]` judges the runs of another row, whose figures stay as they are: this row is then the same
trainings, judged in another way. Its figures and outputs stand in the run folder too, with its name in theirs.
`--published` and `--tried` say what a variant is in the ledger, see ledger.py; a row that is made anew keeps them.

    python tools/reproduce.py memn2n/babi_joint --seeds 10 --together --splits test valid train --choose train

`--choose SPLIT` takes the seeds as restarts: the one with the best figure on that split, one of `--splits`,
stands first in the ledger, and mean and spread of all stand beside it.

Each training is a process of its own; with `--in-turn N` a process trains N seeds of a row, one after the other, which
saves the start of a process where a training takes seconds. Processes take turns on a GPU, unless NVIDIA's
multi-process service runs (`nvidia-cuda-mps-control -d`): then they share it, which is quickest for small models, but
a fault of one ends all of them. With `--resume` trainings in OUT that were cut off go on. With
`--together` the trainings are threads of one process that update their models in turn, each on a stream and with random
numbers of its own, so that captured steps of small models run at the same time. The figures are those of trainings one
after the other; seconds of training are those of all together. Results go to OUT/NAME.json, one file a row, with mean
and spread over seeds; `--ledger` puts them where `regard list` and the documents read them. A row of which a training
failed has no results.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

KEPT = ("lengths", "signatures", "missing", "settings")  # of an evaluation, beside its figures
LEDGER = Path(__file__).parents[1] / "src" / "regard" / "recipes" / "results"


@dataclass(frozen=True)
class Row:
    """A row of the ledger: a recipe, with other settings perhaps, and then with a name for them."""

    recipe: str
    variant: str | None
    settings: tuple[str, ...]
    runs: str | None = None  # the row whose runs are judged, where it is another one

    @property
    def name(self) -> str:
        """That of its file."""
        return self.recipe.replace("/", "_") + (f"@{self.variant}" if self.variant else "")

    def folder(self, seed: int, out: Path) -> Path:
        """Where a training is kept."""
        return out / f"{self.runs or self.name}_{seed}"

    @property
    def figures(self) -> str:
        """The file in that folder with its figures."""
        return "figures.json" if self.runs in (None, self.name) else f"figures_{self.name}.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*")
    parser.add_argument("--grid", type=Path, help="a file with a row in each line, in place of recipes")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=4, help="trainings side by side (default: 4); 1 without a GPU")
    parser.add_argument("--splits", nargs="+", default=["test"])
    parser.add_argument("--out", type=Path, default=Path("runs"))
    parser.add_argument("--set", nargs="*", default=[], dest="settings", help="settings of all rows")
    parser.add_argument("--judged", nargs="*", default=[], help="settings of the evaluation of all rows")
    parser.add_argument("--again", action="store_true", help="judge the runs in OUT once more; train nothing")
    parser.add_argument("--trained", help="with --again: the row whose runs are judged, RECIPE or RECIPE@VARIANT")
    parser.add_argument("--variant", help="a name for these settings: a row of its own in the ledger, RECIPE@VARIANT")
    parser.add_argument("--published", help="the number that a variant is compared with; README and the list show it")
    parser.add_argument("--tried", action="store_true", help="a setting that was weighed, and not kept")
    parser.add_argument("--together", action="store_true", help="all at once, in one process, on one GPU")
    parser.add_argument("--choose", metavar="SPLIT", help="seeds are restarts: show the one that is best on this split")
    parser.add_argument("--ledger", action="store_true")
    parser.add_argument("--in-turn", type=int, default=1, help="seeds that a process trains one after the other")
    parser.add_argument("--resume", action="store_true", help="go on with trainings in OUT that were cut off")
    parser.add_argument("--one", type=int, nargs="+", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if bool(asked.recipes) == bool(asked.grid):
        parser.error("name recipes, or a grid, and not both")
    if asked.trained and not (asked.again and len(asked.recipes) == 1):
        parser.error("--trained goes with --again and one recipe")
    if asked.choose and asked.choose not in asked.splits:
        parser.error(f"--choose {asked.choose} needs this split among --splits")
    if asked.one is not None:
        each = [
            (asked.recipes[0], seed, asked.splits, Path(f"{asked.out}_{seed}"), asked.settings) for seed in asked.one
        ]
        raise SystemExit(max(logged(job, judged=asked.judged, resume=asked.resume) for job in each))
    if asked.in_turn < 1 or (asked.in_turn > 1 and asked.together):
        parser.error("--in-turn is 1 or more, and does not go with --together")
    rows = [Row(recipe, asked.variant, tuple(asked.settings)) for recipe in asked.recipes]
    if asked.grid:
        rows = read_grid(asked.grid.read_text(encoding="utf-8"), asked.settings)
    if asked.trained:
        recipe, _, variant = asked.trained.partition("@")
        rows = [replace(row, runs=Row(recipe, variant or None, ()).name) for row in rows]
    jobs = [(row, seed) for seed in range(asked.seeds) for row in rows]
    if asked.again:
        codes = [again(row, seed, asked) for row, seed in jobs]
    elif asked.together:
        each = [(r.recipe, seed, asked.splits, r.folder(seed, asked.out), [*r.settings]) for r, seed in jobs]
        codes = together(each, judged=asked.judged)
    else:
        starts = range(0, asked.seeds, asked.in_turn)
        jobs = [(row, range(first, min(first + asked.in_turn, asked.seeds))) for first in starts for row in rows]
        with ThreadPoolExecutor(asked.jobs) as pool:
            codes = list(pool.map(lambda job: start(*job, asked), jobs))
    failed = {row for (row, _), code in zip(jobs, codes, strict=True) if code}
    for row in rows:
        if row not in failed:
            gather(row, rows, asked)
    if failed:
        raise SystemExit(f"without results, since a training failed: {', '.join(sorted(row.name for row in failed))}")


def read_grid(text: str, settings: Sequence[str] = ()) -> list[Row]:
    """The rows of a grid; empty lines and lines that begin with # are left out.

    >>> read_grid("ram/cluttered60@4 model.glimpses=4", ["train.steps=9"])[0].settings
    ('train.steps=9', 'model.glimpses=4')
    """
    rows = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            recipe, *own = line.split()
            recipe, _, variant = recipe.partition("@")
            rows.append(Row(recipe, variant or None, (*settings, *own)))
    names = [row.name for row in rows]
    if len(set(names)) < len(names) or not rows:
        raise SystemExit(f"a grid needs rows of different names, got {', '.join(names) or 'none'}; try RECIPE@VARIANT")
    return rows


def of_seed(settings: Sequence[str], seed: int) -> list[str]:
    """Settings of one training.

    >>> of_seed(["start=runs/ram_mnist28@seven_{seed}", "train.lr=1e-3"], 2)
    ['start=runs/ram_mnist28@seven_2', 'train.lr=1e-3']
    """
    return [setting.replace("{seed}", str(seed)) for setting in settings]


def start(row: Row, seeds: Sequence[int], asked: argparse.Namespace) -> int:
    """The trainings of these seeds in one process; its words go to their logs."""
    asked.out.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, __file__, row.recipe, "--one", *map(str, seeds), "--out", str(asked.out / row.name)]
    command += ["--splits", *asked.splits, "--set", *row.settings, "--judged", *asked.judged]
    command += ["--resume"] * asked.resume
    code = subprocess.run(command).returncode
    if code not in (0, 1):  # a training that fails says so itself
        print(f"{row.name} seeds {', '.join(map(str, seeds))}: the process ended with {code}", flush=True)
    return code


Job = tuple[str, int, list[str], Path, list[str]]  # recipe, seed, splits, folder, settings


def logged(job: Job, *, resume: bool = False, **how: Any) -> int:
    """One training, whose words go to a log; 1 if it failed."""
    recipe, seed, _, folder, _ = job
    folder.mkdir(parents=True, exist_ok=True)
    failed = 1
    with open(folder / "log.txt", "a" if resume else "w") as log:
        try:
            one(*job, resume=resume, say=lambda line: print(line, file=log, flush=True), **how)
            failed = 0
        except Exception:
            traceback.print_exc(file=log)
    print(f"{recipe} seed {seed}: {f'FAILED, see {folder}/log.txt' if failed else 'done'}", flush=True)
    return failed


def together(jobs: Sequence[Job], *, judged: Sequence[str] = ()) -> list[int]:
    """Trainings in threads of this process; 1 for those that failed."""
    turns, codes = Turns(len(jobs)), [1] * len(jobs)

    def go(number: int, job: Job) -> None:
        with turns.taken(number):
            codes[number] = logged(job, judged=judged, between=turns.next)

    if torch.cuda.is_available():
        torch.cuda.init()
    threads = [threading.Thread(target=go, args=(number, job), daemon=True) for number, job in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return codes


class Turns:
    """One thread at a time, in turn. What is global belongs to the one whose turn it is: random numbers, the stream.

    The device is not asked to wait in between, so it works for all of them at the same time.
    """

    def __init__(self, count: int) -> None:
        self.waiting = {number: threading.Semaphore(int(number == 0)) for number in range(count)}
        self.left, self.here = list(range(count)), threading.local()

    @contextmanager
    def taken(self, number: int) -> Iterator[None]:
        """A thread's part in the rounds, from its first turn to its end."""
        self.here.number = number
        self.waiting[number].acquire()
        try:
            if torch.cuda.is_available():
                torch.cuda.set_stream(torch.cuda.Stream())
            self._mine()
            yield
        finally:
            follower = self._follower()
            self.left.remove(number)
            if follower != number:
                self.waiting[follower].release()

    def next(self) -> None:
        """Let the others have a turn each."""
        number, follower = self.here.number, self._follower()
        if follower == number:
            return
        kept = torch.get_rng_state()
        self.waiting[follower].release()
        self.waiting[number].acquire()
        torch.set_rng_state(kept)
        self._mine()

    def _follower(self) -> int:
        return self.left[(self.left.index(self.here.number) + 1) % len(self.left)]

    def _mine(self) -> None:
        """Random numbers of the device, with a place of their own that captured graphs keep reading."""
        if torch.cuda.is_available():
            general = torch.cuda.default_generators[torch.cuda.current_device()]
            if not hasattr(self.here, "noise"):
                self.here.noise = general.clone_state()
            general.graphsafe_set_state(self.here.noise)


def one(
    name: str,
    seed: int,
    splits: list[str],
    folder: Path,
    settings: list[str],
    *,
    judged: Sequence[str] = (),
    resume: bool = False,
    say: Callable[[str], None] = lambda line: print(line, flush=True),
    between: Callable[[], None] = lambda: None,
) -> None:
    """Train, evaluate greedily and by the recipe's beam, write figures.json; `between` is called after each step."""
    from regard import api
    from regard.base import environment
    from regard.recipes import RECIPES, change, find_recipe
    from regard.train import joined

    recipe = change(find_recipe(name, RECIPES), [*of_seed(settings, seed), f"train.seed={seed}"])
    start = time.perf_counter()
    last: dict[str, Any] = {}

    def watch(kind: str, facts: Any) -> None:
        if kind == "step":
            between()
        else:
            last[kind] = dict(facts)
            say(f"{kind} {json.dumps(dict(facts), default=str)}")

    with joined() as world:
        model = api.train(api.fit_device(recipe, world), folder, world=world, resume=resume, watch=watch)
    content = {
        "recipe": name,
        "seed": seed,
        "settings": settings,
        "judged": [*judged],
        "parameters": model.num_parameters,
        "steps": last["end"]["step"],
        "minutes_of_training": last["end"]["seconds"] / 60,
        "minutes_of_capture": last["end"]["preparing"] / 60,
        "minutes_in_all": (time.perf_counter() - start) / 60,
        "per_second": last.get("train", {}).get("per_second"),
        "splits": judge(model, splits, judged, say=say),
        "environment": environment(),
        "date": time.strftime("%Y-%m-%d"),
    }
    (folder / "figures.json").write_text(json.dumps(content, indent=1))


def judge(
    model: Any, splits: list[str], judged: Sequence[str], *, say: Callable[[str], None], row: str | None = None
) -> dict[str, Any]:
    """The figures of a run on each split, which it keeps too; those of another `row` beside its own."""
    from regard import api
    from regard.cli.flags import prediction_settings

    how = prediction_settings(model.task, judged)
    found: dict[str, Any] = {}
    for split in splits:
        score = model.evaluate(split, **how)
        if row is None:
            api.write_result(model, score)
        else:
            (model.folder / f"output_{split}_{row}.txt").write_text("\n".join(score.details["outputs"]) + "\n")
        figures = dict(score.figures)
        if "tokenized_bleu" in figures:
            figures["greedy_tokenized_bleu"] = model.evaluate(split, beam=1).figures["tokenized_bleu"]
        kept = {key: score.details[key] for key in KEPT if key in score.details}
        found[split] = {"figures": figures, **kept}
        say(f"{split} {figures}")
    return found


def again(row: Row, seed: int, asked: argparse.Namespace) -> int:
    """Other figures for a run that is there; 1 where there is none."""
    from regard import api

    folder = row.folder(seed, asked.out)
    path = folder / "figures.json"
    if not path.exists():
        print(f"{folder} has no figures.json: train it first, without --again", flush=True)
        return 1
    content = json.loads(path.read_text())
    other = row.name if row.figures != path.name else None
    splits = judge(api.load(folder), asked.splits, asked.judged, say=lambda line: None, row=other)
    content |= {"judged": [*asked.judged], "splits": splits}
    (folder / row.figures).write_text(json.dumps(content, indent=1))
    print(f"{folder.name}: judged", flush=True)
    return 0


def gather(row: Row, rows: Sequence[Row], asked: argparse.Namespace) -> None:
    """The seeds of a row in one file."""
    runs = [json.loads((row.folder(seed, asked.out) / row.figures).read_text()) for seed in range(asked.seeds)]
    summary: dict[str, Any] = {}
    for split in asked.splits:
        values = [run["splits"][split]["figures"] for run in runs]
        summary[split] = {
            key: {
                "mean": statistics.fmean(value[key] for value in values),
                "spread": statistics.stdev(value[key] for value in values) if len(values) > 1 else None,
            }
            for key in values[0]
        }
    chosen = None
    if asked.choose:
        chosen = best_restart(row.recipe, [run["splits"][asked.choose]["figures"] for run in runs])
        for split, figures in summary.items():
            for key, value in figures.items():
                value["chosen"] = runs[chosen]["splits"][split]["figures"][key]
    how = "--together" if asked.together else f"--jobs {asked.jobs}"
    how += f" --in-turn {asked.in_turn}" if asked.in_turn > 1 else ""
    beside = [] if asked.grid else [other.recipe for other in rows]  # what shared the machine is part of its minutes
    command = f"python tools/reproduce.py {' '.join(dict.fromkeys([row.recipe, *beside]))} --seeds {asked.seeds} {how}"
    command += f" --variant {row.variant}" if row.variant else ""
    command += f" --splits {' '.join(asked.splits)}"
    command += f" --choose {asked.choose}" if asked.choose else ""
    settings = runs[0]["settings"]  # those of `row`, or with `--again` those it was trained with
    command += f" --set {' '.join(settings)}" if settings and not asked.trained else ""
    command += f" --again --trained {asked.trained}" if asked.trained else ""
    command += f" --judged {' '.join(asked.judged)}" if asked.judged else ""
    content = {"recipe": row.recipe, "seeds": len(runs), "command": command, "summary": summary, "runs": runs}
    if chosen is not None:
        content["chosen"] = {"seed": chosen, "by": asked.choose}
    if asked.grid:
        content["beside"] = [other.name for other in rows if other != row]
    place = LEDGER if asked.ledger else asked.out
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"{row.name}.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    if published := asked.published or before.get("published"):  # said once, and kept
        content["published"] = published
    if asked.tried or before.get("tried"):
        content["tried"] = True
    path.write_text(json.dumps(content, indent=1))
    for split, figures in summary.items():
        line = ", ".join(f"{key} {_with_spread(value)}" for key, value in figures.items())
        print(f"{row.name} {split} ({len(runs)} seeds, {runs[0]['parameters']:,} parameters, "
              f"{runs[0]['minutes_of_training']:.2f} min): {line}")  # fmt: skip


def best_restart(name: str, figures: Sequence[Mapping[str, float]]) -> int:
    """The number of the restart whose figure that counts is best; of equal ones, that with the lowest loss.

    >>> best_restart("memn2n/babi", [{"error": 3.0, "loss": 0.1}, {"error": 1.0, "loss": 0.2}, {"error": 1.0}])
    1
    """
    from regard.recipes import RECIPES, find_recipe

    counted = find_recipe(name, RECIPES).entry.display.counted
    sign = -1 if counted.better == "higher" else 1
    ranks = [(sign * values[counted.key], values.get("loss", math.inf)) for values in figures]
    return ranks.index(min(ranks))


def _with_spread(value: dict[str, float | None]) -> str:
    chosen = f"{value['chosen']:.2f} chosen, of all " if value.get("chosen") is not None else ""
    return f"{chosen}{value['mean']:.2f}" + ("" if value["spread"] is None else f" ± {value['spread']:.2f}")


if __name__ == "__main__":
    main()
