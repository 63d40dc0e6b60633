"""IIIT 5K-Word (Mishra, Alahari & Jawahar 2012): words cut out of photographs and born-digital pictures.

The pictures are read from zip files, in which those taller than 48 pixels were reduced to that.
"""

from regard.data.download import find
from regard.data.sources import listed_sources
from regard.data.words import WordPictures, read_zipped_splits
from regard.datasets.dataset import Dataset

LICENCE = "none stated; its publishers ask for a citation"
HELD_OUT = 100  # the last words of the training set are the validation set
SOURCES = listed_sources(
    """
1c9e8435b9b1253220ab879e6871778bb61da5fc0875bcf155ac0eac3eaa3485   22647 scene_text/iiit5k_train.csv.gz
a69e7a9dd1dd45b194da9aa8b23d32291ae772ffde80353a2b97d745afe4f9f2 1950304 scene_text/iiit5k_train.zip
06a053e16671650ee1ef83fe8a2f3d020ecb6f1a803209b001ba520f38705861   34264 scene_text/iiit5k_test.csv.gz
36e0ca59dd38a180786a7bc74a9af85c4a58994f8457580c7ae303d93116f812 3332890 scene_text/iiit5k_test.zip
""",
    licence=LICENCE,
)


def iiit5k() -> dict[str, WordPictures]:
    """1,900 words to train on, 100 (the last ones of the training set) and 3,000 to judge by."""
    return read_zipped_splits(lambda file: find(SOURCES[f"scene_text/iiit5k_{file}"]), held_out=HELD_OUT)


DATASET = Dataset(
    "iiit5k",
    kind="word pictures",
    read=iiit5k,
    splits=("train", "valid", "test"),
    licence=LICENCE,
    sources=SOURCES,
    note="5,000 words of photographs and born-digital pictures",
)
