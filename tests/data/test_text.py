"""Tokens, vocabularies and codecs: golden sentences in three languages, and what must hold for any text."""

import json
import os
import re
import subprocess
import sys
import unicodedata
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.base import ConfigError
from regard.data.parallel import DataError
from regard.data.text import (
    BOS,
    EOS,
    PAD,
    SPECIALS,
    UNK,
    Codec,
    SubwordCodec,
    Vocabulary,
    WordCodec,
    codec_from_json,
    detokenize,
    normalize_text,
    tokenize,
)

GOLDEN = {  # sentence: tokens, parted by spaces
    "Don't worry, it's John's.": "Don't worry , it's John's .",
    "“It’s o’clock,” she said; ‘really?’": "“ It's o'clock , ” she said ; ‘ really ? ’",
    '"I can\'t," he said - the dogs\' owner (a well-known man).':
        "\" I can't , \" he said - the dogs ' owner ( a well-known man ) .",
    "Mr. J. F. Kennedy left the U.S. at 12:30 p.m., i.e. late.":
        "Mr. J. F. Kennedy left the U.S. at 12:30 p.m. , i.e. late .",
    "No. See No. 5, vol. 2.": "No . See No. 5 , vol. 2 .",
    "So do I. We paid $1,000.50, €5 or 3.5%...": "So do I . We paid $ 1,000.50 , € 5 or 3.5 % ...",
    "pre- and post-war, 1990–1995, 20-year-old 1990s": "pre- and post-war , 1990–1995 , 20-year-old 1990s",
    "Write to foo.bar@example.org (see www.example.com/a?b=1).":
        "Write to foo.bar@example.org ( see www.example.com/a?b=1 ) .",
    "L'accord sur l'Espace économique européen, c'est-à-dire jusqu'à aujourd'hui.":
        "L' accord sur l' Espace économique européen , c' est-à-dire jusqu' à aujourd'hui .",
    "Qu’en dit-on aujourd’hui ?": "Qu' en dit-on aujourd'hui ?",
    "M. Dupont n'a-t-il pas dit « d'accord » à l'« Europe » de l'an 50 av. J.-C.?":
        "M. Dupont n' a-t-il pas dit « d' accord » à l' « Europe » de l' an 50 av . J.-C. ?",
    "Quelqu'un a vu l'œuvre ; s'il y a lorsqu'ils…": "Quelqu'un a vu l' œuvre ; s' il y a lorsqu' ils …",
    "Er sagte: „Das geht's nicht“, z.B. die Ein- und Ausfuhr der EU-Länder usw.":
        "Er sagte : „ Das geht's nicht “ , z.B. die Ein- und Ausfuhr der EU-Länder usw.",
    "Am 3. Mai (Art. 5 Abs. 2) kostet es 5 € bzw. 1.234,56 €, diese Art.":
        "Am 3 . Mai ( Art. 5 Abs. 2 ) kostet es 5 € bzw. 1.234,56 € , diese Art .",
    "c'mon, y'all and/or s'mores": "c'mon , y'all and / or s'mores",
}  # fmt: skip


@pytest.mark.parametrize("sentence", GOLDEN)
def test_golden_tokens_and_back(sentence: str) -> None:
    tokens = tokenize(sentence)
    assert tokens == GOLDEN[sentence].split()
    assert tokenize(" ".join(tokens)) == tokens
    back = detokenize(tokens)
    plain = re.sub(r"(?<=\w)’(?=\w)", "'", sentence)
    assert back == re.sub(r" (?=[;:!?…])", "", plain)
    assert tokenize(back) == tokens


