"""Multi30k task 1: captions of photographs in English, German and French, line by line the same caption.

For non-commercial research and education only.
"""

from regard.base import ConfigError
from regard.data.download import find
from regard.data.parallel import ParallelText, read_parallel
from regard.data.sources import listed_sources
from regard.datasets.dataset import Dataset

LANGUAGES = ("en", "de", "fr")
SPLITS = {"train": "train", "valid": "val", "test2016": "test_2016_flickr", "test2017": "test_2017_flickr"}
LICENCE = "no licence file; the publishers provide it for non-commercial research and education"
COMMIT = "a3d2e0d26b56f3846f66a952536ffed4e401d05a"
SOURCES = listed_sources(
    """
9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8    22890 multi30k/test_2016_flickr.de.gz
611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9    21077 multi30k/test_2016_flickr.en.gz
6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90    22310 multi30k/test_2016_flickr.fr.gz
a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee    21471 multi30k/test_2017_flickr.de.gz
76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074    19138 multi30k/test_2017_flickr.en.gz
3ba671ceb2299f3304ffafefea7a833d08632fbaf0ba18546f8a2ec2391af496    20434 multi30k/test_2017_flickr.fr.gz
726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6   637044 multi30k/train.de.gz
d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f   568929 multi30k/train.en.gz
622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c   604242 multi30k/train.fr.gz
f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a    24681 multi30k/val.de.gz
14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28    21650 multi30k/val.en.gz
ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9    23001 multi30k/val.fr.gz
""",
    licence=LICENCE,
    addresses=(
        f"https://raw.githubusercontent.com/multi30k/dataset/{COMMIT}/data/task1/raw/",
        f"https://github.com/multi30k/dataset/raw/{COMMIT}/data/task1/raw/",
    ),
)


def multi30k(source: str = "de", target: str = "en") -> dict[str, ParallelText]:
    """Captions in two languages of "en", "de", "fr": 29,000 train, 1,014 valid, 1,000 test2016, 1,000 test2017."""
    if source == target or not {source, target} <= set(LANGUAGES):
        raise ConfigError(
            "multi30k source and target",
            got=f"{source!r} and {target!r}",
            expected=f"two different ones of {LANGUAGES}",
        )
    return {
        split: read_parallel(*(find(SOURCES[f"multi30k/{file}.{language}.gz"]) for language in (source, target)))
        for split, file in SPLITS.items()
    }


DATASET = Dataset(
    "multi30k",
    kind="parallel text",
    read=multi30k,
    splits=tuple(SPLITS),
    licence=LICENCE,
    sources=SOURCES,
    note="captions of photographs in English, German and French: 29,000 to train on",
)
