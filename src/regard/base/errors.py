"""Errors for users: what went wrong, what was got, what was expected, and what to try.

>>> error = ShapeError("keys and values differ in length", got="5 and 7", expected="one length", cure="pad both alike")
>>> print(error)
keys and values differ in length: got 5 and 7; expected one length. Try: pad both alike.
"""

import difflib
from collections.abc import Iterable

SHOWN = 60  # characters of a value in an error


class RegardError(ValueError):
    """Any mistake in a call that the caller can mend. A `ValueError`, so old handlers keep working."""

    def __init__(self, what: str, *, got: object = None, expected: object = None, cure: str | None = None) -> None:
        self.what, self.got, self.expected, self.cure = what, got, expected, cure
        facts = [f"{name} {value}" for name, value in (("got", got), ("expected", expected)) if value is not None]
        text = what + (": " + "; ".join(facts) if facts else "")
        super().__init__(text + _advice(cure))


def _advice(cure: str | None) -> str:
    """The end of a message: a question as it is, anything else after "Try:"."""
    if not cure:
        return ""
    return f". {cure[0].upper()}{cure[1:]}" if cure.endswith("?") else f". Try: {cure}."


class ShapeError(RegardError):
    """A tensor has the wrong number of axes, width or length."""


class MaskError(RegardError):
    """A mask has the wrong type, shape or values."""


class ConfigError(RegardError):
    """A setting is unknown or out of range."""


class ImplementationUnavailable(RegardError):  # noqa: N818 - says what happened
    """An explicitly chosen implementation cannot do what was asked; the message lists every reason."""


class MissingExtra(RegardError, ImportError):  # noqa: N818
    """A package that this needs is not installed."""


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A cure for a misspelt name, or None if nothing is near.

    >>> did_you_mean("bahdanua", ["luong", "bahdanau"])
    "did you mean 'bahdanau'?"
    """
    near = difflib.get_close_matches(name[:SHOWN], list(known), 1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else None


def shown(value: object) -> str:
    """A value as an error shows it: on one line, and not longer than a line takes.

    >>> shown("a\\nb"), shown(0.5), shown(10**5000)
    ("'a\\\\nb'", '0.5', 'a number of about 5000 digits')
    >>> shown([1] * 100)
    '[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,…'
    """
    if isinstance(value, int) and value.bit_length() > 200:
        return f"a number of about {round(value.bit_length() * 0.30103)} digits"
    text = " ".join(repr(value[: 2 * SHOWN] if isinstance(value, str) else value).split())
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether this says that there was no more memory, of the machine or of its GPU.

    >>> is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."))
    True
    """
    words = ("can't allocate memory", "out of memory", "not enough memory", "Unable to allocate")
    return isinstance(error, MemoryError) or any(said in str(error) for said in words)


def first_line(error: BaseException) -> str:
    """What an error of another library says, without the trace of its own calls that may follow.

    >>> first_line(RuntimeError("too large\\nException raised from allocate at Allocator.cpp:5"))
    'too large'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return text if len(text) <= 4 * SHOWN else text[: 4 * SHOWN] + "…"
