"""Tiny Shakespeare: 1,115,394 characters of his plays, put together by Karpathy for char-rnn.

It has 65 different characters and is used character by character. The first 90 % are for training, the next 5 % for
validation, the last 5 % for the test, by position.
"""

from regard.data.download import find
from regard.data.sources import listed_sources
from regard.data.units import read_text
from regard.datasets.dataset import Dataset

LICENCE = "public domain (the plays of Shakespeare)"
SOURCES = listed_sources(
    """
bed00f18e91cda6838950656f0a95e07e0f4dbe8649a4b959f7602a7e53fbc6e   433627 tinyshakespeare/input.txt.gz
""",
    licence=LICENCE,
)


def tinyshakespeare() -> dict[str, str]:
    """The plays, cut at 90 % and at 95 % of their characters, which may be inside of a line."""
    text = read_text(find(SOURCES["tinyshakespeare/input.txt.gz"]))
    first, second = int(len(text) * 0.9), int(len(text) * 0.95)
    return {"train": text[:first], "valid": text[first:second], "test": text[second:]}


DATASET = Dataset(
    "tinyshakespeare",
    kind="text",
    read=tinyshakespeare,
    splits=("train", "valid", "test"),
    licence=LICENCE,
    sources=SOURCES,
    note="plays, for models of characters: 1,003,854 characters to train on",
)
