"""`regard train`: a recipe, changed by settings, in a run folder."""

import shlex
from argparse import Namespace
from contextlib import nullcontext
from pathlib import Path

from regard import api
from regard.base import ConfigError, check_installed
from regard.cli.evaluate import tell
from regard.cli.progress import Counter, Progress
from regard.models import MODELS
from regard.recipes import RECIPES, Recipe, change, find_recipe, load_recipe, with_files
from regard.recipes.figures import SHOWN
from regard.train import checkpoints, joined

PICTURES = "pictures"  # in a run folder


def train(asked: Namespace) -> None:
    """Train, or go on with a run; under `torchrun` every process does its part."""
    folder = Path(asked.out or Path("runs") / asked.recipe.replace("/", "_"))
    recipe = _recipe(asked, folder)
    kind = MODELS[recipe.paper].task
    if kind != "translation":
        check_installed("matplotlib", "PIL", what=f"regard train {asked.recipe}")  # for what it draws at the end
    with joined(asked.device) as world:
        fitted = api.fit_device(recipe, world)
        saved = checkpoints(folder / "checkpoints") if asked.resume else []
        steps, warmup = recipe.train.steps, recipe.train.warmup
        if world.is_first and warmup >= steps:
            print(f"train.warmup={warmup} does not end before train.steps={steps}: the rate stays below train.lr")
        try:
            with Progress(fitted.train, asked.recipe, SHOWN[kind].unit) if world.is_first else nullcontext() as watch:
                model = api.train(fitted, folder, world=world, resume=asked.resume, watch=watch)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_stopped(asked, folder) if world.is_first else "") from None
        first = world.is_first
        if first:
            api.check_there(folder)
            begun = f", from {saved[-1].name} on" if saved else ""
            print(f"{model.num_parameters:,} parameters, in {folder}{begun}")
            if fitted != recipe:
                print(f"on this machine: {fitted.train.precision}, without captured graphs")
    if first and kind == "translation":
        print(f"next: regard evaluate {folder}")
    elif first:
        _show(model, folder)


def _show(model: api.Model, folder: Path) -> None:
    """What a model of pictures can do now: its figures on the test set, and pictures of where it looked."""
    split = api.first_test(model)
    with Counter(f"{model.name} on {split}") as progress:
        score = model.evaluate(split, progress=progress)
    api.write_result(model, score)
    print()
    tell(model, score)
    drawn = api.draw(model, split, folder / PICTURES)
    api.check_there(folder)
    if drawn:
        print("\nPictures:", *drawn, sep="\n  ")
    print(f"\nnext: regard report {folder}, or regard {SHOWN[model.kind].use} {folder} picture.png")


def _stopped(asked: Namespace, folder: Path) -> str:
    """Where a run stands that was interrupted, and the command that goes on with it."""
    saved = checkpoints(folder / "checkpoints")
    if not saved:
        return "Stopped before the first checkpoint; nothing is saved."
    out = ["--out", asked.out] if asked.out else []
    device = ["--device", asked.device] if asked.device != "auto" else []
    command = shlex.join(["regard", "train", asked.recipe, *out, *device, "--resume"])
    return f"Stopped at step {int(saved[-1].name.rpartition('_')[2])}. Go on with: {command}"


def _recipe(asked: Namespace, folder: Path) -> Recipe:
    """The recipe by its name, or as a run began with it; both with the files and settings that were given."""
    recipe = find_recipe(asked.recipe, RECIPES)
    if asked.resume and (folder / "recipe.json").exists():
        begun = load_recipe(folder)
        if begun.paper != recipe.paper or begun.name not in ("", recipe.name):
            cure = "choose another folder by --out"
            raise ConfigError(f"{folder} is a run of {begun.name or begun.paper}", got=asked.recipe, cure=cure)
        recipe = begun
    if asked.source is not None:
        if MODELS[recipe.paper].task == "captioning" and asked.target is None:
            raise ConfigError("captions need their pictures", got="no --target", cure="--target FOLDER")
        recipe = with_files(recipe, asked.source, asked.target)
    elif asked.target is not None:
        raise ConfigError("--target needs --source", cure="give both files, or one TSV as --source")
    return change(recipe, asked.settings)
