"""Measures of captions: golden values, properties, and what pycocoevalcap 1.2 gave on the same tokens."""

import math

import pytest

from regard.base import ConfigError, ImplementationUnavailable, RegardError
from regard.metrics import captions
from regard.metrics.captions import (
    caption_bleu,
    cider,
    meteor,
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
    judged = score_captions(
        HYPOTHESES, REFERENCES, metrics=("bleu", "cider", "meteor_exact_stem")
    )  # the last was removed
    assert judged.figures["bleu_4"] == caption_bleu(HYPOTHESES, REFERENCES).plain[3]
    assert judged.figures["bleu_4_brevity"] == caption_bleu(HYPOTHESES, REFERENCES).penalised[3]
    assert judged.figures["cider"] == cider(HYPOTHESES, REFERENCES).score
    assert set(judged.signatures) == {"bleu", "bleu_brevity", "cider"}
    assert judged.signatures["bleu"].endswith("bp:no")


def test_wrong_calls() -> None:
    with pytest.raises(ConfigError, match="unknown metric: got 'spice'"):
        score_captions(HYPOTHESES, REFERENCES, metrics=("spice",))
    with pytest.raises(RegardError, match="differ in number"):
        cider(HYPOTHESES, REFERENCES[1:])
    with pytest.raises(RegardError, match="no hypotheses"):
        caption_bleu([], [])


def test_duplicating_everything_changes_no_corpus_figure() -> None:
    twice, once = caption_bleu(HYPOTHESES * 2, REFERENCES * 2), caption_bleu(HYPOTHESES, REFERENCES)
    assert twice.plain == pytest.approx(once.plain)
