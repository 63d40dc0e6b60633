"""The one door to packages that are imported late: at the call, with an error that says what to install."""

import importlib
import importlib.util
from types import ModuleType

from regard.base.errors import MissingExtra

_DISTRIBUTIONS = {"PIL": "pillow"}  # what pip calls a package, where its name is another one


def require(module: str, *, extra: str) -> ModuleType:
    """Import `module`, or say how to get it: by its own name, or by the extra of a clone of this project.

    >>> require("json", extra="viz").__name__
    'json'
    >>> require("no_such_module", extra="viz")
    Traceback (most recent call last):
        ...
    regard.base.errors.MissingExtra: this needs no_such_module, which is not installed. Try: pip install no_such_module, or in a clone of regard pip install '.[viz]'.
    """  # noqa: E501
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name != package:
            raise  # the package is there, but broken: its own error says more than ours
        cure = f"pip install {_distribution(package)}, or in a clone of regard pip install '.[{extra}]'"
        raise MissingExtra(f"this needs {package}, which is not installed", cure=cure) from error


def check_installed(*packages: str, what: str) -> None:
    """An error that names what is missing of `packages`, before any work begins; nothing is imported.

    >>> check_installed("json", what="a doctest")
    >>> check_installed("json", "no_such_module", what="a doctest")
    Traceback (most recent call last):
        ...
    regard.base.errors.MissingExtra: a doctest needs no_such_module, which is not installed. Try: pip install no_such_module, or in a clone of regard pip install '.'.
    """  # noqa: E501
    missing = [_distribution(package) for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        are = "which is not installed" if len(missing) == 1 else "which are not installed"
        cure = f"pip install {' '.join(missing)}, or in a clone of regard pip install '.'"
        raise MissingExtra(f"{what} needs {' and '.join(missing)}, {are}", cure=cure)


def _distribution(package: str) -> str:
    return _DISTRIBUTIONS.get(package, package)
