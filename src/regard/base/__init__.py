"""What knows nothing of attention: errors, extras, files, the machine."""

from regard.base.config import check_settings, fill, from_json, override, to_json
from regard.base.errors import (
    ConfigError,
    ImplementationUnavailable,
    MaskError,
    MissingExtra,
    RegardError,
    ShapeError,
    did_you_mean,
    first_line,
    is_out_of_memory,
    shown,
)
from regard.base.extras import check_installed, require
from regard.base.files import Unfollowed, followed, inside, parse_json, read_json, write_atomically
from regard.base.runtime import environment, free_memory

__all__ = [
    "ConfigError",
    "ImplementationUnavailable",
    "MaskError",
    "MissingExtra",
    "RegardError",
    "ShapeError",
    "Unfollowed",
    "check_installed",
    "check_settings",
    "did_you_mean",
    "environment",
    "fill",
    "first_line",
    "followed",
    "free_memory",
    "from_json",
    "inside",
    "is_out_of_memory",
    "override",
    "parse_json",
    "read_json",
    "require",
    "shown",
    "to_json",
    "write_atomically",
]
