"""Errors for users: what went wrong, what was got, what was expected, and the cure.

>>> error = ShapeError("keys and values differ in length", got="5 and 7", expected="one length", cure="pad both alike")
>>> print(error)
keys and values differ in length: got 5 and 7; expected one length. Cure: pad both alike.
"""


class RegardError(ValueError):
    """Any mistake in a call that the caller can mend. A `ValueError`, so old handlers keep working."""

    def __init__(self, what: str, *, got: object = None, expected: object = None, cure: str | None = None) -> None:
        self.what, self.got, self.expected, self.cure = what, got, expected, cure
        facts = [f"{name} {value}" for name, value in (("got", got), ("expected", expected)) if value is not None]
        text = what + (": " + "; ".join(facts) if facts else "")
        end = "" if cure and cure.endswith("?") else "."
        super().__init__(text + (f". Cure: {cure}{end}" if cure else ""))


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
