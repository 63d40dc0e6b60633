"""Our sub-words as tokenizer.json, the format of the library tokenizers: the same rules for text, the same pieces.

The merges of a BPE model of sentencepiece are not stored; they follow from its pieces. Two neighbours are joined where
the result is a piece, best piece first, so every way to cut a piece in two is a merge, in the order of the pieces.

One thing differs: a unigram model takes a special token that stands in a text, such as <eos>, for the token itself.
"""

from typing import Any

from regard.base import require
from regard.data import BOS, EOS, PAD, SPECIALS, UNK, SubwordCodec

_INVISIBLE, _CONTROL = "[\u00ad\u200b\u2060\ufeff]", "[\\x00-\\x1f\x7f-\x9f]"  # as in data/tokenizing.py
_SPACES = "[ \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"


def fast_tokenizer(codec: SubwordCodec, *, lower: bool = False) -> Any:
    """A `tokenizers.Tokenizer` that gives the numbers of `codec`, and <eos> at the end of each text."""
    tokenizers = require("tokenizers", extra="transformers")
    normalizers, processor = tokenizers.normalizers, codec._processor
    pieces = [(processor.id_to_piece(number), processor.get_score(number)) for number in range(len(codec))]
    if is_unigram(codec):
        model = tokenizers.models.Unigram(pieces, unk_id=UNK, byte_fallback=False)
    else:
        numbers = {piece: number for number, (piece, _) in enumerate(pieces)}
        model = tokenizers.models.BPE(numbers, merges_of(codec), unk_token=SPECIALS[UNK], fuse_unk=True)
    tokenizer = tokenizers.Tokenizer(model)
    rules = [
        *([normalizers.Lowercase()] if lower else []),
        normalizers.Replace(tokenizers.Regex(_INVISIBLE), ""),
        normalizers.Replace(tokenizers.Regex(_CONTROL), " "),
        normalizers.NFC(),
        normalizers.Replace(tokenizers.Regex(_SPACES), " "),
        normalizers.Strip(),
    ]
    tokenizer.normalizer = normalizers.Sequence(rules)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    tokenizer.decoder = tokenizers.decoders.Metaspace(prepend_scheme="always", split=True)
    end = SPECIALS[EOS]
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"$A {end}", pair=f"$A {end} $B {end}", special_tokens=[(end, EOS)]
    )
    tokenizer.add_special_tokens([tokenizers.AddedToken(SPECIALS[number], special=True) for number in (PAD, BOS, EOS)])
    return tokenizer


def is_unigram(codec: SubwordCodec) -> bool:
    """Whether a codec is a unigram model: its scores are log-probabilities, those of BPE are 0, −1, −2, …"""
    processor = codec._processor
    scores = [processor.get_score(number) for number in range(UNK + 1, len(codec))]
    return scores != [-float(number) for number in range(len(scores))]


def merges_of(codec: SubwordCodec) -> list[tuple[str, str]]:
    """Every way to join two pieces to a third one, best piece first.

    Single characters that are pieces by themselves have no merge; of two ways to the same piece, the one whose left
    half is the better piece comes first.
    """
    processor = codec._processor
    scores = {
        processor.id_to_piece(number): processor.get_score(number)
        for number in range(UNK + 1, len(codec))
        if not processor.is_unused(number)
    }
    merges = []
    for piece in sorted(scores, key=lambda piece: -scores[piece]):
        cuts = [(piece[:place], piece[place:]) for place in range(1, len(piece))]
        known = [cut for cut in cuts if cut[0] in scores and cut[1] in scores]
        merges += sorted(known, key=lambda cut: -scores[cut[0]])
    return merges
