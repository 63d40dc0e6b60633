"""The menu of data sets is whole and true; a new data set is one file and one line of the menu."""

import importlib.util
import re
from hashlib import sha256
from pathlib import Path

import pytest
from table import cases

import regard.datasets
from regard.base import ConfigError
from regard.data import (
    Captions,
    Clips,
    Glyphs,
    GraphSplit,
    LabelledTexts,
    ParallelText,
    Pictures,
    Scenes,
    Stories,
    WordPictures,
)  # fmt: skip
from regard.data.sources import Source
from regard.datasets import DATASETS, Dataset, choose, of_kind
from regard.nn.efficientnet import WEIGHTS
from regard.tasks import Translation, TranslationConfig

SOURCES = {name: source for dataset in DATASETS.values() for name, source in dataset.sources.items()}
TYPES = {
    "parallel text": ParallelText, "pictures": Pictures, "captions": Captions, "text": str,
    "labelled text": LabelledTexts, "stories": Stories, "graphs": GraphSplit,
    "word pictures": WordPictures, "glyphs": Glyphs, "word list": tuple, "clips": Clips, "scenes": Scenes,
}  # fmt: skip


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
    names |= {"babi/tasks_1-20_v1-2_en.tar.xz"}
    names |= {"svhn/train.csv.gz", "svhn/test.csv.gz"}
    names |= {"imdb/train.tsv.xz", "imdb/test.tsv.xz", "yelp/yelp_reviews_10k.tsv.xz", "snli/snli_1.0.zip"}
    names |= {f"sst/{split}.trees.txt.gz" for split in ("train", "dev", "test")}
    names |= {f"snli/{name}.tsv.xz" for name in ("train_first100k", "dev_tokenised", "test")}
    return names | {"tatoeba/fra.txt.xz", "tatoeba/deu.txt.xz"}


# ── the menu ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_file_of_the_area_is_on_the_menu() -> None:
    files = {path.stem for path in Path(regard.datasets.__file__).parent.glob("*.py")} - {"__init__", "dataset"}
    assert files == set(DATASETS)
    for name, dataset in DATASETS.items():
        assert dataset.name == name
        assert importlib.import_module(f"regard.datasets.{name}").DATASET is dataset


def test_every_file_of_every_set_is_listed() -> None:
    folders = {name.partition("/")[0] for name in expected_names()}
    assert {name for name in SOURCES if name.partition("/")[0] in folders} == expected_names()
    assert sum(len(dataset.sources) for dataset in DATASETS.values()) == len(SOURCES)


@cases("source", [*SOURCES.values(), WEIGHTS], ids=lambda source: source.name)
def test_facts_of_files_are_plausible(source: Source) -> None:
    assert SOURCES.get(source.name, WEIGHTS) is source
    assert re.fullmatch(r"[0-9a-f]{64}", source.sha256)
    assert 4_000 < source.num_bytes < 200_000_000
    assert len(source.licence) >= 10


def test_no_checksum_twice() -> None:
    sums = [sha256 for source in SOURCES.values() for sha256 in (source.sha256, *(other for other, _ in source.others))]
    assert len(set(sums)) == len(sums)


def test_how_a_user_gets_each_set() -> None:
    expected = {
        "embedded": ("tatoeba_plain", "tatoeba_small", "digits", "shapes", "agreement", "toy_reviews", "babi_small"),
        "download": ("multi30k", "mnist", "cifar10", "snli_full"),
        "bring": (  # cut or packed anew: nobody publishes them
            "tatoeba", "europarl", "newstest", "svhn", "flickr8k", "ptb", "wikitext2", "tinyshakespeare", "enwik8",
            "imdb", "yelp", "sst", "snli", "babi",
        ),
    }  # fmt: skip
    for access, names in expected.items():
        assert {DATASETS[name].access for name in names} == {access}


@cases("dataset", DATASETS.values(), ids=lambda dataset: dataset.name)
def test_facts_of_a_set(dataset: Dataset) -> None:
    assert len(dataset.licence) >= 10
    assert dataset.note
    assert dataset.embedded != bool(dataset.sources)
    assert all(source.licence == dataset.licence for source in dataset.sources.values())
    if dataset.can_train:
        assert dataset.splits[:2] == ("train", "valid")
        assert all(split.startswith("test") for split in dataset.splits[2:])


