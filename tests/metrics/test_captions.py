"""Measures of captions: golden values, properties, and what pycocoevalcap 1.2 gave on the same tokens."""

import math
import random

import pytest

from regard.base import ConfigError, ImplementationUnavailable, RegardError
from regard.metrics import captions
from regard.metrics.captions import (
    Matched,
    caption_bleu,
    cider,
    match_words,
    meteor,
    meteor_exact_stem,
    reason_against_meteor,
    score_captions,
)

HYPOTHESES = [line.split() for line in ("a dog runs across the green grass", "two men are sitting on a bench",
                                        "a girl in a pink dress is smiling", "a dog jumps over a fence")]  # fmt: skip
REFERENCES = [
    [line.split() for line in several]
    for several in (
        ("a brown dog runs through the grass", "the dog is running across a green field", "a dog running on grass"),
        ("two men sit on a park bench", "a couple of men sitting on a bench talking", "two guys on a bench"),
        ("a little girl wearing a pink dress smiles", "a smiling girl in pink", "the girl in the pink dress laughs"),
        ("a black dog is jumping over a wooden fence", "a dog leaps over the fence", "dog jumping a hurdle"),
    )
]

BLEU = (89.285714279, 63.970789460, 39.447385710, 24.887637604)  # pycocoevalcap 1.2 on the captions above
CIDER = 200.997457706


def words(text: str) -> list[str]:
    return text.split()


# ── BLEU ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_bleu_of_pycocoevalcap() -> None:
    found = caption_bleu(HYPOTHESES, REFERENCES)
    assert found.penalised == pytest.approx(BLEU, abs=1e-6)
    assert found.signature.startswith("nrefs:3|case:lc|eff:no|tok:given|smooth:none|order:1-4")


def test_the_signature_says_whether_letters_were_made_small() -> None:
    mixed = [[["A"], *several] for several in REFERENCES]
    assert "|case:mixed|" in caption_bleu(HYPOTHESES, mixed).signature
    assert "|case:mixed|" in caption_bleu([[*HYPOTHESES[0], "Dog"], *HYPOTHESES[1:]], REFERENCES).signature
    assert "|case:lc|" in score_captions(HYPOTHESES, REFERENCES, metrics=("bleu",)).signatures["bleu"]


def test_bleu_without_the_penalty() -> None:
    short = [caption[:4] for caption in HYPOTHESES]
    found = caption_bleu(short, REFERENCES)
    assert found.brevity < 1
    assert found.penalised == pytest.approx([found.brevity * value for value in found.plain])
    assert found.plain[0] == pytest.approx(100 * 14 / 16)


def test_bleu_falls_with_order_and_is_zero_without_a_match() -> None:
    plain = caption_bleu(HYPOTHESES, REFERENCES).plain
    assert list(plain) == sorted(plain, reverse=True)
    assert caption_bleu([words("x y")], [[words("a b")]]).plain == (0, 0, 0, 0)
    assert caption_bleu([words("a x")], [[words("a b")]]).plain == pytest.approx((50, 0, 0, 0))


# ── CIDEr ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_cider_of_pycocoevalcap() -> None:
    found = cider(HYPOTHESES, REFERENCES)
    assert found.score == pytest.approx(CIDER, abs=1e-6)
    assert found.signature.startswith("cider-d|nrefs:3|tok:given|n:4|sigma:6|df:references")


def test_cider_of_the_only_reference_is_a_thousand() -> None:
    pictures = [[words("a dog runs on the grass")], [words("two men sit down there")], [words("one red car is old")]]
    assert cider([several[0] for several in pictures], pictures).score == pytest.approx(1000)


def test_cider_counts_what_is_rare_and_punishes_length() -> None:
    pictures = [[words("a brown dog runs far")], [words("a brown cat sleeps now")], [words("a brown cow eats grass")]]
    rare = cider([words("dog"), words("x"), words("x")], pictures).score
    common = cider([words("a"), words("x"), words("x")], pictures).score
    assert rare > common == 0
    long = [several[0] + several[0] for several in pictures]
    assert cider(long, pictures).score < 1000 * math.exp(-(5**2) / (2 * 6**2)) + 1e-9


def test_cider_of_nothing() -> None:
    assert cider([[], []], [[words("a b")], [words("c d")]]).score == 0


# ── METEOR ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_meteor_2005_golden() -> None:
    found = match_words(words("the cat was sat on the mat"), words("the cat sat on the mat"))
    assert found == Matched(6, 2, 7, 6)
    assert found.score == pytest.approx(0.965392, abs=1e-6)
    same = words("the cat sat on the mat")
    assert match_words(same, same).score == pytest.approx(1 - 0.5 / 6**3)
    assert match_words(same, same).score == pytest.approx(0.997685, abs=1e-6)
    assert match_words(words("a b c d e f"), words("b c f a d e")).score > 0.5
    assert match_words(words("f e d c b a"), words("a b c d e f")).score == pytest.approx(0.5)
    assert match_words(words("x y"), words("a b")).score == 0
    assert match_words([], words("a")).score == 0


