"""BLEU and chrF, by golden values and against sacreBLEU."""

import random
import re
from fractions import Fraction
from typing import Any

import pytest
import sacrebleu

from regard import __version__
from regard.base import ConfigError, MissingExtra, RegardError
from regard.metrics import Bleu, Bucket, bleu, bleu_by_length, chrf, clipped_precision, tokenized_bleu


def words(text: str) -> list[str]:
    return text.split()


CANDIDATE = words("It is a guide to action which ensures that the military always obeys the commands of the party")
REFERENCES = [
    words("It is a guide to action that ensures that the military will forever heed Party commands"),
    words(
        "It is the guiding principle which guarantees the military forces always being under the command of the Party"
    ),
    words("It is the practical guide for the army always to heed the directions of the party"),
]
READ = words("he read the book because he was interested in world history")
READ_REFERENCE = words("he was interested in world history because he read the book")


def corpus(size: int, seed: int) -> tuple[list[list[str]], list[list[list[str]]]]:
    """Hypotheses near to one to three references each."""
    chance = random.Random(seed)
    words = [f"w{number}" for number in range(12)]
    hypotheses, references = [], []
    for _ in range(size):
        sentence = chance.choices(words, k=chance.randint(6, 20))

        def spoiled(sentence: list[str] = sentence) -> list[str]:
            kept = [word for word in sentence if chance.random() > 0.08]
            return [chance.choice(words) if chance.random() < 0.15 else word for word in kept] or ["w0"]

        hypotheses.append(spoiled())
        references.append([sentence, *(spoiled() for _ in range(chance.randint(0, 2)))])
    return hypotheses, references


# ── our own ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_example_of_papineni() -> None:
    found = tokenized_bleu([CANDIDATE], [REFERENCES])
    assert found.score == pytest.approx(50.4567, abs=5e-5)
    assert (found.hypothesis_length, found.reference_length, found.brevity) == (18, 18, 1.0)


def test_corpus_bleu_is_not_the_mean_of_sentences() -> None:
    pairs = [(CANDIDATE, REFERENCES), (READ, [READ_REFERENCE])]
    whole = tokenized_bleu([READ, CANDIDATE], [[READ_REFERENCE], REFERENCES])
    mean = sum(tokenized_bleu([hypothesis], [references]).score for hypothesis, references in pairs) / 2
    assert whole.score == pytest.approx(59.2078, abs=5e-5)
    assert mean == pytest.approx(62.2325, abs=5e-5)


@pytest.mark.parametrize(("order", "expected"), [(1, 85.7143), (2, 75.5929), (3, 61.1421), (4, 48.8923)])
def test_orders(order: int, expected: float) -> None:
    hypothesis, reference = words("the cat was sat on the mat"), words("the cat sat on the mat")
    found = tokenized_bleu([hypothesis], [[reference]], max_order=order)
    assert found.score == pytest.approx(expected, abs=5e-5)
    assert len(found.precisions) == order


def test_identical_is_a_hundred() -> None:
    hypotheses, _ = corpus(10, 0)
    assert tokenized_bleu(hypotheses, [[hypothesis] for hypothesis in hypotheses]).score == pytest.approx(100)
    lines = [" ".join(hypothesis) for hypothesis in hypotheses]
    assert bleu(lines, [[line] for line in lines]).score == pytest.approx(100)
    assert chrf(lines, [[line] for line in lines]).score == pytest.approx(100)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("lower", [False, True])
def test_equals_sacrebleu_on_the_same_tokens(seed: int, lower: bool) -> None:
    hypotheses, references = corpus(30, seed)
    hypotheses = [[word.upper() if place % 5 == 0 else word for place, word in enumerate(line)] for line in hypotheses]
    found = tokenized_bleu(hypotheses, references, lower=lower)
    lines = [" ".join(line) for line in hypotheses], [[" ".join(line) for line in several] for several in references]
    expected = bleu(*lines, tokenize="none", lower=lower)
    assert found.score == pytest.approx(expected.score)
    assert found.precisions == pytest.approx(expected.precisions)
    assert found[2:5] == pytest.approx(expected[2:5])


def test_no_smoothing_and_no_tokens() -> None:
    assert tokenized_bleu([["a", "b"]], [[["a", "b"]]]).score == 0  # no 3-grams
    nothing = tokenized_bleu([[]], [[["a", "b"]]])
    assert (nothing.score, nothing.brevity, nothing.hypothesis_length) == (0, 0, 0)
    assert tokenized_bleu([["x"] * 5], [[["a"] * 5]]).precisions == (0, 0, 0, 0)
    assert tokenized_bleu([[]], [[[]]]).score == 0


