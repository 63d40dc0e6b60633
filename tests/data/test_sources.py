"""The table of files is whole: every set, split and language, with plausible facts."""

import dataclasses
import re

import pytest

from regard.data.sources import SOURCES, Source


def expected_names() -> set[str]:
    languages = ("en", "de", "fr")
    splits = ("train", "val", "test_2016_flickr", "test_2017_flickr")
    names = {f"multi30k/{split}.{language}.gz" for split in splits for language in languages}
    names |= {f"europarl/{split}.{language}.gz" for split in ("dev", "test") for language in languages}
    names |= {f"europarl/train.{language}.xz" for language in languages}
    names |= {f"wmt_newstest/newstest{year}.{language}.gz" for year in range(2008, 2014) for language in languages}
    names |= {
        f"wmt_newstest/newstest2014.en-{other}.{language}.gz" for other in ("de", "fr") for language in ("en", other)
    }
    return names | {"tatoeba/fra.txt.xz", "tatoeba/deu.txt.xz"}


def test_every_file_is_listed() -> None:
    assert set(SOURCES) == expected_names()


@pytest.mark.parametrize("source", SOURCES.values(), ids=lambda source: source.name)
def test_facts_are_plausible(source: Source) -> None:
    assert SOURCES[source.name] is source
    assert re.fullmatch(r"[0-9a-f]{64}", source.sha256)
    assert 10_000 < source.num_bytes < 10_000_000
    assert len(source.licence) > 10


def test_no_checksum_twice() -> None:
    assert len({source.sha256 for source in SOURCES.values()}) == len(SOURCES)


def test_addresses() -> None:
    commit = "a3d2e0d26b56f3846f66a952536ffed4e401d05a"
    source = SOURCES["multi30k/train.de.gz"]
    assert source.url == f"https://raw.githubusercontent.com/multi30k/dataset/{commit}/data/task1/raw/train.de.gz"
    assert source.mirrors == (f"https://github.com/multi30k/dataset/raw/{commit}/data/task1/raw/train.de.gz",)
    published = {name.partition("/")[0] for name, source in SOURCES.items() if source.url is not None}
    assert published == {"multi30k"}  # the others were cut or packed anew: nobody publishes these bytes
    assert all(source.mirrors == () for source in SOURCES.values() if source.url is None)


def test_a_source_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SOURCES["tatoeba/fra.txt.xz"].url = "https://elsewhere"  # type: ignore[misc]


def test_licences() -> None:
    assert "non-commercial" in SOURCES["multi30k/val.en.gz"].licence
    assert SOURCES["tatoeba/deu.txt.xz"].licence.startswith("CC BY 2.0 FR")
