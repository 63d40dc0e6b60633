from pathlib import Path

import pytest

from regard.base import ConfigError, RegardError, Unfollowed
from regard.data import ParallelText, WordCodec
from regard.tasks.parallel_text import (
    cased,
    check_corpus,
    learn_subwords,
    learn_words,
    load_units,
    own_files,
    read_corpus,
    read_files,
    save_units,
    token_ids,
)

TEXT = ParallelText(["the cat sat", "the dog ran"] * 20, ["le chat assis", "le chien court"] * 20, {})


def test_corpora_are_on_a_menu() -> None:
    check_corpus("multi30k")
    check_corpus("files")
    with pytest.raises(ConfigError, match=r"task\.corpus: got 'multi3k'.*Did you mean 'multi30k'"):
        check_corpus("multi3k")
    with pytest.raises(ConfigError, match=r"task\.corpus: got 'newstest'"):
        check_corpus("newstest")  # it is for tests alone


def test_languages_that_a_corpus_has() -> None:
    assert set(read_corpus("tatoeba_plain", "en", "fr")) == {"train", "valid", "test"}
    with pytest.raises(ConfigError, match="languages of tatoeba_plain: got en → de; expected en → fr"):
        read_corpus("tatoeba_plain", "en", "de")


def test_files_are_split_by_their_sentences(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"sentence {n}\tphrase {n}\n" for n in range(60)))
    splits = read_files(own_files(str(path), None), "error")
    assert sum(text.size for text in splits.values()) == 60
    assert not set(splits["train"].source) & set(splits["test"].source)
    with pytest.raises(ConfigError, match="corpus='files' needs files"):
        own_files(None, None)
    for side in ("en", "fr"):
        for number in range(2):
            (tmp_path / f"c.{number}.{side}").write_text("".join(f"{side} {number} {n}\n" for n in range(30)))
    patterns = str(tmp_path / "c.*.en"), str(tmp_path / "c.*.fr")
    named = tuple(str(tmp_path / f"c.{number}.en") for number in range(2))
    assert own_files(*patterns)[0] == list(named) == own_files(named, patterns[1])[0]
    several = read_files(own_files(*patterns), "error")
    pairs = [pair for text in several.values() for pair in zip(text.source, text.target, strict=True)]
    assert sorted(pairs) == [(f"en {m} {n}", f"fr {m} {n}") for m in range(2) for n in sorted(range(30), key=str)]
    for path in (Unfollowed(named[0]), (Unfollowed(named[0]), named[1])):
        with pytest.raises(RegardError, match=r"paths are not followed: got .*c.0.en'"):
            own_files(path, patterns[1])


def test_units_come_back_from_a_folder(tmp_path: Path) -> None:
    words = learn_words(TEXT, vocabulary=None, min_count=1, lower=False)
    save_units(tmp_path / "words", words)
    source, target = load_units(tmp_path / "words", shared=False)
    assert source.encode_text("the cat") == words[0].encode_text("the cat")
    assert target.encode_text("le chat") == words[1].encode_text("le chat")
    pieces = learn_subwords(TEXT, units="bpe", vocabulary=40, joint=True, lower=True)
    assert pieces[0] is pieces[1]
    save_units(tmp_path / "pieces", pieces)
    assert sorted(path.name for path in (tmp_path / "pieces").iterdir()) == ["source.json"]
    shared, same = load_units(tmp_path / "pieces", shared=True)
    assert shared is same
    with pytest.raises(RegardError, match=r"target\.json cannot be read: got no such file"):
        load_units(tmp_path / "pieces", shared=False)


def test_tokens_become_their_numbers_again() -> None:
    codec, _ = learn_words(TEXT, vocabulary=None, min_count=1, lower=False)
    assert isinstance(codec, WordCodec)
    assert token_ids(codec, ["the", "cat", "never"]) == [*codec.vocabulary.encode(["the", "cat"]), 3]
    pieces, _ = learn_subwords(TEXT, units="bpe", vocabulary=40, joint=False, lower=False)
    assert token_ids(pieces, pieces.tokens("the cat")) == pieces.encode_text("the cat")


def test_a_vocabulary_that_is_too_small_is_told() -> None:
    with pytest.raises(ConfigError, match=r"task\.vocabulary=\d+, or task\.units=words"):
        learn_subwords(TEXT, units="bpe", vocabulary=5, joint=False, lower=False)


def test_small_letters() -> None:
    assert cased(["Ab"], True) == ["ab"]
    assert cased(["Ab"], False) == ["Ab"]
