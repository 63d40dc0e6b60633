"""What commands that predict share: how inputs come in, how many are taken at once, and where drawings go."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.base import ConfigError, RegardError, check_installed

AT_ONCE = {"text": 256}  # inputs that are predicted together, by their kind; of all others 64


def check_format(flag: str, path: str | None, *, more: Sequence[str] = ()) -> None:
    """Check before any work that a picture can be drawn and written in this format: one of `viz.save`, or of `more`."""
    if path is None:
        return
    check_installed("matplotlib", what=flag)
    from regard.viz.heatmap import FORMATS

    formats = (*FORMATS, *more)
    if Path(path).suffix.lower() not in formats:
        got, expected = repr(Path(path).suffix), f"one of {', '.join(formats)}"
        raise ConfigError(f"{flag}: unknown picture format", got=got, expected=expected)


def numbered(path: str, number: int, count: int) -> Path:
    """Where the drawing of the n-th of some inputs goes: `out.png`, or `out_1.png`, `out_2.png`, …"""
    where = Path(path)
    return where if count == 1 else where.with_name(f"{where.stem}_{number}{where.suffix}")


def chunks(inputs: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """The inputs, some at a time."""
    chunk: list[Any] = []
    for each in inputs:
        chunk.append(each)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def typed_or_piped() -> tuple[Iterator[str], bool]:
    """Lines of the keyboard or of standard input, and whether somebody types them."""
    return (_typed(), True) if sys.stdin.isatty() else (_piped(), False)


def _piped() -> Iterator[str]:
    from regard.data.parallel import MAX_LINE, conversion

    try:
        while line := sys.stdin.readline(MAX_LINE + 1):
            if len(line) > MAX_LINE:
                got, cure = f"more than {MAX_LINE:,} characters", "give one sentence a line"
                raise RegardError("a line of standard input does not end", got=got, cure=cure)
            yield line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        got, cure = f"byte 0x{error.object[error.start]:02x}", conversion(error.object)
        raise RegardError("standard input cannot be read", got=got, expected=error.encoding, cure=cure) from error


def _typed() -> Iterator[str]:
    print("One sentence a line; an empty line or Ctrl-D ends.", file=sys.stderr)
    while True:
        try:
            line = input("> ")
        except EOFError:
            return
        if not line.strip():
            return
        yield line
