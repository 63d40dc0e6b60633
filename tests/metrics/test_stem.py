"""Porter's stemmer, by the examples of his paper."""

import pytest

from regard.metrics.stem import stem

EXAMPLES = """
caresses caress, ponies poni, ties ti, caress caress, cats cat, feed feed, agreed agre, plastered plaster, bled bled,
motoring motor, sing sing, conflated conflat, troubled troubl, sized size, hopping hop, tanned tan, falling fall,
hissing hiss, fizzed fizz, failing fail, filing file, happy happi, sky sky, relational relat, conditional condit,
rational ration, valenci valenc, hesitanci hesit, digitizer digit, conformabli conform, radicalli radic, differentli
differ, vileli vile, analogousli analog, vietnamization vietnam, predication predic, operator oper, feudalism feudal,
decisiveness decis, hopefulness hope, callousness callous, formaliti formal, sensitiviti sensit, sensibiliti sensibl,
triplicate triplic, formative form, formalize formal, electriciti electr, electrical electr, hopeful hope,
goodness good, revival reviv, allowance allow, inference infer, airliner airlin, gyroscopic gyroscop, adjustable adjust,
defensible defens, irritant irrit, replacement replac, adjustment adjust, dependent depend, adoption adopt,
homologou homolog, communism commun, activate activ, angulariti angular, homologous homolog, effective effect,
bowdlerize bowdler, probate probat, rate rate, cease ceas, controll control, roll roll, generalizations gener,
oscillators oscil
"""


@pytest.mark.parametrize("pair", [" ".join(pair.split()) for pair in EXAMPLES.split(",")])
def test_examples(pair: str) -> None:
    word, root = pair.split()
    assert stem(word) == root


def test_short_words_stay() -> None:
    assert [stem(word) for word in ("is", "as", "s", "", "by")] == ["is", "as", "s", "", "by"]


def test_forms_of_a_word_meet() -> None:
    assert len({stem(word) for word in ("jump", "jumps", "jumped", "jumping")}) == 1
    assert stem("universe") == stem("university")  # known to be too eager
