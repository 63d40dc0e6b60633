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
from regard.base.files import (
    Unfollowed,
    file_sha256,
    followed,
    inside,
    parse_json,
    part_beside,
    read_json,
    replacing,
    whole_path,
    write_atomically,
)
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
    "file_sha256",
    "fill",
    "first_line",
    "followed",
    "free_memory",
    "from_json",
    "inside",
    "is_out_of_memory",
    "override",
    "parse_json",
    "part_beside",
    "read_json",
    "replacing",
    "require",
    "shown",
    "to_json",
    "whole_path",
    "write_atomically",
]
