"""The first 25,000,000 of the 100,000,000 bytes of enwik8, a dump of the English Wikipedia of 2006 with its XML.

It is used byte by byte: a character of this text is a byte (Latin-1), so letters outside of ASCII are several. The
first 22.5 million are for training, then 1.25 million each for validation and for the test. Figures on it do not
compare with published ones on all of enwik8.
"""

import lzma

from regard.data.download import find
from regard.data.sources import listed_sources
from regard.datasets.dataset import Dataset

LICENCE = "GFDL, since 2009 also CC BY-SA 3.0; text of Wikipedia"
SOURCES = listed_sources(
    """
87ba94e2be862caa762796c72545987f2347bb58f9db2e11db2bf8b1f500d1d4  6674012 enwik8/enwik8_first25M.xz
""",
    licence=LICENCE,
)


def enwik8() -> dict[str, str]:
    """The bytes as characters, cut at 90 % and at 95 %."""
    with lzma.open(find(SOURCES["enwik8/enwik8_first25M.xz"])) as file:
        text = file.read().decode("latin-1")
    first, second = len(text) * 90 // 100, len(text) * 95 // 100
    return {"train": text[:first], "valid": text[first:second], "test": text[second:]}


DATASET = Dataset(
    "enwik8",
    kind="text",
    read=enwik8,
    splits=("train", "valid", "test"),
    licence=LICENCE,
    sources=SOURCES,
    note="the first quarter of enwik8, for models of bytes: 22,500,000 to train on",
)
