"""Corpora of made-up pairs, and files of them: plain or packed, one or several."""

import bz2
import gzip
import lzma
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

PACKED: dict[str, Callable[[bytes], bytes]] = {
    "": bytes, ".gz": lambda data: gzip.compress(data, 1, mtime=0), ".xz": lzma.compress, ".bz2": bz2.compress,
}  # fmt: skip


def made_up(count: int, *, seed: int = 0, words: int = 50, copies: float = 0.1) -> list[tuple[str, str]]:
    """Pairs of one to six words; of these so many come again, with another translation."""
    draw = np.random.default_rng(seed)
    lengths = draw.integers(1, 7, count)
    texts = [" ".join(f"w{word}" for word in draw.integers(0, words, length)) for length in lengths]
    lines = [f"{text} n{n}" for n, text in enumerate(texts)]
    again = np.where(draw.random(count) < copies, draw.integers(0, count, count), np.arange(count))
    return [(lines[int(other)], f"{lines[n].upper()} .") for n, other in enumerate(again)]


def write_sides(
    folder: Path, pairs: Sequence[tuple[str, str]], *, files: int = 3, ending: str = ".gz"
) -> tuple[str, str]:
    """The pairs in files such as c.00.de.gz and c.00.en.gz, of unlike sizes; gives the patterns of both sides."""
    folder.mkdir(parents=True, exist_ok=True)
    bounds = [len(pairs) * n * n // files**2 for n in range(files + 1)]
    for number, (start, end) in enumerate(pairwise(bounds)):
        for side, name in enumerate(("de", "en")):
            data = "".join(f"{pair[side]}\n" for pair in pairs[start:end]).encode()
            (folder / f"c.{number:02}.{name}{ending}").write_bytes(PACKED[ending](data))
    return str(folder / f"c.*.de{ending}"), str(folder / f"c.*.en{ending}")
