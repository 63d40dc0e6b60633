"""Settings of a search or a gaze from the command line: `--set length_penalty=0.6 consensus=1`, `--set draws=8`."""

from collections.abc import Sequence
from typing import Any

from regard import api
from regard.base import ConfigError, override
from regard.tasks import Gazing

_FLAGS = {"beams": "--beam", "nbest": "--nbest"}


def search_settings(model: api.Model, settings: Sequence[str]) -> dict[str, Any]:
    """What was set, as options of `Model.translate`, `caption` and `evaluate`."""
    if not settings:
        return {}
    if not hasattr(model.task.config, "search"):
        raise ConfigError(f"a {model.kind} run does not search", got=settings[0])
    changed = override(model.task.config.search, settings)
    given = {setting.partition("=")[0].strip() for setting in settings}
    options: dict[str, Any] = {name: getattr(changed, name) for name in given}
    for name, flag in _FLAGS.items():
        if name in options:
            raise ConfigError(f"{name} is a flag of its own", cure=f"{flag} {options[name]}")
    return options


def evaluation_settings(model: api.Model, settings: Sequence[str]) -> dict[str, Any]:
    """What was set, as options of `Model.evaluate`: of a gaze for pictures that are named, of a search for others."""
    if model.kind != "classification":
        return search_settings(model, settings)
    changed = override(Gazing(), settings)
    return {name: getattr(changed, name) for name in (setting.partition("=")[0].strip() for setting in settings)}
