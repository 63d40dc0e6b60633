"""What knows nothing of attention: errors, extras, files, the machine."""

from regard.base.errors import (
    ConfigError,
    ImplementationUnavailable,
    MaskError,
    MissingExtra,
    RegardError,
    ShapeError,
)
from regard.base.extras import require
from regard.base.files import write_atomically
from regard.base.runtime import environment

__all__ = [
    "ConfigError",
    "ImplementationUnavailable",
    "MaskError",
    "MissingExtra",
    "RegardError",
    "ShapeError",
    "environment",
    "require",
    "write_atomically",
]
