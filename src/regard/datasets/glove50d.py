"""GloVe (Pennington et al. 2014): vectors of 50 numbers for the 50,000 most frequent words of 6 billion.

These are the first 50,000 lines of glove.6B.50d.txt. `task.vectors=glove50d` begins a training with them.
"""

from collections.abc import Collection

from regard.data.download import find
from regard.data.sources import listed_sources
from regard.data.word_vectors import WordVectors, read_word_vectors
from regard.datasets.dataset import Dataset

LICENCE = "Public Domain Dedication and License 1.0"
FILE = "glove50d/glove.6B.50d.top50k.txt.xz"
SOURCES = listed_sources(
    f"396ecd42a657aed869f400e14b71f9ce0fb2de39312e4464ece2f6454597d6d8  7259468 {FILE}", licence=LICENCE
)


def glove50d(words: Collection[str] | None = None) -> WordVectors:
    """The vectors of these words, or of all."""
    return read_word_vectors(find(SOURCES[FILE]), words)


DATASET = Dataset(
    "glove50d",
    kind="word vectors",
    read=glove50d,
    splits=(),
    licence=LICENCE,
    sources=SOURCES,
    note="GloVe, 50 numbers for each of 50,000 words",
)
