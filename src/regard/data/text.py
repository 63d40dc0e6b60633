"""Text to numbers and back: words as in the papers, or subwords by sentencepiece, behind one interface, `Codec`.

>>> codec = WordCodec.train(["the cat sat .", "the dog sat ."])
>>> codec.encode_text("the cat ran."), codec.decode_text([6, 7, 4, EOS, PAD])
([6, 7, 3, 4], 'the cat.')
"""

import base64
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any, Literal, Protocol, runtime_checkable

from regard.base import ConfigError, RegardError, parse_json, require
from regard.base.ranges import VOCABULARY, OneOf
from regard.data.parallel import DataError
from regard.data.tokenizing import detokenize, normalize_text, tokenize

PAD, BOS, EOS, UNK = range(4)
SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")


class Vocabulary:
    """Numbered tokens, after the specials <pad> 0, <bos> 1, <eos> 2 and <unk> 3.

    Text cannot reach a special: a token that is written like one is unknown.

    >>> vocabulary = Vocabulary.build([["the", "cat"], ["the", "dog"]], max_size=6)
    >>> vocabulary.encode(["the", "dog", "<pad>"]), vocabulary.decode([BOS, 4, 5, EOS, PAD]), len(vocabulary)
    ([4, 3, 3], ['the', 'cat'], 6)
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        self.tokens = (*SPECIALS, *tokens)
        self._ids = {token: number for number, token in enumerate(self.tokens) if number >= len(SPECIALS)}
        if len(self._ids) + len(SPECIALS) != len(self.tokens) or any(token in self._ids for token in SPECIALS):
            twice = [token for token, count in Counter(self.tokens).items() if count > 1]
            raise DataError(
                "a vocabulary holds each token once",
                got=f"{twice[0]!r} twice",
                cure="use Vocabulary.build on sentences",
            )

    @classmethod
    def build(
        cls, sentences: Iterable[Sequence[str]], *, max_size: int | None = None, min_count: int = 1
    ) -> "Vocabulary":
        """The most frequent tokens, ties in alphabetical order; `max_size` counts the four specials."""
        if max_size is not None and max_size < len(SPECIALS):
            raise ConfigError("Vocabulary max_size", got=max_size, expected="4 or more", cure="count the specials too")
        counts: Counter[str] = Counter()
        for sentence in sentences:
            counts.update(sentence)
        tokens = [token for token, count in counts.items() if count >= min_count and token not in SPECIALS]
        tokens.sort(key=lambda token: (-counts[token], token))
        return cls(tokens if max_size is None else tokens[: max_size - len(SPECIALS)])

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """The number of each token, without <bos> and <eos>."""
        return [self._ids.get(token, UNK) for token in tokens]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """The tokens up to <eos>, without <pad> and <bos>."""
        return [self.tokens[number] for number in _content(ids, len(self))]

    def coverage(self, sentences: Iterable[Sequence[str]]) -> float:
        """The share of tokens that are known; 1 where there are none."""
        known = total = 0
        for sentence in sentences:
            known += sum(token in self._ids for token in sentence)
            total += len(sentence)
        return known / total if total else 1.0

    def to_json(self) -> str:
        """As text, for `from_json`."""
        return json.dumps({"kind": "vocabulary", "tokens": self.tokens[len(SPECIALS) :]}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "Vocabulary":
        """What `to_json` wrote."""
        return cls(_read_json(text, "vocabulary")["tokens"])

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: object) -> bool:
        return token in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.tokens == other.tokens

    def __hash__(self) -> int:
        return hash(self.tokens)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} tokens)"


@runtime_checkable
class Codec(Protocol):
    """Text to ids and back. Ids are without <bos> and <eos>; there is one id for each of `tokens(text)`."""

    def encode_text(self, text: str) -> list[int]:
        """The ids of a sentence."""

    def decode_text(self, ids: Iterable[int]) -> str:
        """The sentence of ids up to <eos>; <pad> and <bos> are skipped."""

    def tokens(self, text: str) -> list[str]:
        """The words or subwords of a sentence: the labels of a heat map."""

    def decode_tokens(self, ids: Iterable[int]) -> list[str]:
        """The words or subwords of ids up to <eos>, one for each id that is not <pad> or <bos>."""

    def to_json(self) -> str:
        """As text, for `codec_from_json`."""

    def __len__(self) -> int: ...


@dataclass(frozen=True)
class WordCodec:
    """Words by `tokenize`, numbered by a vocabulary."""

    vocabulary: Vocabulary
    lower: bool = False

    @classmethod
    def train(
        cls, lines: Iterable[str], *, max_size: int | None = None, min_count: int = 1, lower: bool = False
    ) -> "WordCodec":
        """A codec with the words of some lines; the papers took the 30 000 most frequent."""
        sentences = (tokenize(line, lower=lower) for line in lines)
        return cls(Vocabulary.build(sentences, max_size=max_size, min_count=min_count), lower)

    def encode_text(self, text: str) -> list[int]:
        """The ids of a sentence; unknown words are <unk>."""
        return self.vocabulary.encode(self.tokens(text))

    def decode_text(self, ids: Iterable[int]) -> str:
        """The sentence of ids up to <eos>; <pad> and <bos> are skipped."""
        return detokenize(self.decode_tokens(ids))

    def tokens(self, text: str) -> list[str]:
        """The words of a sentence, known or not."""
        return tokenize(text, lower=self.lower)

    def decode_tokens(self, ids: Iterable[int]) -> list[str]:
        """The words of ids up to <eos>."""
        return self.vocabulary.decode(ids)

    def to_json(self) -> str:
        """As text, for `codec_from_json`."""
        tokens = self.vocabulary.tokens[len(SPECIALS) :]
        return json.dumps({"kind": "words", "lower": self.lower, "tokens": tokens}, ensure_ascii=False)

    def __len__(self) -> int:
        return len(self.vocabulary)


@dataclass(frozen=True)
class SubwordCodec:
    """Subwords by sentencepiece, with the same special ids as `Vocabulary`."""

    model: bytes = field(repr=False)

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        *,
        size: int = 8000,
        kind: Literal["bpe", "unigram"] = "bpe",
        max_lines: int | None = None,
        seed: int = 0,
    ) -> "SubwordCodec":
        """A model of `size` subwords, specials included, from all lines or a random `max_lines` of them.

        Every character of the lines is known. The same lines and settings give the same model.
        """
        OneOf(("bpe", "unigram")).check("SubwordCodec kind", kind)
        VOCABULARY.check("SubwordCodec size", size)  # sentencepiece does not end on much larger ones
        sentencepiece = require("sentencepiece", extra="text")
        sample = [line for line in map(normalize_text, lines) if line]
        if max_lines is not None and max_lines < len(sample):
            sample = Random(seed).sample(sample, max_lines)
        if not sample:
            raise DataError("there is no text to train subwords on", got="no lines", expected="a few thousand lines")
        model, names = io.BytesIO(), [text[1:-1] for text in SPECIALS]
        specials: dict[str, Any] = {f"{name}_id": number for number, name in enumerate(names)}
        specials |= {f"{name}_piece": text for name, text in zip(names, SPECIALS, strict=True)}
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(sample),
                model_writer=model,
                model_type=kind,
                vocab_size=size,
                character_coverage=1.0,
                normalization_rule_name="identity",  # `normalize_text` has done it
                max_sentence_length=1_000_000,
                num_threads=1,  # sums in one order, whatever the machine
                minloglevel=2,
                unk_surface=SPECIALS[UNK],
                **specials,
            )
        except RuntimeError as error:
            reason = str(error).rpartition("] ")[2].partition(" Increase vocab_size")[0].strip(" .")
            limit = re.search(r"(?:<=|vs\.?) (\d+)", reason)
            cure = f"choose size={limit[1]}" if limit else "choose another size, or train on more text"
            raise ConfigError(f"SubwordCodec size: {reason}", got=size, cure=cure) from error
        return cls(model.getvalue())

    @cached_property
    def _processor(self) -> Any:
        sentencepiece = require("sentencepiece", extra="text")
        try:
            loaded = sentencepiece.SentencePieceProcessor(model_proto=self.model)
            special = [loaded.pad_id(), loaded.bos_id(), loaded.eos_id(), loaded.unk_id()]
        except RuntimeError:
            special = None
        if special != [PAD, BOS, EOS, UNK]:
            got, cure = "no model" if special is None else f"special ids {special}", "make it with SubwordCodec.train"
            raise DataError("this sentencepiece model does not fit", got=got, expected="<pad> 0 … <unk> 3", cure=cure)
        return loaded

    def encode_text(self, text: str) -> list[int]:
        """The ids of a sentence; a character that was not in the training text is <unk>."""
        return list(self._processor.encode(normalize_text(text), out_type=int))

    def decode_text(self, ids: Iterable[int]) -> str:
        """The sentence of ids up to <eos>; <pad> and <bos> are skipped."""
        return str(self._processor.decode(_content(ids, len(self))))

    def tokens(self, text: str) -> list[str]:
        """The subwords of a sentence; ▁ marks the start of a word."""
        return list(self._processor.encode(normalize_text(text), out_type=str))

    def decode_tokens(self, ids: Iterable[int]) -> list[str]:
        """The subwords of ids up to <eos>."""
        return [self._processor.id_to_piece(number) for number in _content(ids, len(self))]

    def to_bytes(self) -> bytes:
        """The sentencepiece model; `SubwordCodec(model)` reads it."""
        return self.model

    @classmethod
    def from_bytes(cls, model: bytes) -> "SubwordCodec":
        """The codec of a sentencepiece model."""
        return cls(model)

    def to_json(self) -> str:
        """As text, for `codec_from_json`."""
        return json.dumps({"kind": "subwords", "model": base64.b64encode(self.model).decode()})

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())


def codec_from_json(text: str) -> WordCodec | SubwordCodec:
    """The codec that `to_json` wrote.

    >>> codec = WordCodec.train(["un chat noir"])
    >>> codec_from_json(codec.to_json()) == codec
    True
    """
    content = _read_json(text, "words", "subwords")
    if content["kind"] == "words":
        return WordCodec(Vocabulary(content["tokens"]), content["lower"])
    return SubwordCodec(base64.b64decode(content["model"]))


def _content(ids: Iterable[int], size: int) -> list[int]:
    """Ids up to EOS, without PAD and BOS."""
    content = []
    for number in ids:
        if number == EOS:
            break
        if not 0 <= number < size:
            expected, cure = f"0 to {size - 1}", "decode with the codec of the model"
            raise DataError("there is no such id", got=number, expected=expected, cure=cure)
        if number not in (PAD, BOS):
            content.append(int(number))
    return content


def _read_json(text: str, *kinds: str) -> dict[str, Any]:
    """A dictionary of one of these kinds; an error quotes nothing of the text, which may be anybody's file."""
    needed = {"vocabulary": ("tokens",), "words": ("tokens", "lower"), "subwords": ("model",)}
    types, content = {"tokens": list, "lower": bool, "model": str}, {}
    with suppress(RegardError):
        content = parse_json(text)
    content = content if isinstance(content, dict) else {}
    kind, tokens = content.get("kind"), content.get("tokens", [])
    fits = kind in kinds and all(isinstance(content.get(name), types[name]) for name in needed[kind])
    if not fits or not all(isinstance(token, str) for token in tokens):
        got, expected = f"{len(text):,} other characters", f"JSON of kind {' or '.join(kinds)}"
        raise DataError("this is not what to_json wrote", got=got, expected=expected)
    return content
