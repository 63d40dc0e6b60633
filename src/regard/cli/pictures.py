"""What commands on pictures share: how many at once, and the names of what is drawn."""

from collections.abc import Iterator
from pathlib import Path

from regard.base import ConfigError, check_installed

CHUNK = 64  # pictures that are looked at together


def check_format(flag: str, path: str | None, formats: tuple[str, ...]) -> None:
    """Before any work: whether a picture can be written in this format, and drawn at all."""
    if path is None:
        return
    check_installed("matplotlib", what=flag)
    if Path(path).suffix.lower() not in formats:
        got, expected = repr(Path(path).suffix), f"one of {', '.join(formats)}"
        raise ConfigError(f"{flag}: unknown picture format", got=got, expected=expected)


def chunks(pictures: list[str]) -> Iterator[list[str]]:
    """The pictures, some at a time."""
    return (pictures[start : start + CHUNK] for start in range(0, len(pictures), CHUNK))


def numbered(path: str, number: int, count: int) -> Path:
    """Where the drawing of the n-th of some pictures goes: `out.png`, or `out_1.png`, `out_2.png`, …"""
    where = Path(path)
    return where if count == 1 else where.with_name(f"{where.stem}_{number}{where.suffix}")