def test_lower_case_and_normal_forms() -> None:
    assert tokenize("ÉTÉ à L'Île, Mr. STRASSE", lower=True) == ["été", "à", "l'", "île", ",", "mr.", "strasse"]
    assert tokenize(unicodedata.normalize("NFD", "Été à Zürich")) == ["Été", "à", "Zürich"]
    assert tokenize("co\u00adopé\u200bration\u00a0:\u202foui\x07non\tja\n") == ["coopération", ":", "oui", "non", "ja"]
    assert tokenize("") == tokenize(" \u2028 ") == []
    assert detokenize([]) == ""


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ('" a " , " b "', '"a", "b"'),
        ("„ a “ und ‚ b ‘ .", "„a“ und ‚b‘."),
        ("“ a ‘ b ’ ”", "“a ‘b’”"),
        ("it 's 5 % ( or 5 ° ) !", "it 's 5% (or 5°)!"),
        ("« Oui » , dit l' homme", "« Oui », dit l'homme"),
        ("wait ... ? !", "wait...?!"),
        ("a <unk> , b", "a <unk>, b"),
    ],
)
def test_detokenize(tokens: str, text: str) -> None:
    assert detokenize(tokens.split()) == text


ALPHABET = "aBéœßl0129 .,'’-‐:;/@!?«»„“”\"()…–€$\u0301\u00ad\n中"


@given(st.one_of(st.text(ALPHABET, max_size=40), st.text(st.characters(exclude_categories=["Cs"]), max_size=30)))
@settings(max_examples=25, deadline=None)
def test_any_text_keeps_its_characters_and_its_tokens(text: str) -> None:
    tokens = tokenize(text)
    assert tokenize(" ".join(tokens)) == tokens
    plain = str.maketrans("’‐‑", "'--")
    assert "".join(tokens).translate(plain) == normalize_text(text).replace(" ", "").translate(plain)
    assert not any(re.search(r"\s", token) or not token for token in tokens)
    assert detokenize(tokens).replace(" ", "") == "".join(tokens)


@pytest.mark.parametrize("piece", ["a+", "-", "a.", "'", "l'", "1.", "a@", "www."])
def test_tokenize_ends_on_long_text_without_spaces(piece: str) -> None:
    """Half a second each. In time that grows with the square of the length it would take hours, and be cut off."""
    tokens = tokenize(piece * 300_000)
    assert sum(map(len, tokens)) == 300_000 * len(piece)


def test_vocabulary_order_and_limits() -> None:
    sentences = [["b", "a", "c"], ["b", "a"], ["b", "d"], []]
    vocabulary = Vocabulary.build(sentences)
    assert vocabulary.tokens == (*SPECIALS, "b", "a", "c", "d")
    assert SPECIALS == ("<pad>", "<bos>", "<eos>", "<unk>")
    assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
    assert Vocabulary.build(reversed(sentences)) == vocabulary
    assert len(Vocabulary.build(sentences, max_size=6)) == 6
    assert Vocabulary.build(sentences, min_count=2).tokens[4:] == ("b", "a")
    assert vocabulary.encode(["a", "z"]) == [5, UNK]
    assert vocabulary.decode([BOS, 4, PAD, UNK, 5, EOS, 6]) == ["b", "<unk>", "a"]
    assert "a" in vocabulary
    assert "z" not in vocabulary
    assert Vocabulary.build(sentences, max_size=5).coverage(sentences) == 3 / 7
    assert vocabulary.coverage([]) == 1.0
    assert repr(vocabulary) == "Vocabulary(8 tokens)"
    assert hash(vocabulary) == hash(Vocabulary("bacd"))


def test_text_cannot_reach_a_special() -> None:
    vocabulary = Vocabulary.build([[*SPECIALS, "a"]])
    assert len(vocabulary) == 5
    assert vocabulary.encode(SPECIALS) == [UNK] * 4
    assert "<pad>" not in vocabulary
    assert vocabulary.coverage([["<eos>", "a"]]) == 0.5
    assert not {PAD, BOS, EOS} & set(WordCodec(vocabulary).encode_text("<pad> <bos> <eos> a"))


