"""`regard train`: a recipe, changed by settings, in a run folder."""

import argparse
import shlex
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.base import ConfigError, check_installed
from regard.cli.flags import add_device

if TYPE_CHECKING:
    from regard.train.trainer import Watch

HELP = "train a recipe"
PICTURES = "pictures"  # in a run folder


def add(command: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    command.add_argument("recipe", help="its name, as `regard list` has it")
    command.add_argument("--set", nargs="+", action="extend", default=[], metavar="NAME=VALUE", dest="settings",
                         help="settings, such as train.steps=500 model.align=entmax; "
                         "`regard show RECIPE` lists them")  # fmt: skip
    command.add_argument("--source", metavar="PATH", action="append", help="your own data in place of the recipe's, "
                         "for its task: sentences to translate, one a line (without --target a TSV of both sides); "
                         "texts with their labels; one running text; stories with questions; lines of "
                         "picture<TAB>caption, or of picture<TAB>text for crops of words; a folder of pictures, whose "
                         "sub-folders are classes; a folder of clips; a list of edges, or a folder with edges and "
                         "nodes. Sentences and running text may be several files, plain or packed: give the flag "
                         "several times, or a pattern in quotes, such as 'corpus.*.de.gz'")  # fmt: skip
    command.add_argument("--target", metavar="PATH", action="append", help="what goes with it: the translations, line "
                         "by line, of each file; texts or stories to judge by; the folder of the pictures; the file "
                         "of the nodes")  # fmt: skip
    command.add_argument("--out", metavar="FOLDER", help="run folder (default: runs/RECIPE)")
    command.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    add_device(command)


def run(asked: argparse.Namespace) -> None:
    """Train, or go on with a run; under `torchrun` every process does its part, and goes on after a restart."""
    from regard import api
    from regard.cli.progress import Progress
    from regard.train import checkpoints, joined, was_restarted

    folder = Path(asked.out or Path("runs") / asked.recipe.replace("/", "_"))
    recipe = _recipe(asked, folder)
    check_installed("matplotlib", "PIL", what=f"regard train {asked.recipe}")  # for what it draws at the end
    with joined(asked.device) as world:
        if not asked.resume and was_restarted(folder, world):
            asked.resume = True
            recipe = _recipe(asked, folder)
        fitted = api.fit_device(recipe, world)
        saved = checkpoints(folder / "checkpoints") if asked.resume else []
        steps, warmup = recipe.train.steps, recipe.train.warmup
        if world.is_first and warmup >= steps:
            print(f"train.warmup={warmup} does not end before train.steps={steps}: the rate stays below train.lr")
        unit = recipe.entry.display.unit
        try:
            with Progress(fitted.train, asked.recipe, unit) if world.is_first else nullcontext() as watch:
                told = None if watch is None else _telling(watch, recipe, asked)
                model = api.train(fitted, folder, world=world, resume=asked.resume, watch=told)
        except KeyboardInterrupt:
            if not world.is_first:
                raise SystemExit(130) from None
            raise KeyboardInterrupt(_stopped(asked, folder, world.size)) from None
        if world.is_first:
            api.check_there(folder)
            begun = f", from {saved[-1].name} on" if saved else ""
            if saved and _step(saved[-1]) >= steps:
                begun = f": it has made all of its {steps:,} steps; --set train.steps={2 * steps} trains on"
            print(f"{model.num_parameters:,} parameters, in {folder}{begun}")
            if fitted != recipe:
                print(f"on this machine: {fitted.train.precision}, without captured graphs")
            if model.entry.display.after_training:
                _show(model, folder)
            else:
                print(f"next: regard evaluate {folder}")
        world.wait()  # `torchrun` gives up when some machines are ready long before others


def _show(model: Any, folder: Path) -> None:
    """Prints what a model can do now: its figures on the test set, and pictures of what it attended to."""
    from regard import api
    from regard.cli.evaluate import tell
    from regard.cli.progress import Counter

    split = api.first_test(model)
    with Counter(f"{model.name} on {split}") as progress:
        evaluation = model.evaluate(split, progress=progress)
    api.write_result(model, evaluation)
    print()
    tell(model, evaluation)
    drawn = api.draw_examples(model, split, folder / PICTURES)
    api.check_there(folder)
    if drawn:
        print("\nPictures:", *drawn, sep="\n  ")
    print(f"\nnext: regard report {folder}, or regard {api.verb_of(model.entry)} {folder} {model.entry.example}")


def _telling(watch: "Watch", recipe: Any, asked: argparse.Namespace) -> "Watch":
    """Listens like `watch`, and says what the training will take as soon as it is sure to begin."""
    told = False

    def listen(kind: str, facts: Mapping[str, Any]) -> None:
        nonlocal told
        if not told:
            told = True
            _tell_cost(recipe, asked)
        watch(kind, facts)

    return listen


def _tell_cost(recipe: Any, asked: argparse.Namespace) -> None:
    """Says what it will take, beside the progress, for the recipe as it stands and as many updates as are asked for."""
    from regard.recipes import RECIPES, find_recipe
    from regard.recipes.costs import cost

    changed = asked.source or any(not setting.startswith("train.") for setting in asked.settings)
    as_it_stands = ", as it stands" if changed else ""
    menu = find_recipe(asked.recipe, RECIPES)
    told = cost(replace(menu, train=replace(menu.train, steps=recipe.train.steps, seconds=recipe.train.seconds)))
    print(f"{asked.recipe}{as_it_stands}: {told.sentence()}", file=sys.stderr)


def _stopped(asked: argparse.Namespace, folder: Path, processes: int) -> str:
    """Where a run stands that was interrupted, and the command that goes on with it."""
    from regard.train import checkpoints

    saved = checkpoints(folder / "checkpoints")
    if not saved:
        return "Stopped before the first checkpoint; nothing is saved."
    out = ["--out", asked.out] if asked.out else []
    device = ["--device", asked.device] if asked.device != "auto" else []
    command = shlex.join(["regard", "train", asked.recipe, *out, *device, "--resume"])
    if processes > 1:
        command = "torchrun … -m " + command
    return f"Stopped at step {_step(saved[-1])}. Go on with: {command}"


def _step(checkpoint: Path) -> int:
    """The number of steps that a checkpoint was saved after."""
    return int(checkpoint.name.rpartition("_")[2])


def _recipe(asked: argparse.Namespace, folder: Path) -> Any:
    """The recipe by its name, or as a run began with it; both with the files and settings that were given."""
    from regard.recipes import RECIPES, change, find_recipe, load_recipe, with_files

    recipe = find_recipe(asked.recipe, RECIPES)
    if asked.resume and (folder / "recipe.json").exists():
        begun = load_recipe(folder)
        if begun.paper != recipe.paper or begun.name not in ("", recipe.name):
            cure = "choose another folder by --out"
            raise ConfigError(f"{folder} is a run of {begun.name or begun.paper}", got=asked.recipe, cure=cure)
        recipe = begun
    if asked.source is not None:
        recipe = with_files(recipe, asked.source, asked.target)
    elif asked.target is not None:
        raise ConfigError("--target needs --source", cure="give both files, or one TSV as --source")
    return change(recipe, asked.settings)
