"""The one door to optional dependencies: imported at the call, with an error that says what to install."""

import importlib
from types import ModuleType

from regard.base.errors import MissingExtra


def require(module: str, *, extra: str) -> ModuleType:
    """Import `module`, or say which extra brings it.

    >>> require("json", extra="viz").__name__
    'json'
    >>> require("no_such_module", extra="viz")
    Traceback (most recent call last):
        ...
    regard.base.errors.MissingExtra: this needs no_such_module, which is not installed. Cure: pip install 'regard[viz]'.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name != package:
            raise  # the package is there, but broken: its own error says more than ours
        raise MissingExtra(
            f"this needs {package}, which is not installed", cure=f"pip install 'regard[{extra}]'"
        ) from error
