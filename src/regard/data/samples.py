"""Sample pictures inside the package, so that every command can be tried without a file: `sample:digit.png`.

A picture that is named so is read from here wherever a picture is taken, by the command line and in Python. All were
made by the library, from what it generates and from the digits that it holds; `datasets/samples/README.md` says how.
"""

from importlib.resources import files
from pathlib import Path

from regard.base import RegardError, did_you_mean

PREFIX = "sample:"
SAMPLES = {
    "digit.png": "a handwritten five, 28×28",
    "clutter.png": "a handwritten digit among pieces of others, 60×60",
    "shapes.png": "two painted shapes, 56×56",
    "word.png": "a rendered word",
    "number.png": "a rendered number of four digits, 16×48",
    "sign.png": "a rendered sign with several words",
    "landscape.jpg": "a painted landscape, as large as a small photograph",
}


def sample(name: str) -> Path:
    """The file of a sample picture by its name, with or without "sample:" before it.

    >>> sample("sample:shapes.png").name
    'shapes.png'
    """
    wanted = name.removeprefix(PREFIX)
    if wanted not in SAMPLES:
        expected = f"one of {', '.join(SAMPLES)}"
        raise RegardError(
            "there is no such sample picture", got=repr(wanted), expected=expected, cure=did_you_mean(wanted, SAMPLES)
        )
    return Path(str(files("regard") / "datasets" / "samples" / wanted))