@given(st.lists(st.lists(st.text(max_size=5), max_size=6), max_size=6))
@settings(max_examples=25, deadline=None)
def test_vocabulary_round_trips(sentences: list[list[str]]) -> None:
    vocabulary = Vocabulary.build(sentences)
    for sentence in sentences:
        if not set(sentence) & set(SPECIALS):
            assert vocabulary.decode(vocabulary.encode(sentence)) == sentence
    assert Vocabulary.from_json(vocabulary.to_json()) == vocabulary


def test_vocabulary_errors() -> None:
    with pytest.raises(DataError, match="a vocabulary holds each token once: got 'a' twice"):
        Vocabulary(["a", "a"])
    with pytest.raises(DataError, match="got '<eos>' twice"):
        Vocabulary(["<eos>"])
    with pytest.raises(ConfigError, match="max_size: got 3; expected 4 or more"):
        Vocabulary.build([], max_size=3)
    for number in (4, -1):
        with pytest.raises(DataError, match=f"there is no such id: got {number}; expected 0 to 3"):
            Vocabulary([]).decode([number])
    message = "this is not what to_json wrote: got .*; expected JSON of kind vocabulary"
    wrong = ('{"kind": "vocabulary", "tokens": 3}', '{"kind": "vocabulary", "tokens": ["a", 3]}', '{"kind": []}')
    for text in ("", "[1]", "{}", '{"kind": "words"}', '{"kind": "vocabulary"}', "[" * 100_000, *wrong):
        with pytest.raises(DataError, match=message):
            Vocabulary.from_json(text)
    with pytest.raises(DataError) as caught:
        Vocabulary.from_json("root:x:0:0:root:/root:/bin/bash")
    assert str(caught.value) == (
        "this is not what to_json wrote: got 31 other characters; expected JSON of kind vocabulary"
    )


LINES = [
    "The agreement on the European Economic Area was signed in August 1992.",
    "L'accord sur la zone économique européenne a été signé en août 1992.",
    "Das Abkommen über den Europäischen Wirtschaftsraum wurde im August 1992 unterzeichnet.",
    "It should be noted that the marine environment is the least known of environments.",
    "Il convient de noter que l'environnement marin est le moins connu de l'environnement.",
    "Es ist anzumerken, dass die Meeresumwelt die am wenigsten bekannte Umwelt ist.",
] * 3


@pytest.fixture(scope="module", params=["words", "bpe", "unigram"])
def codec(request: pytest.FixtureRequest) -> WordCodec | SubwordCodec:
    if request.param == "words":
        return WordCodec.train(LINES)
    return SubwordCodec.train(LINES, size=110, kind=request.param)


def test_codecs_are_alike(codec: WordCodec | SubwordCodec) -> None:
    assert isinstance(codec, Codec)
    assert len(codec) > 70
    for line in LINES[:6]:
        ids = codec.encode_text(line)
        assert codec.decode_text(ids) == line
        assert codec.decode_text([BOS, *ids, EOS, 7, PAD]) == line
        assert len(codec.tokens(line)) == len(ids)
        assert codec.decode_tokens([BOS, *ids, EOS, PAD]) == codec.tokens(line)
        assert min(ids) > UNK
        assert max(ids) < len(codec)
    assert codec.encode_text(unicodedata.normalize("NFD", LINES[2])) == codec.encode_text(LINES[2])
    assert codec.encode_text("") == codec.encode_text(" \u200b") == codec.tokens("") == codec.decode_tokens([]) == []
    assert codec.decode_text([]) == codec.decode_text([EOS, 5]) == ""
    assert UNK in codec.encode_text("the 猫")
    assert "<unk>" in codec.decode_text(codec.encode_text("the 猫"))
    assert not {PAD, BOS, EOS} & set(codec.encode_text("<pad> <bos><eos></s>"))
    with pytest.raises(DataError, match=f"there is no such id: got {len(codec)}"):
        codec.decode_text([len(codec)])


