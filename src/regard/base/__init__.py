"""What knows nothing of attention: errors, extras, files, the machine."""

from regard.base.config import did_you_mean, fill, from_json, override, to_json
from regard.base.errors import (
    ConfigError,
    ImplementationUnavailable,
    MaskError,
    MissingExtra,
    RegardError,
    ShapeError,
)
from regard.base.extras import check_installed, require
from regard.base.files import write_atomically
from regard.base.runtime import environment

__all__ = [
    "ConfigError",
    "ImplementationUnavailable",
    "MaskError",
    "MissingExtra",
    "RegardError",
    "ShapeError",
    "check_installed",
    "did_you_mean",
    "environment",
    "fill",
    "from_json",
    "override",
    "require",
    "to_json",
    "write_atomically",
]