def test_the_closest_reference_counts_and_of_two_the_shorter() -> None:
    hypothesis = ["a"] * 10
    for lengths, expected in (((8, 12), 8), ((12, 8), 8), ((5, 11), 11), ((10, 2), 10)):
        found = tokenized_bleu([hypothesis], [[["a"] * length for length in lengths]])
        assert found.reference_length == expected


def test_brevity() -> None:
    found = tokenized_bleu([READ[:8]], [[READ]])
    assert found.brevity == pytest.approx(2.718281828 ** (1 - 11 / 8))
    assert found.score == pytest.approx(100 * found.brevity)


@pytest.mark.parametrize("seed", range(5))
def test_a_corpus_twice_has_the_same_score(seed: int) -> None:
    hypotheses, references = corpus(10, seed)
    once, twice = tokenized_bleu(hypotheses, references), tokenized_bleu(hypotheses * 2, references * 2)
    assert twice.score == pytest.approx(once.score)
    assert twice.hypothesis_length == 2 * once.hypothesis_length


def test_clipping() -> None:
    references = [words("the cat is on the mat"), words("there is a cat on the mat")]
    assert clipped_precision(["the"] * 7, references) == Fraction(2, 7)
    assert clipped_precision(["the"] * 7, references, 2) == 0
    assert clipped_precision(["the"], references, 4) == 0
    assert clipped_precision(CANDIDATE, REFERENCES) == Fraction(17, 18)
    assert clipped_precision(CANDIDATE, REFERENCES, 2) == Fraction(10, 17)


@pytest.mark.parametrize("seed", range(5))
def test_another_reference_never_lowers_the_matches(seed: int) -> None:
    hypotheses, references = corpus(20, seed)
    for hypothesis, several in zip(hypotheses, references, strict=True):
        for order in (1, 2, 3, 4):
            found = [clipped_precision(hypothesis, several[:count], order) for count in range(1, len(several) + 1)]
            assert found == sorted(found)


# ── sacreBLEU ───────────────────────────────────────────────────────────────────────────────────────────────────────

LINES = ["The cat sat on the mat, quietly.", "It's a dog's life, isn't it?"]
TRUTH = [["The cat sat on the mat, very quietly."], ["It is a dog's life, isn't it?", "It's a dog's life."]]


def test_bleu_is_sacrebleu() -> None:
    found = bleu(LINES, TRUTH)
    expected = sacrebleu.corpus_bleu(LINES, [[TRUTH[0][0], TRUTH[1][0]], [None, TRUTH[1][1]]])
    assert found.score == pytest.approx(expected.score)
    assert (found.hypothesis_length, found.reference_length) == (expected.sys_len, expected.ref_len)
    assert bleu(LINES, TRUTH, tokenize="char").score > found.score
    assert bleu([line.upper() for line in LINES], TRUTH).score < 10
    assert bleu([line.upper() for line in LINES], TRUTH, lower=True).score == pytest.approx(found.score)


def test_chrf_is_sacrebleu() -> None:
    streams = [[TRUTH[0][0], TRUTH[1][0]], [None, TRUTH[1][1]]]
    assert chrf(LINES, TRUTH).score == pytest.approx(sacrebleu.corpus_chrf(LINES, streams).score)
    plus = chrf(LINES, TRUTH, word_order=2)
    assert plus.score == pytest.approx(sacrebleu.corpus_chrf(LINES, streams, word_order=2).score)
    assert "nw:2" in plus.signature


def test_signatures() -> None:
    version = sacrebleu.__version__
    single = [[several[0]] for several in TRUTH]
    assert bleu(LINES, single).signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}"
    other = bleu(LINES, TRUTH, tokenize="intl", lower=True).signature
    assert other == f"nrefs:var|case:lc|eff:no|tok:intl|smooth:exp|version:{version}"
    assert chrf(LINES, single).signature == f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{version}"
    ours = tokenized_bleu([CANDIDATE], [REFERENCES]).signature
    assert ours == f"nrefs:3|case:mixed|eff:no|tok:given|smooth:none|order:4|version:regard-{__version__}"
    ours = tokenized_bleu([CANDIDATE, READ], [REFERENCES, [READ]], lower=True, max_order=2).signature
    assert ours == f"nrefs:var|case:lc|eff:no|tok:given|smooth:none|order:2|version:regard-{__version__}"