def test_stems_match_after_equal_words() -> None:
    assert match_words(words("dogs running"), words("a dog runs")).matches == 2
    assert match_words(words("dogs dog"), words("dog")).matches == 1
    assert match_words(words("dogs x dog"), words("dog x dogs")) == Matched(3, 3, 3, 3)  # equal words first


def test_as_few_chunks_as_possible() -> None:
    assert match_words(words("the x the cat"), words("the cat")).chunks == 1
    assert match_words(words("a b a b c"), words("a b c a b")) == Matched(5, 2, 5, 5)


def fewest(hypothesis: list[str], reference: list[str]) -> tuple[int, int]:
    """Most matches, then fewest chunks, by trying everything."""

    def go(i: int, used: frozenset[int], last: int | None) -> tuple[int, int]:
        if i == len(hypothesis):
            return 0, 0
        best = go(i + 1, used, None)
        for j, word in enumerate(reference):
            if word == hypothesis[i] and j not in used:
                matches, minus = go(i + 1, used | {j}, j)
                best = max(best, (matches + 1, minus - (last is None or j != last + 1)))
        return best

    matches, minus = go(0, frozenset(), None)
    return matches, -minus


def test_matching_equals_trying_everything() -> None:
    chance = random.Random(0)
    for _ in range(60):
        pair = [[chance.choice("abc") for _ in range(chance.randint(1, 6))] for _ in range(2)]
        assert match_words(*pair)[:2] == fewest(*pair)


def test_meteor_takes_the_best_reference_and_sums_over_the_set() -> None:
    one = [words("a dog runs")], [[words("x y z"), words("a dog runs"), words("a dog")]]
    assert meteor_exact_stem(*one).score == pytest.approx(100 * (1 - 0.5 / 27))
    both = meteor_exact_stem([*one[0], words("x")], [*one[1], [words("y")]])
    assert both.score == pytest.approx(100 * Matched(3, 1, 4, 4).score)
    assert both.signature.startswith("meteor-2005|nrefs:var|tok:given|match:exact,porter")


def test_scrambling_keeps_matches_and_lowers_the_score() -> None:
    text = words("a man is riding a bicycle along the beach")
    mixed = text[::-1]
    assert match_words(mixed, text).matches == len(text)
    assert match_words(mixed, text).score < match_words(text, text).score
    assert caption_bleu([mixed], [[text]]).plain[0] == 100
    assert caption_bleu([mixed], [[text]]).plain[1] < 50


def test_why_meteor_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captions.shutil, "which", lambda name: None)
    monkeypatch.setattr(captions, "find_spec", lambda name: None)
    assert reason_against_meteor() == "there is no Java and pycocoevalcap is not installed"
    with pytest.raises(ImplementationUnavailable, match=r"METEOR 1\.5 cannot run here: there is no Java"):
        meteor(HYPOTHESES, REFERENCES)
    judged = score_captions(HYPOTHESES, REFERENCES)
    assert "meteor" not in judged.figures
    assert judged.missing == {"meteor": "there is no Java and pycocoevalcap is not installed"}
    monkeypatch.undo()
    monkeypatch.setattr(captions.shutil, "which", lambda name: "/usr/bin/java")
    monkeypatch.setattr(captions, "find_spec", lambda name: object())
    assert reason_against_meteor() is None


# ── together ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_all_at_once() -> None:
    judged = score_captions(HYPOTHESES, REFERENCES, metrics=("bleu", "cider", "meteor_exact_stem"))
    assert judged.figures["bleu_4"] == caption_bleu(HYPOTHESES, REFERENCES).plain[3]
    assert judged.figures["bleu_4_brevity"] == caption_bleu(HYPOTHESES, REFERENCES).penalised[3]
    assert judged.figures["cider"] == cider(HYPOTHESES, REFERENCES).score
    assert set(judged.signatures) == {"bleu", "bleu_brevity", "cider", "meteor_exact_stem"}
    assert judged.signatures["bleu"].endswith("bp:no")


def test_wrong_calls() -> None:
    with pytest.raises(ConfigError, match="unknown metric: got 'spice'"):
        score_captions(HYPOTHESES, REFERENCES, metrics=("spice",))
    with pytest.raises(RegardError, match="differ in number"):
        cider(HYPOTHESES, REFERENCES[1:])
    with pytest.raises(RegardError, match="no hypotheses"):
        meteor_exact_stem([], [])


def test_duplicating_everything_changes_no_corpus_figure() -> None:
    for measure in (caption_bleu, meteor_exact_stem):
        assert measure(HYPOTHESES * 2, REFERENCES * 2)[0] == pytest.approx(measure(HYPOTHESES, REFERENCES)[0])
