"""Multi30k task 1: captions of photographs in English, German and French, line by line the same caption.

For non-commercial research and education only.
"""

from regard.base import ConfigError
from regard.data.download import find
from regard.data.parallel import ParallelText, read_parallel

LANGUAGES = ("en", "de", "fr")
SPLITS = {"train": "train", "valid": "val", "test2016": "test_2016_flickr", "test2017": "test_2017_flickr"}


def multi30k(source: str = "de", target: str = "en") -> dict[str, ParallelText]:
    """Captions in two languages of "en", "de", "fr": 29,000 train, 1,014 valid, 1,000 test2016, 1,000 test2017."""
    if source == target or not {source, target} <= set(LANGUAGES):
        raise ConfigError(
            "multi30k source and target",
            got=f"{source!r} and {target!r}",
            expected=f"two different ones of {LANGUAGES}",
        )
    return {
        split: read_parallel(*(find(f"multi30k/{file}.{language}.gz") for language in (source, target)))
        for split, file in SPLITS.items()
    }
