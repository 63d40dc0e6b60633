"""One tokeniser for raw and for tokenised English."""

import random

import pytest

from regard.data import EnglishWords, codec_from_json, english_tokens

PAIRS = [
    ("The man's dog doesn't bark.", "The man 's dog does n't bark ."),
    ("I can't, I won't, I've seen they're late!", "I ca n't , I wo n't , I 've seen they 're late !"),
    ('He said "no" (twice).', "He said `` no '' -LRB- twice -RRB- ."),
    ("I cannot say it’s bad", "I can not say it 's bad"),
    ("“Don’t!”", "`` Do n't ! ''"),
    ("either/or", r"either \/ or"),
]


@pytest.mark.parametrize(("raw", "tokenised"), PAIRS)
def test_raw_and_tokenised_text_give_the_same_words(raw: str, tokenised: str) -> None:
    assert english_tokens(raw) == english_tokens(tokenised)


def test_clitics_are_words() -> None:
    assert english_tokens("DON'T they'll John's") == ["DO", "N'T", "they", "'ll", "John", "'s"]
    assert english_tokens("'s n't") == english_tokens(" ".join(english_tokens("'s n't")))
    assert english_tokens("rock 'n' roll in the '90s")[-1] == "90s"


def test_tokens_joined_by_spaces_give_the_same_tokens() -> None:
    source = random.Random(0)
    pieces = [
        "don't",
        "man's",
        "cannot",
        "``",
        "''",
        "-LRB-",
        "U.S.",
        "3.5%",
        "’",
        "'",
        "n't",
        "'s",
        "a-b",
        "…",
        "x",
        "\\/",
    ]
    for _ in range(500):
        text = " ".join(source.choices(pieces, k=6)) if source.random() < 0.5 else "".join(source.choices(pieces, k=4))
        once = english_tokens(text)
        assert english_tokens(" ".join(once)) == once, text


def test_words_are_numbered_and_stored() -> None:
    codec = EnglishWords.train(["It isn't good", "it is"], lower=True)
    assert codec.tokens("IT ISN'T") == ["it", "is", "n't"]
    assert 3 not in codec.encode_text("it isn't good")
    stored = codec_from_json(codec.to_json())
    assert EnglishWords(stored.vocabulary, stored.lower) == codec  # type: ignore[union-attr]
    assert len(EnglishWords.train(["a b c d"], max_size=6)) == 6
    assert len(EnglishWords.train(["a b b"], min_count=2)) == 5
