"""Europarl: debates of the European Parliament in English, German and French, line by line the same sentence.

A subset of the proceedings of 1999 to 2012, aligned in all three languages: sentences of 3 to 40 words, none of them
twice. It is not the file of the WMT tasks. Valid and test are from sittings of October to December 2000, train from all
others. Source: European Parliament, © European Union.
"""

from regard.base import ConfigError
from regard.data.download import find
from regard.data.parallel import ParallelText, read_parallel
from regard.data.sources import listed_sources
from regard.datasets.dataset import Dataset

LANGUAGES = ("en", "de", "fr")
SPLITS = {"train": "train.{}.xz", "valid": "dev.{}.gz", "test": "test.{}.gz"}
LICENCE = "© European Union; source: European Parliament; reuse with the source acknowledged"
SOURCES = listed_sources(
    """
869515b0dade41e91e059417c0011547fcdb76fef7950697d94a25f792487231    96644 europarl/dev.de.gz
750a2efc156716a3f8ad13b533783bb1102782659aba6a09c93f32d73acfdb0e    86221 europarl/dev.en.gz
dda06f562f9987ac6b33f12a97835f8c38af2df95120815ad36dab2e9be8f57d    93718 europarl/dev.fr.gz
568d13f8daea7627d9ff23e7e527fe42c461ad1ab7c2cdc921479a4afd44b9ba   146558 europarl/test.de.gz
76b74fc87fa10ca23407bdd408f3dd73a0babb4d400d70c7c938ee1c1d3db086   127659 europarl/test.en.gz
22197aa792bc47375deb9c92f9da986845249489ca58ce1cb57055060f94108c   139995 europarl/test.fr.gz
3015506d1c9033c1899562d76afc2dc38344376b1e5942cee7d862d61a2c0f4a  8921692 europarl/train.de.xz
c3165344252ceb138cf04a7e6028e046afdc272dfbaa02b7ae8e48ccb2e5523f  8006964 europarl/train.en.xz
968d404f0fb47718f7fb8d007fda6f094ea77872f223316f61e0fa27e5f596fd  8459640 europarl/train.fr.xz
""",
    licence=LICENCE,
)


def europarl(source: str = "de", target: str = "en") -> dict[str, ParallelText]:
    """Sentences in two languages of "en", "de", "fr": 300,000 train, 2,000 valid, 3,000 test."""
    if source == target or not {source, target} <= set(LANGUAGES):
        raise ConfigError(
            "europarl source and target",
            got=f"{source!r} and {target!r}",
            expected=f"two different ones of {LANGUAGES}",
        )
    return {
        split: read_parallel(*(find(SOURCES["europarl/" + file.format(language)]) for language in (source, target)))
        for split, file in SPLITS.items()
    }


DATASET = Dataset(
    "europarl",
    kind="parallel text",
    read=europarl,
    splits=tuple(SPLITS),
    licence=LICENCE,
    sources=SOURCES,
    note="debates in English, German and French, a subset: 300,000 sentences to train on",
)