def test_without_sacrebleu_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str, *, extra: str) -> Any:
        raise MissingExtra(f"this needs {module}", cure=f"the extra {extra}")

    monkeypatch.setattr("regard.metrics.translation.require", missing)
    for metric in (bleu, chrf):
        with pytest.raises(MissingExtra, match=r"sacrebleu.*the extra text"):
            metric(LINES, TRUTH)
    assert isinstance(tokenized_bleu([CANDIDATE], [REFERENCES]), Bleu)  # ours needs nothing


# ── by length ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_buckets() -> None:
    hypotheses, references = corpus(12, 1)
    lengths = [0, 5, 10, 11, 20, 20, 21, 3, 7, 12, 99, 1]
    found = bleu_by_length(hypotheses, references, lengths, edges=(10, 20, 30, 40), metric=tokenized_bleu)
    assert [(bucket.low, bucket.high, bucket.count) for bucket in found] == [
        (0, 10, 6),
        (11, 20, 4),
        (21, 30, 1),
        (31, 40, 0),
        (41, None, 1),
    ]
    assert found[3] == Bucket(31, 40, 0, None)
    middle = [place for place, length in enumerate(lengths) if 10 < length <= 20]
    assert found[1].bleu == tokenized_bleu(
        [hypotheses[place] for place in middle], [references[place] for place in middle]
    )


def test_one_bucket_is_all() -> None:
    [whole, rest] = bleu_by_length(LINES, TRUTH, [7, 6], edges=(100,))
    assert whole.bleu == bleu(LINES, TRUTH)
    assert rest == Bucket(101, None, 0, None)


# ── mistakes ────────────────────────────────────────────────────────────────────────────────────────────────────────

MISTAKES: dict[str, tuple[Any, str]] = {
    "no hypotheses": (lambda: bleu([], []), "there are no hypotheses"),
    "no tokens": (lambda: tokenized_bleu([], []), "there are no hypotheses"),
    "a string": (lambda: bleu("the cat", [["the cat"]]), "hypotheses must be a list: got a string"),
    "a string of references": (lambda: chrf(["the cat"], "the cat"), "references must be a list: got a string"),
    "flat references": (
        lambda: bleu(["the cat"], ["the cat"]),
        "references[0] must be a list of references: got a string; expected strings in a list."
        " Try: write [[reference] for reference in references] if there is one for each.",
    ),
    "flat tokens": (
        lambda: tokenized_bleu([["the"]], [["the"]]),
        "references[0] must be a list of references: got a list of strings; expected lists of tokens in a list",
    ),
    "unequal": (lambda: bleu(["a", "b"], [["a"]]), "hypotheses and references differ in number: got 2 and 1"),
    "transposed": (lambda: bleu(["a", "b", "c"], [["a", "b", "c"]]), "differ in number: got 3 and 1"),
    "none": (lambda: bleu(["a", "b"], [["a"], []]), "references[1] is empty"),
    "text for tokens": (lambda: tokenized_bleu(["the cat"], [[["the"]]]), "sentence 0 is not a list of tokens"),
    "one sentence": (lambda: clipped_precision("the the", [["the"]]), "sentence 0 is not a list of tokens"),
    "tokenizer": (lambda: bleu(["a"], [["a"]], tokenize="moses"), "tokenize: got 'moses'; expected one of 13a, char"),
    "order": (lambda: tokenized_bleu([["a"]], [[["a"]]], max_order=0), "max_order: got 0"),
    "precision order": (lambda: clipped_precision(["a"], [["a"]], 0), "order: got 0"),
    "lengths": (lambda: bleu_by_length(["a"], [["a"]], [1, 2]), "source_lengths: got 2; expected 1"),
    "edges": (lambda: bleu_by_length(["a"], [["a"]], [1], edges=(20, 10)), "edges: got [20, 10]"),
    "no edges": (lambda: bleu_by_length(["a"], [["a"]], [1], edges=()), "edges: got []"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named(mistake: str) -> None:
    call, text = MISTAKES[mistake]
    with pytest.raises(RegardError, match=re.escape(text)) as caught:
        call()
    assert isinstance(caught.value, ConfigError) == (
        mistake in {"tokenizer", "order", "precision order", "edges", "no edges"}
    )


def test_tokens_for_text() -> None:
    with pytest.raises((RegardError, TypeError)):  # the import hook may be faster
        bleu([["the", "cat"]], [["the cat"]])
