"""Penn Treebank as language models use it: newspaper sentences in the preparation of Mikolov, 10,000 words.

Everything is in small letters, numbers are N, rare words <unk>; a line is a sentence. With <eos> there are 929,589
tokens to train on, 73,760 to validate and 82,430 to test. The characters of the same text are what papers call
character-level Penn Treebank, with a space between all tokens.
"""

from regard.data.download import find
from regard.data.sources import listed_sources
from regard.data.units import read_text, strip_lines
from regard.datasets.dataset import Dataset

LICENCE = "text of the Wall Street Journal, licensed by the LDC (LDC99T42); for research, not to be passed on"
SPLITS = ("train", "valid", "test")
SOURCES = listed_sources(
    """
c4c6455d85f60640431f7bc738d51265ba2d55dcce10e8906322d6f9e3dcca81  1688035 ptb/ptb.train.txt.gz
f2148d96d82f827399b7e5040868a4541bd2d2612ebaf5a2ff213bc07fd74eb8   134062 ptb/ptb.valid.txt.gz
5015d206077ff3e96161868c5c280ec8a28e9ad5617ef99ee0e734aaef6130c5   149201 ptb/ptb.test.txt.gz
""",
    licence=LICENCE,
)


def ptb() -> dict[str, str]:
    """The running text of each split; a line is a sentence, its words are parted by spaces."""
    texts = {split: read_text(find(SOURCES[f"ptb/ptb.{split}.txt.gz"])) for split in SPLITS}
    return {split: strip_lines(text) for split, text in texts.items()}


DATASET = Dataset(
    "ptb",
    kind="text",
    read=ptb,
    splits=SPLITS,
    licence=LICENCE,
    sources=SOURCES,
    note="newspaper sentences in 10,000 words: 929,589 tokens to train on",
)
