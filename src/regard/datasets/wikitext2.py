"""WikiText-2: articles of the English Wikipedia, chosen by Merity et al. 2016 (arXiv 1609.07843).

Words that occur fewer than three times in the training text are <unk>: 33,278 words with <eos>. A line is a paragraph
or a heading, and many are empty. With <eos> there are 2,088,628 tokens to train on, 217,646 to validate and 245,569 to
test.
"""

from regard.data.download import find
from regard.data.sources import listed_sources
from regard.data.units import read_text, strip_lines
from regard.datasets.dataset import Dataset

LICENCE = "CC BY-SA 3.0; text of Wikipedia"
SPLITS = ("train", "valid", "test")
SOURCES = listed_sources(
    """
7f5b03a0219b81adcc680f2d8bd24b7b3f19e4a01ac52f9533ca18cc807ac2bd  2736940 wikitext2/wiki.train.tokens.xz
1322771e23310248961e17b3c55df138cd3e5c57f2e36ac1d131e9c6158ccd74   305992 wikitext2/wiki.valid.tokens.xz
306c08b989e77ca6d5587c58d90bf8f8fa3be85671b0eda75315de9f68584fbe   336552 wikitext2/wiki.test.tokens.xz
""",
    licence=LICENCE,
)


def wikitext2() -> dict[str, str]:
    """The running text of each split, its words parted by spaces."""
    texts = {split: read_text(find(SOURCES[f"wikitext2/wiki.{split}.tokens.xz"])) for split in SPLITS}
    return {split: strip_lines(text) for split, text in texts.items()}


DATASET = Dataset(
    "wikitext2",
    kind="text",
    read=wikitext2,
    splits=SPLITS,
    licence=LICENCE,
    sources=SOURCES,
    note="articles of Wikipedia in 33,278 words: 2,088,628 tokens to train on",
)
