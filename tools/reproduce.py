"""Train recipes side by side, several seeds each, evaluate them, and write what came out into the ledger.

    python tools/reproduce.py transformer/multi30k_de_en bahdanau/multi30k_de_en --seeds 3 --jobs 6 --splits test2016

    python tools/reproduce.py ram/cluttered60 --variant 4 --seeds 3 --set model.glimpses=4

Each training is a process of its own, so that small models share one GPU. Results go to OUT/NAME.json, one file a
recipe, with mean and spread over seeds; `--ledger` puts them where `regard list` and the documents read them.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

LEDGER = Path(__file__).parents[1] / "src" / "regard" / "recipes" / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="+")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--splits", nargs="+", default=["test"])
    parser.add_argument("--out", type=Path, default=Path("runs"))
    parser.add_argument("--set", nargs="*", default=[], dest="settings")
    parser.add_argument("--variant", help="a name for these settings: a row of its own in the ledger, RECIPE@VARIANT")
    parser.add_argument("--ledger", action="store_true")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one is not None:
        one(asked.recipes[0], asked.one, asked.splits, asked.out, asked.settings)
        return
    jobs = [(recipe, seed) for seed in range(asked.seeds) for recipe in asked.recipes]
    with ThreadPoolExecutor(asked.jobs) as pool:
        codes = list(pool.map(lambda job: start(*job, asked), jobs))
    if any(codes):
        raise SystemExit(f"{sum(map(bool, codes))} of {len(codes)} trainings failed: nothing was gathered")
    for recipe in asked.recipes:
        gather(recipe, asked)


def start(recipe: str, seed: int, asked: argparse.Namespace) -> int:
    """One training in its own process; its words go to a log."""
    folder = asked.out / f"{short(recipe, asked)}_{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, __file__, recipe, "--one", str(seed), "--out", str(folder)]
    command += ["--splits", *asked.splits, "--set", *asked.settings]
    with open(folder / "log.txt", "w") as log:
        code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT).returncode
    print(f"{recipe} seed {seed}: {'done' if code == 0 else f'FAILED ({code}), see {folder}/log.txt'}", flush=True)
    return code


def one(name: str, seed: int, splits: list[str], folder: Path, settings: list[str]) -> None:
    """Train, evaluate greedily and by the recipe's beam, write figures.json."""
    from regard import api
    from regard.base import environment
    from regard.recipes import RECIPES, change, find_recipe
    from regard.train import joined

    recipe = change(find_recipe(name, RECIPES), [*settings, f"train.seed={seed}"])
    start = time.perf_counter()
    last: dict[str, Any] = {}

    def watch(kind: str, facts: Any) -> None:
        if kind != "step":
            last[kind] = dict(facts)
            print(kind, json.dumps(dict(facts), default=str), flush=True)

    with joined() as world:
        model = api.train(api.fit_device(recipe, world), folder, world=world, watch=watch)
    found: dict[str, Any] = {}
    for split in splits:
        score = model.evaluate(split)
        api.write_result(model, score)
        figures = dict(score.figures)
        if "tokenized_bleu" in figures:
            figures["greedy_tokenized_bleu"] = model.evaluate(split, beam=1).figures["tokenized_bleu"]
        kept = {key: score.details[key] for key in ("lengths", "signatures", "missing") if key in score.details}
        found[split] = {"figures": figures, **kept}
        print(split, found[split]["figures"], flush=True)
    content = {
        "recipe": name,
        "seed": seed,
        "settings": settings,
        "parameters": model.num_parameters,
        "steps": last["end"]["step"],
        "minutes_of_training": last["end"]["seconds"] / 60,
        "minutes_of_capture": last["end"]["preparing"] / 60,
        "minutes_in_all": (time.perf_counter() - start) / 60,
        "per_second": last.get("train", {}).get("per_second"),
        "splits": found,
        "environment": environment(),
        "date": time.strftime("%Y-%m-%d"),
    }
    (folder / "figures.json").write_text(json.dumps(content, indent=1))


def short(recipe: str, asked: argparse.Namespace) -> str:
    """The name of files and folders."""
    return recipe.replace("/", "_") + (f"@{asked.variant}" if asked.variant else "")


def gather(recipe: str, asked: argparse.Namespace) -> None:
    """The seeds of a recipe in one file."""
    name = short(recipe, asked)
    runs = [json.loads((asked.out / f"{name}_{seed}" / "figures.json").read_text()) for seed in range(asked.seeds)]
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
    command = f"python tools/reproduce.py {recipe} --seeds {asked.seeds} --jobs {asked.jobs}"
    command += f" --variant {asked.variant}" if asked.variant else ""
    command += f" --splits {' '.join(asked.splits)}"
    command += f" --set {' '.join(asked.settings)}" if asked.settings else ""
    content = {"recipe": recipe, "seeds": len(runs), "command": command, "summary": summary, "runs": runs}
    place = LEDGER if asked.ledger else asked.out
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{name}.json").write_text(json.dumps(content, indent=1))
    for split, figures in summary.items():
        line = ", ".join(f"{key} {value['mean']:.2f}" for key, value in figures.items())
        print(f"{recipe} {split} ({len(runs)} seeds, {runs[0]['parameters']:,} parameters, "
              f"{runs[0]['minutes_of_training']:.2f} min): {line}")  # fmt: skip


if __name__ == "__main__":
    main()
