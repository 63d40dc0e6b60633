"""tokenizer.json against sentencepiece: the same numbers for real and for random texts."""

import random
from typing import Literal

import pytest

from regard.data import EOS, UNK, SubwordCodec
from regard.datasets.tatoeba_plain import tatoeba_plain
from regard.export.fast_tokenizer import fast_tokenizer, is_unigram, merges_of

LETTERS = "abcdeéèàçœ ,.!?'’\u202f\u00a0\u200b\u00ad\t\x85ABZ0123ßж漢字😀-e\u0301" + " " * 5


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_numbers_are_those_of_sentencepiece(kind: Literal["bpe", "unigram"]) -> None:
    split, draw = tatoeba_plain()["train"], random.Random(0)
    lines = split.source[:600] + split.target[:600]
    codec = SubwordCodec.train(lines, size=300, kind=kind)
    assert is_unigram(codec) == (kind == "unigram")
    plain, lower = fast_tokenizer(codec), fast_tokenizer(codec, lower=True)
    made = ["".join(draw.choice(LETTERS) for _ in range(draw.randrange(30))) for _ in range(600)]
    for text in (*split.source[5000:5200], *split.target[5000:5200], *made, "", "  "):
        ids = codec.encode_text(text)
        assert plain.encode(text).ids == [*ids, EOS]
        assert lower.encode(text).ids == [*codec.encode_text(text.lower()), EOS]
        if UNK not in ids:
            assert plain.decode(ids) == codec.decode_text(ids)


def test_merges_make_every_longer_piece() -> None:
    codec = SubwordCodec.train(["low lower lowest", "new newer newest"], size=24, kind="bpe")
    pieces = {codec._processor.id_to_piece(number) for number in range(UNK + 1, len(codec))}
    assert {left + right for left, right in merges_of(codec)} == {piece for piece in pieces if len(piece) > 1}
