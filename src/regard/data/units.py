"""The units of a running text: its words, or its characters, numbered; a line end is <eos>.

>>> units = TextUnits.train("the cat sat .\\nthe dog sat .\\n", kind="spaced")
>>> units.stream("the dog ran .\\n").tolist(), units.decode([6, 8, 5, 4, EOS])
([6, 8, 3, 4, 2], 'the dog sat .\\n')
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import numpy as np

from regard.base import RegardError, parse_json
from regard.data.batches import Numbers
from regard.data.parallel import DataError, Place, read_lines
from regard.data.text import BOS, EOS, PAD, SPECIALS, UNK, Vocabulary
from regard.data.tokenizing import detokenize, tokenize

UnitKind = Literal["words", "spaced", "characters"]
KINDS: tuple[UnitKind, ...] = ("words", "spaced", "characters")
VISIBLE = {" ": "␣", "\t": "⇥"}  # what the label of a character is where it cannot be seen


def read_text(path: Place | Sequence[Place]) -> str:
    """The text of UTF-8 files, plain or .gz, .xz, .bz2, .zst, as one string whose every line ends with a newline.

    Several files are one text, in their order. A file that is missing, empty or not UTF-8 is an error that names it.
    """
    texts = []
    for one in [path] if isinstance(path, str | os.PathLike) else path:
        texts.append("\n".join(read_lines(one)) + "\n")
        if not texts[-1].strip():
            raise DataError(f"{one}: there is no text", got="white space alone", cure="name a file with text")
    return "".join(texts)


def strip_lines(text: str) -> str:
    """The text without white space around its lines, as corpora of tokens have it.

    >>> strip_lines(" a b \\n\\n c \\n")
    'a b\\n\\nc\\n'
    """
    return "".join(f"{line.strip()}\n" for line in text.split("\n")[:-1])


def cut_text(text: str, *, held_out: float = 0.05) -> dict[str, str]:
    """Splits a running text by position: the start for training, then a share for validation, the last for the test.

    A cut is moved to the next line end where there is one before the next cut. Each split must have some text.

    >>> cut_text("a\\nb\\nc\\nd\\n", held_out=0.25)
    {'train': 'a\\nb\\n', 'valid': 'c\\n', 'test': 'd\\n'}
    """
    places = [0, int(len(text) * (1 - 2 * held_out)), int(len(text) * (1 - held_out)), len(text)]
    for number in (1, 2):
        line_end = text.find("\n", max(places[number] - 1, 0), places[number + 1])
        places[number] = line_end + 1 if 0 <= line_end < places[number + 1] - 1 else places[number]
    names = ("train", "valid", "test")
    splits = {name: text[places[number] : places[number + 1]] for number, name in enumerate(names)}
    for name, split in splits.items():
        if not split.strip():
            cure = "give a longer text: a twentieth is for validation, and a twentieth for the test"
            raise DataError("the text is too short", got=f"nothing for {name}", cure=cure)
    return splits


@dataclass(frozen=True)
class TextUnits:
    """Numbers of a text's units: "words" by `tokenize`, "spaced" by white space (for a text that is tokenised already),
    or "characters".
    """

    vocabulary: Vocabulary
    kind: UnitKind
    lower: bool = False

    @classmethod
    def train(
        cls,
        text: str,
        *,
        kind: UnitKind,
        max_size: int | None = None,
        min_count: int = 1,
        lower: bool = False,
    ) -> "TextUnits":
        """The units of a text, the most frequent first; `max_size` counts the four specials."""
        lines = (_units_of(line, kind, lower) for line in _lines(text))
        return cls(Vocabulary.build(lines, max_size=max_size, min_count=min_count), kind, lower)

    def tokens(self, line: str) -> list[str]:
        """The units of one line, known or not."""
        return _units_of(line, self.kind, self.lower)

    def sentences(self, text: str) -> list[list[int]]:
        """The numbers of each line's units, without <eos>; an empty line has none."""
        return [self.vocabulary.encode(self.tokens(line)) for line in _lines(text)]

    def stream(self, text: str) -> Numbers:
        """The numbers of the whole text, with <eos> at the place of each line end.

        A text that does not end with a newline, such as one that was cut inside of a line, has no last <eos>.
        """
        numbers: list[int] = []
        for sentence in self.sentences(text):
            numbers.extend(sentence)
            numbers.append(EOS)
        if numbers and not text.endswith("\n"):
            numbers.pop()
        return np.asarray(numbers, dtype=np.int64)

    def decode(self, ids: Iterable[int] | Numbers) -> str:
        """The text of numbers: <eos> ends a line, <pad> and <bos> are skipped."""
        return "".join(self._lines_of(ids))

    def labels(self, ids: Iterable[int] | Numbers) -> list[str]:
        """A name for each number, as a picture shows it: <eos> stays, a space becomes ␣."""
        names = (self.vocabulary.tokens[number] for number in ids)
        return [VISIBLE.get(name, name) for name in names]

    def to_json(self) -> str:
        """As text, for `from_json`."""
        tokens = self.vocabulary.tokens[len(SPECIALS) :]
        content = {"kind": "text units", "units": self.kind, "lower": self.lower, "tokens": tokens}
        return json.dumps(content, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "TextUnits":
        """What `to_json` wrote."""
        content: object = None
        with suppress(RegardError):
            content = parse_json(text)
        if (
            not isinstance(content, dict)
            or content.get("kind") != "text units"
            or content.get("units") not in KINDS
            or not isinstance(content.get("lower"), bool)
            or not isinstance(content.get("tokens"), list)
            or not all(isinstance(token, str) for token in content["tokens"])
        ):
            got = f"{len(text):,} other characters"
            raise DataError("this is not what TextUnits.to_json wrote", got=got, expected="JSON of kind text units")
        return cls(Vocabulary(content["tokens"]), content["units"], content["lower"])

    def __len__(self) -> int:
        return len(self.vocabulary)

    def _lines_of(self, ids: Iterable[int] | Numbers) -> Iterator[str]:
        line: list[str] = []
        for number in ids:
            if number == EOS:
                yield self._joined(line) + "\n"
                line = []
            elif number not in (PAD, BOS):
                line.append(self.vocabulary.tokens[number])
        if line:
            yield self._joined(line)

    def _joined(self, tokens: list[str]) -> str:
        if self.kind == "characters":
            return "".join(tokens)
        return detokenize(tokens) if self.kind == "words" else " ".join(tokens)


def _lines(text: str) -> list[str]:
    """The lines of a text; what stands after the last newline is one too, if it is not empty."""
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def _units_of(line: str, kind: UnitKind, lower: bool) -> list[str]:
    if kind == "words":
        return [token if token not in SPECIALS else SPECIALS[UNK] for token in tokenize(line, lower=lower)]
    line = line.lower() if lower else line
    return line.split() if kind == "spaced" else list(line)
