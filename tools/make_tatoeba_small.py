"""Make the held-out sentences that the package ships, so that its translators can be judged without other files.

    python tools/make_tatoeba_small.py

It reads `tatoeba/fra.txt.xz` (of 2020-08-23) through `regard.datasets.tatoeba`, takes 1,000 English sentences of its
test split, evenly from the shortest to the longest, and writes all French translations of each into
`src/regard/datasets/corpora/tatoeba_small.tsv.xz`: English, French and attribution, parted by tabs. The attribution is
the numbers and owners of the two sentences at tatoeba.org, such as `2877272 CM 1158250 Wittydev`. The same source gives
the same lines.
"""

import lzma
import sys
from pathlib import Path

from make_tatoeba_plain import owners

from regard.base import write_atomically
from regard.data.download import find
from regard.data.parallel import read_lines
from regard.datasets.tatoeba import SOURCES, tatoeba

OUTPUT = Path(__file__).parents[1] / "src" / "regard" / "datasets" / "corpora" / "tatoeba_small.tsv.xz"
SENTENCES = 1000


def main() -> None:
    """Read, choose, write."""
    rows = [line.split("\t") for line in read_lines(find(SOURCES["tatoeba/fra.txt.xz"]))]
    english = tatoeba()["test"].source
    chosen = set(evenly(english, SENTENCES))
    lines = [f"{row[0]}\t{row[1]}\t{owners(row[2])}\n" for row in rows if row[0] in chosen]
    content = lzma.compress("".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME)
    write_atomically(OUTPUT, content)
    sys.stdout.write(f"{len(chosen):,} of {len(english):,} sentences, {len(lines):,} pairs, {len(content):,} bytes\n")


def evenly(sentences: list[str], count: int) -> list[str]:
    """So many of them, evenly from the shortest to the longest; of equally long ones in the order of the alphabet."""
    ordered = sorted(sentences, key=lambda sentence: (len(sentence.split()), sentence))
    return [ordered[(2 * number + 1) * len(ordered) // (2 * count)] for number in range(count)]


if __name__ == "__main__":
    main()
