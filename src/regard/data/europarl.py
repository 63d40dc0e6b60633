"""Europarl: debates of the European Parliament in English, German and French, line by line the same sentence.

A subset of the proceedings of 1999 to 2012, aligned in all three languages: sentences of 3 to 40 words, none of them
twice. It is not the file of the WMT tasks. Valid and test are from sittings of October to December 2000, train from all
others. Source: European Parliament, © European Union.
"""

from regard.base import ConfigError
from regard.data.download import find
from regard.data.parallel import ParallelText, read_parallel

LANGUAGES = ("en", "de", "fr")
SPLITS = {"train": "train.{}.xz", "valid": "dev.{}.gz", "test": "test.{}.gz"}


def europarl(source: str = "de", target: str = "en") -> dict[str, ParallelText]:
    """Sentences in two languages of "en", "de", "fr": 300,000 train, 2,000 valid, 3,000 test."""
    if source == target or not {source, target} <= set(LANGUAGES):
        raise ConfigError(
            "europarl source and target",
            got=f"{source!r} and {target!r}",
            expected=f"two different ones of {LANGUAGES}",
        )
    return {
        split: read_parallel(*(find("europarl/" + file.format(language)) for language in (source, target)))
        for split, file in SPLITS.items()
    }
