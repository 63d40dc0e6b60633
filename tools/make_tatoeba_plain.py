"""Make the corpus that the package ships: English and French pairs of Tatoeba in plain words.

    python tools/make_tatoeba_plain.py

It reads `tatoeba/fra.txt.xz` (of 2020-08-23) through `regard.datasets.tatoeba`, and keeps the pairs

- whose English words are among the 1,000 most frequent English words of the file, and whose French words are among its
  1,000 most frequent French words (tokens of `regard.data.text.tokenize`, in lower case, with a letter or digit), and
- that have 3 to 20 words on either side.

It writes `src/regard/datasets/corpora/tatoeba_en_fr_plain.tsv.xz`: English, French and attribution, parted by tabs, in
the order of the source. The attribution is the numbers and owners of the two sentences at tatoeba.org, such as
`2877272 CM 1158250 Wittydev`. The same source gives the same lines.
"""

import lzma
import re
import sys
from collections import Counter
from pathlib import Path

from regard.base import write_atomically
from regard.data.download import find
from regard.data.parallel import read_lines
from regard.data.text import tokenize
from regard.datasets.tatoeba import SOURCES

OUTPUT = Path(__file__).parents[1] / "src" / "regard" / "datasets" / "corpora" / "tatoeba_en_fr_plain.tsv.xz"
NUM_WORDS = 1000
MIN_LENGTH, MAX_LENGTH = 3, 20
ATTRIBUTION = re.compile(r"CC-BY 2\.0 \(France\) Attribution: tatoeba\.org #(\d+) \((\S+)\) & #(\d+) \((\S+)\)")


def main() -> None:
    """Read, choose, write."""
    rows = [line.split("\t") for line in read_lines(find(SOURCES["tatoeba/fra.txt.xz"]))]
    english, french = ([words(row[side]) for row in rows] for side in (0, 1))
    plain_english, plain_french = frequent(english), frequent(french)
    lines = [
        f"{row[0]}\t{row[1]}\t{owners(row[2])}\n"
        for row, left, right in zip(rows, english, french, strict=True)
        if fits(left, plain_english) and fits(right, plain_french)
    ]
    content = lzma.compress("".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME)
    write_atomically(OUTPUT, content)
    sys.stdout.write(f"{len(lines):,} of {len(rows):,} pairs, {len(content):,} bytes: {OUTPUT}\n")


def words(sentence: str) -> list[str]:
    """Tokens that are more than punctuation."""
    return [token for token in tokenize(sentence, lower=True) if re.search(r"\w", token)]


def frequent(sentences: list[list[str]]) -> set[str]:
    """The most frequent words; of equally frequent ones the first in the alphabet."""
    counts = Counter(word for sentence in sentences for word in sentence)
    return set(sorted(counts, key=lambda word: (-counts[word], word))[:NUM_WORDS])


def fits(sentence: list[str], plain: set[str]) -> bool:
    """Neither too short nor too long, and plain words only."""
    return MIN_LENGTH <= len(sentence) <= MAX_LENGTH and plain.issuperset(sentence)


def owners(attribution: str) -> str:
    """The four facts of an attribution, in one line."""
    match = ATTRIBUTION.fullmatch(attribution)
    assert match is not None, attribution
    return " ".join(match.groups())


if __name__ == "__main__":
    main()
