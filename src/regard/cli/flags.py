"""Flags that several commands share."""

import argparse
from collections.abc import Sequence
from typing import Any

from regard.base import ConfigError, override

OF_THEIR_OWN = {"beams": "beam", "nbest": "nbest"}  # settings, and the flags that some commands have for them


def add_run(command: argparse.ArgumentParser) -> None:
    """Adds the run that a command works with."""
    command.add_argument("run", help="a run folder, or a model that ships with the package")


def add_settings(command: argparse.ArgumentParser) -> None:
    """Adds --set, for a command that predicts."""
    command.add_argument("--set", nargs="+", action="extend", default=[], metavar="NAME=VALUE", dest="settings",
                         help="settings of a prediction, such as length_penalty=0.6 consensus=1, or draws=8; "
                         "`regard show RUN` lists them")  # fmt: skip


def add_search(command: argparse.ArgumentParser, what: str) -> None:
    """Adds --beam and --nbest, for a command that searches."""
    command.add_argument("--beam", type=int, help="beams (default: the recipe's)")
    command.add_argument("--nbest", type=int, default=1, help=f"{what} (default: 1)")


def add_files(command: argparse.ArgumentParser) -> None:
    """Adds --source and --target, for a command that reads the data of a run."""
    command.add_argument("--source", metavar="PATH", action="append", help="the file or folder that the run was "
                         "trained on, where the run's own folder comes from another machine: paths in it are not "
                         "followed; several files as in the training")  # fmt: skip
    command.add_argument("--target", metavar="PATH", action="append", help="the second file, or the folder of the "
                         "pictures")  # fmt: skip


def add_device(command: argparse.ArgumentParser) -> None:
    """Adds --device, for a command that computes."""
    command.add_argument("--device", default="auto", help="cpu, cuda or auto (default)")


def prediction_settings(task: Any, settings: Sequence[str], **flags: Any) -> dict[str, Any]:
    """What was set by --set and by flags, as keywords of `Model.predict`; a flag that is None was not given."""
    default = task.default_settings()
    changed = override(default, settings)
    names = [setting.partition("=")[0].strip() for setting in settings]
    for name in names:
        if (flag := OF_THEIR_OWN.get(name)) in flags:
            raise ConfigError(f"{name} is a flag of its own", cure=f"write --{flag} {getattr(changed, name)}")
    return {name: getattr(changed, name) for name in names} | {
        name: value for name, value in flags.items() if value is not None
    }
