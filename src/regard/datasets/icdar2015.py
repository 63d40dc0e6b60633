"""ICDAR 2015 Incidental Scene Text, task 4.3 (Karatzas et al. 2015): words of pictures that nobody aimed at them.

The pictures are read from zip files, in which those taller than 48 pixels were reduced to that.
"""

from regard.data.download import find
from regard.data.sources import listed_sources
from regard.data.words import WordPictures, read_zipped_splits
from regard.datasets.dataset import Dataset

LICENCE = "CC BY 4.0, as MMOCR records it; © the organisers of the challenge"
HELD_OUT = 200  # the last words of the training set are the validation set
SOURCES = listed_sources(
    """
0c9a22c7629a95976157800beb76f97dae321ab2879086086ebd3ef3f9cd0a27   50446 scene_text/icdar2015_train.csv.gz
f3a92a97ca6824413723927886a32ee7a6a4090e07ee1e2b971187d57e51f63f 2969202 scene_text/icdar2015_train.zip
569ded44647d7934728dc07acbe77adf5cc44b71d5527052a4b3064dffba8201   23788 scene_text/icdar2015_test.csv.gz
3998e60363d095b38acbbf760c9252d1abcf8125e1460c66f0ccc829749dcbfe 1410326 scene_text/icdar2015_test.zip
""",
    licence=LICENCE,
)


def icdar2015() -> dict[str, WordPictures]:
    """4,268 words to train on, 200 and 2,077 to judge by; `test_alnum` has those of letters and digits alone."""
    splits = read_zipped_splits(lambda file: find(SOURCES[f"scene_text/icdar2015_{file}"]), held_out=HELD_OUT)
    plain = [number for number, text in enumerate(splits["test"].texts) if text.isascii() and text.isalnum()]
    return splits | {"test_alnum": splits["test"].take(plain)}


DATASET = Dataset(
    "icdar2015",
    kind="word pictures",
    read=icdar2015,
    splits=("train", "valid", "test", "test_alnum"),
    licence=LICENCE,
    sources=SOURCES,
    note="6,545 words of pictures that were not taken for them",
)
