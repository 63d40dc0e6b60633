"""The models of a studio by name: those it was started with and those that ship with the package.

A client names a model; the name is looked up here and never becomes a path.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from regard.base import RegardError, did_you_mean, shown
from regard.studio.limits import Deadline

KEPT = 6  # models in memory; the one that was not used for longest goes first


class Library:
    """Models by name, loaded when they are first asked for."""

    def __init__(self, runs: Iterable[str], deadline: Deadline, *, device: str = "auto") -> None:
        self.runs, self.deadline, self.device = list(runs), deadline, device
        self._folders: dict[str, Path] | None = None
        self._loaded: OrderedDict[str, Any] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def folders(self) -> dict[str, Path]:
        """The folder of each model: those that were asked for first, then the shipped ones, the largest first."""
        with self._lock:
            if self._folders is None:
                from regard.api import shipped
                from regard.api.runs import _find

                wanted = [_find(run) for run in self.runs]
                known = {path.resolve() for path in wanted}
                wanted += [path for path in _largest_first(shipped().values()) if path.resolve() not in known]
                self._folders = named(wanted)
            return self._folders

    def lines(self) -> list[dict[str, Any]]:
        """What the page says of each model; one whose recipe cannot be read says why."""
        return [self._line(name, folder) for name, folder in self.folders.items()]

    def get(self, name: object) -> Any:
        """The loaded model of a name, an `api.Model`."""
        folders = self.folders
        if not isinstance(name, str) or name not in folders:
            near = did_you_mean(name, folders) if isinstance(name, str) else None
            cure = near or f"take one of {', '.join(folders)}"
            raise RegardError("the studio has no such model", got=shown(name), cure=cure)
        with self._lock:
            if name not in self._loaded:
                from regard import api

                model = api.load(folders[name], device=self.device)
                self.deadline.watch(model.module)
                self._loaded[name] = model
                while len(self._loaded) > KEPT:
                    self._loaded.popitem(last=False)
            self._loaded.move_to_end(name)
            return self._loaded[name]

    def first(self, verb: str) -> str | None:
        """The name of the first model that does this."""
        return next((line["name"] for line in self.lines() if line["verb"] == verb), None)

    def _line(self, name: str, folder: Path) -> dict[str, Any]:
        from regard.models import MODELS
        from regard.recipes import load_recipe

        card = folder / "card.md"
        line: dict[str, Any] = {"name": name, "card": _read(card), "title": name, "error": None}
        try:
            recipe = load_recipe(folder)
        except (RegardError, OSError) as error:
            nothing = {"task": None, "verb": None, "inputs": None, "example": "", "paper": None, "data": ""}
            return line | nothing | {"has_attention": False, "error": getattr(error, "what", "it cannot be read")}
        entry = recipe.entry
        return line | {
            "task": entry.name,
            "verb": entry.verb,
            "inputs": entry.inputs,
            "example": entry.example.strip('"'),
            "paper": recipe.paper,
            "data": recipe.task.describe_data(),
            "has_attention": recipe.paper not in MODELS or MODELS[recipe.paper].attends,
        }


def named(folders: Iterable[Path]) -> dict[str, Path]:
    """Folders by their names; a second one of the same name gets a number.

    >>> [*named([Path("a/run"), Path("b/run")])]
    ['run', 'run (2)']
    """
    names: dict[str, Path] = {}
    for folder in folders:
        stem = name = folder.resolve().name
        number = 1
        while name in names:
            number += 1
            name = f"{stem} ({number})"
        names[name] = folder
    return names


def _largest_first(folders: Iterable[Path]) -> list[Path]:
    """Folders by the size of their weights: of several that do the same, the largest is the one to begin with."""
    return sorted(folders, key=lambda folder: -(folder / "model.safetensors").stat().st_size)


def _read(path: Path) -> str:
    from regard.base.files import inside

    try:
        return inside(path).read_text(encoding="utf-8", errors="replace")[:100_000]
    except (OSError, RegardError):
        return ""