def test_codecs_travel_as_json(codec: WordCodec | SubwordCodec) -> None:
    text = codec.to_json()
    json.loads(text)
    copy = codec_from_json(text)
    assert copy == codec
    assert [copy.encode_text(line) for line in LINES] == [codec.encode_text(line) for line in LINES]
    assert copy.to_json() == text


def test_word_codec_settings() -> None:
    codec = WordCodec.train(["The the THE cat"], lower=True, max_size=5)
    assert codec.vocabulary.tokens[4:] == ("the",)
    assert codec.encode_text("THE Cat") == [4, UNK]
    assert codec.tokens("THE Cat") == ["the", "cat"]
    assert codec_from_json(codec.to_json()) == codec


def test_subwords_know_their_specials_and_bytes() -> None:
    codec = SubwordCodec.train(LINES, size=100)
    assert len(codec) == 100
    assert codec.decode_tokens([UNK]) == ["<unk>"]
    assert SubwordCodec.from_bytes(codec.to_bytes()) == codec
    assert "▁" in codec.tokens("the")[0]
    assert SubwordCodec.train(LINES, size=100) == codec
    assert len(repr(codec)) < 100


def test_subwords_of_a_sample() -> None:
    lines = [f"{chr(97 + i % 26)}{chr(97 + i % 7)} word" for i in range(200)]
    some = [SubwordCodec.train(lines, size=30, max_lines=20, seed=seed).model for seed in (1, 1, 2)]
    assert some[0] == some[1] != some[2]


def test_training_is_silent_and_the_same_in_every_process() -> None:
    code = (
        "import sys, hashlib; from regard.data.text import SubwordCodec, WordCodec; lines = eval(sys.argv[1]);"
        "models = [SubwordCodec.train(lines, size=110, kind=kind) for kind in ('bpe', 'unigram')];"
        "print([hashlib.sha256(codec.to_json().encode()).hexdigest() for codec in (*models, WordCodec.train(lines))])"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "3"}
    command = [sys.executable, "-c", code, repr(LINES)]
    run = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    models = [SubwordCodec.train(LINES, size=110, kind="bpe"), SubwordCodec.train(LINES, size=110, kind="unigram")]
    here = [sha256(codec.to_json().encode()).hexdigest() for codec in (*models, WordCodec.train(LINES))]
    assert run.stdout == f"{here}\n"
    assert run.stderr == ""


def test_subword_errors() -> None:
    for size, text in {
        9000: r"SubwordCodec size: .* too high .* a value <= (\d+): got 9000. Try: choose size=\1\.$",
        10: r"SubwordCodec size: .* smaller than required_chars. 10 vs (\d+): got 10. Try: choose size=\1\.$",
        4: "SubwordCodec size: got 4; expected 5 or more",
        2**31 - 1: "SubwordCodec size: got 2147483647; expected at most 1,000,000",
    }.items():
        with pytest.raises(ConfigError, match=text):
            SubwordCodec.train(LINES, size=size)
    with pytest.raises(DataError, match="there is no text to train subwords on"):
        SubwordCodec.train(["", " "])
    with pytest.raises(DataError, match="this sentencepiece model does not fit: got no model; expected <pad> 0"):
        SubwordCodec(b"junk").encode_text("a")
    for text in ("", "{}", '{"kind": "vocabulary", "tokens": []}', '{"kind": "subwords"}'):
        with pytest.raises(DataError, match="expected JSON of kind words or subwords"):
            codec_from_json(text)


def test_other_sentencepiece_models_are_refused() -> None:
    import io

    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, vocab_size=100, minloglevel=2
    )
    with pytest.raises(DataError, match=r"does not fit: got special ids \[-1, 1, 2, 0\]; expected <pad> 0"):
        len(SubwordCodec(model.getvalue()))


@pytest.mark.bare
def test_unknown_kind() -> None:
    with pytest.raises(ConfigError, match="SubwordCodec kind: got 'wordpiece'; expected one of bpe, unigram"):
        SubwordCodec.train(LINES, kind="wordpiece")  # type: ignore[arg-type]
