"""Files that are either whole or not there."""

import os
import secrets
from pathlib import Path


def write_atomically(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write beside `path`, then rename: a reader sees the old file or the new one, never half of either."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    part = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    try:
        with open(part, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return path