@pytest.mark.parametrize("name", [name for name, dataset in DATASETS.items() if dataset.embedded])
def test_what_is_embedded_is_read_from_the_package(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_OFFLINE", "1")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    dataset = DATASETS[name]
    splits = dataset.read()
    if not dataset.splits:  # one thing, such as a list of words
        assert type(splits) is TYPES[dataset.kind]
        assert list(tmp_path.iterdir()) == []
        return
    if not dataset.can_train:  # one split, to evaluate on
        assert type(splits) is TYPES[dataset.kind]
        return
    assert tuple(splits) == dataset.splits
    assert {type(split) for split in splits.values()} == {TYPES[dataset.kind]}
    if dataset.references is not None:
        assert len(dataset.references("test")) == splits["test"].size
    assert list(tmp_path.iterdir()) == []


# ── the choice ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_task_takes_those_of_its_kind() -> None:
    names = (
        "parallel text", "pictures", "captions", "text", "labelled text", "stories", "graphs", "word pictures", "clips",
        "scenes",
    )  # fmt: skip
    kinds = [of_kind(DATASETS, kind) for kind in names]
    assert {name for sets in kinds for name in sets} == {name for name in DATASETS if DATASETS[name].can_train}
    assert not DATASETS["newstest"].can_train
    assert [("europarl" in sets, "svhn" in sets, "shapes" in sets) for sets in kinds] == [
        (True, False, False), (False, True, False), (False, False, True), *[(False, False, False)] * 7,
    ]  # fmt: skip
    assert choose(DATASETS, "pictures", "svhn", setting="task.dataset") is DATASETS["svhn"]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("minst", "Did you mean 'mnist'?"),
        ("shapes", "Try: choose another one: shapes has captions."),
        ("newstest", "Try: choose another one: newstest has parallel text and nothing to train on."),
    ],
)
def test_a_name_that_does_not_fit(name: str, advice: str) -> None:
    with pytest.raises(ConfigError) as caught:
        choose(DATASETS, "pictures", name, setting="task.dataset", besides=("files",))
    known = ", ".join([*of_kind(DATASETS, "pictures"), "files"])
    assert str(caught.value) == f"task.dataset: got {name!r}; expected one of {known}. {advice}"


# ── a new one ───────────────────────────────────────────────────────────────────────────────────────────────────────

TEXT = "".join(f"the cat {number}\tle chat {number}\n" for number in range(12))
FILE = '''
"""A toy corpus: twelve sentences about cats."""

from regard.data import find, listed_sources, read_parallel, split_by_source
from regard.datasets import Dataset

LICENCE = "CC0-1.0, as its author says"
SOURCES = listed_sources("{sha256} {num_bytes} toy/cats.tsv", licence=LICENCE)


def toy(source="en", target="fr"):
    """English and French: train, valid and test."""
    return split_by_source(read_parallel(find(SOURCES["toy/cats.tsv"])), valid=2, test=2)


DATASET = Dataset("toy", "parallel text", toy, ("train", "valid", "test"), LICENCE, SOURCES)
'''


def test_a_new_data_set_is_one_file_and_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "cats.tsv").write_text(TEXT)
    file = tmp_path / "toy.py"
    file.write_text(FILE.format(sha256=sha256(TEXT.encode()).hexdigest(), num_bytes=len(TEXT)))
    spec = importlib.util.spec_from_file_location("toy", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(DATASETS, "toy", module.DATASET)  # the line in the menu
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))

    assert DATASETS["toy"].access == "bring"
    task = Translation(TranslationConfig(corpus="toy"))
    assert {name: text.size for name, text in task.splits.items()} == {"train": 8, "valid": 2, "test": 2}
    assert task.tests == ["test"]
    batch = next(task.batches(seed=0))
    assert sorted(batch.indices) == list(range(8))
    assert task.references("test") == [[line] for line in task.splits["test"].target]
    with pytest.raises(ConfigError, match=r"task.corpus: got 'toi'; expected .*, toy, files. Did you mean 'toy'"):
        Translation(TranslationConfig(corpus="toi"))
    (tmp_path / "toy" / "cats.tsv").write_text(TEXT.replace("cat ", "dog "))
    with pytest.raises(Exception, match="wrong sha256"):
        DATASETS["toy"].read()
