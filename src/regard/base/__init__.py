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
from regard.base.extras import require
from regard.base.files import Unfollowed, followed, inside, parse_json, read_json, write_atomically
from regard.base.runtime import environment

__all__ = [
    "ConfigError",
    "ImplementationUnavailable",
    "MaskError",
    "MissingExtra",
    "RegardError",
    "ShapeError",
    "Unfollowed",
    "did_you_mean",
    "environment",
    "fill",
    "followed",
    "from_json",
    "inside",
    "override",
    "parse_json",
    "read_json",
    "require",
    "to_json",
    "write_atomically",
]
