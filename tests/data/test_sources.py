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
    names |= {f"mnist/{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")}
    names |= {f"cifar10/data_batch_{number}.jpg" for number in range(1, 6)}
    names |= {f"cifar10/{name}" for name in ("test_batch.jpg", "labels.npz", "cifar-10-binary.tar.gz")}
    names |= {f"flickr8k/Flickr_8k.{split}Images.txt" for split in ("train", "dev", "test")}
    names |= {f"flickr8k/{name}" for name in ("train.zip", "dev.zip", "test.zip", "Flickr8k.token.txt.gz")}
    names |= {f"svhn/train_0{number}.jpg" for number in range(9)} | {f"svhn/test_0{number}.jpg" for number in range(4)}
    names |= {"svhn/train.csv.gz", "svhn/test.csv.gz"}
    names |= {"efficientnet_lite0/efficientnet-lite0-57934424.pth", "efficientnet_lite0/imagenet_classes.tsv"}
    return names | {"tatoeba/fra.txt.xz", "tatoeba/deu.txt.xz"}


def test_every_file_is_listed() -> None:
    assert set(SOURCES) == expected_names()


@pytest.mark.parametrize("source", SOURCES.values(), ids=lambda source: source.name)
def test_facts_are_plausible(source: Source) -> None:
    assert SOURCES[source.name] is source
    assert re.fullmatch(r"[0-9a-f]{64}", source.sha256)
    assert 4_000 < source.num_bytes < 200_000_000
    assert len(source.licence) >= 10


def test_no_checksum_twice() -> None:
    assert len({source.sha256 for source in SOURCES.values()}) == len(SOURCES)


def test_addresses() -> None:
    commit = "a3d2e0d26b56f3846f66a952536ffed4e401d05a"
    source = SOURCES["multi30k/train.de.gz"]
    assert source.url == f"https://raw.githubusercontent.com/multi30k/dataset/{commit}/data/task1/raw/train.de.gz"
    assert source.mirrors == (f"https://github.com/multi30k/dataset/raw/{commit}/data/task1/raw/train.de.gz",)
    published = {name.partition("/")[0] for name, source in SOURCES.items() if source.url is not None}
    assert published == {
        "multi30k",
        "mnist",
        "cifar10",
    }  # the others were cut or packed anew: nobody publishes these bytes
    assert all(source.mirrors == () for source in SOURCES.values() if source.url is None)


def test_a_source_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SOURCES["tatoeba/fra.txt.xz"].url = "https://elsewhere"  # type: ignore[misc]


def test_licences() -> None:
    assert "non-commercial" in SOURCES["multi30k/val.en.gz"].licence
    assert SOURCES["tatoeba/deu.txt.xz"].licence.startswith("CC BY 2.0 FR")


def test_the_same_content_may_be_packed_otherwise() -> None:
    source = SOURCES["mnist/train-images-idx3-ubyte.gz"]
    assert source.num_bytes == 9_912_422
    assert source.others == (("0b367032e93c5d0cea0925647cfdb18614af8ee15f83e6f2fc2ad904a6835971", 9_719_438),)
