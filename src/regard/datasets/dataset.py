"""What the menu of data sets says of each of them, and how a task finds the one that it is asked for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from regard.base import ConfigError, did_you_mean
from regard.data.sources import Source

Access = Literal["embedded", "download", "bring"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """One data set: how it is read, where its files come from, and what may be done with them.

    `read` gives splits by name: `ParallelText`, which takes the languages `source` and `target`, `Pictures` or
    `Captions`. A set without a split "train" is there to evaluate on, and its `read` takes the split too.
    """

    name: str  # what settings call it
    kind: str  # what it has: "parallel text", "pictures", "captions", "text"; a task takes the sets of its kind
    read: Callable[..., Any]
    splits: tuple[str, ...]
    licence: str
    sources: Mapping[str, Source] = field(default_factory=dict)  # by name; none for what the package holds or makes
    embedded: bool = False  # the package holds it, or makes it
    references: Callable[[str], list[list[str]]] | None = None  # of a held-out split: all translations of each sentence
    exact: bool = True  # False: its pictures went through JPEG, so bits per dimension cannot be compared
    note: str = ""  # what it is, in a few words

    @property
    def access(self) -> Access:
        """How a user gets it: it is embedded, it can be downloaded, or the user must bring it below `REGARD_DATA`."""
        if self.embedded:
            return "embedded"
        return "download" if any(source.url for source in self.sources.values()) else "bring"

    @property
    def can_train(self) -> bool:
        """True where there is a split to train on."""
        return "train" in self.splits


def of_kind(menu: Mapping[str, Dataset], kind: str) -> dict[str, Dataset]:
    """The data sets of a kind that a task can train on, in the order of the menu."""
    return {name: dataset for name, dataset in menu.items() if dataset.kind == kind and dataset.can_train}


def choose(
    menu: Mapping[str, Dataset], kind: str, name: str, *, setting: str, besides: tuple[str, ...] = ()
) -> Dataset:
    """The data set of this name; an error that helps where a task of this kind cannot train on it.

    `setting` is what the error calls the name, and `besides` are other values that it may have.
    """
    fitting = of_kind(menu, kind)
    if name in fitting:
        return fitting[name]
    known = [*fitting, *besides]
    cure = did_you_mean(name, known)
    if name in menu:
        nothing = " and nothing to train on" * (not menu[name].can_train)
        cure = f"choose another one: {name} has {menu[name].kind}{nothing}"
    raise ConfigError(setting, got=repr(name), expected=f"one of {', '.join(known)}", cure=cure)
