"""From texts to translations: order, blanks, unknown words, and weights that belong to what was found."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from copying import Copier

from regard.base import ConfigError
from regard.data import BOS, EOS, SubwordCodec, WordCodec
from regard.decode import Hypothesis, consensus
from regard.models import Bahdanau, BahdanauConfig, Cho, ChoConfig
from regard.tasks import Prediction, Search, translate_texts
from regard.tasks.search import search_signature

LINES = ["a b c d e", "f g h i j", "a c e g i", "b d f h j"]
CODEC = WordCodec.train(LINES)
TEXTS = ["a b c", "j", "e e d d c", "h i"]


def copy(texts: list[str], how: Search | None = None, *, surety: float = 9.0) -> list[list[Prediction]]:
    return translate_texts(Copier(len(CODEC), surety), texts, (CODEC, CODEC), how or Search())


def bahdanau() -> Bahdanau:
    torch.manual_seed(1)
    sizes = {"embed_dim": 8, "hidden_dim": 8, "align_dim": 8, "maxout_dim": 8}
    model = Bahdanau(BahdanauConfig(len(CODEC), len(CODEC), **sizes, dropout=0.5, published_start=False))
    for parameter in model.parameters():
        parameter.data.mul_(3.0)  # so that it is sure of something
    return model


@pytest.mark.parametrize("how", [Search(1), Search(5), Search(3, no_repeat=4), Search(temperature=0.1)])
def test_each_text_in_its_place(how: Search) -> None:
    found = copy(TEXTS, how)
    assert [[one.text for one in several] for several in found] == [[text] for text in TEXTS]
    for text, [one] in zip(TEXTS, found, strict=True):
        assert one.source == text
        assert one.tokens == text.split()
        assert one.source_tokens == [*text.split(), "<eos>"]
        assert one.finished
        assert one.log_prob < 0
        assert one.weights is not None
        assert one.weights.dtype == np.float32
        assert np.array_equal(one.weights, np.eye(len(one.tokens), len(one.source_tokens)))


def test_blank_texts_stay_blank() -> None:
    found = copy(["", "a b", "  \t", "\u200b\u00ad", "c"])
    assert [several[0].text for several in found] == ["", "a b", "", "", "c"]
    assert found[2] == [Prediction("  \t", "", [], [], 0.0, 0.0, True, None)]
    assert found[3][0].source_tokens == []  # the model was not asked
    assert copy([]) == []
    assert copy([""])[0][0].weights is None


def test_the_best_few() -> None:
    [several] = copy(["a b"], Search(4, nbest=3), surety=2.0)
    assert len(several) == 3
    assert several[0].text == "a b"
    assert len({one.text for one in several}) == 3
    scores = [one.score for one in several]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beams": 2, "nbest": 3}, "nbest: got 3; expected at most beams, which is 2. Try: add --beam 3"),
        ({"nbest": 3, "temperature": 1.0}, "nbest: got 3; expected 1 with a temperature. Try: sample with several"),
        ({"beams": 0}, "beams: got 0; expected 1 or more"),
        ({"nbest": 0}, "nbest: got 0; expected 1 or more"),
        ({"batch_tokens": 0}, "batch_tokens: got 0; expected 1 or more"),
        ({"consensus": -1.0}, "consensus: got -1.0; expected 0 or more. Try: use 1, which weighs by probability"),
        ({"temperature": 0.0}, "temperature: got 0.0; expected more than 0"),
    ],
)
def test_what_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        copy(["a"], Search(**settings))


@pytest.mark.parametrize("how", [Search(1), Search(4, nbest=2), Search(3, coverage_penalty=0.2)])
def test_the_size_of_batches_changes_nothing(how: Search) -> None:
    model, how = bahdanau(), replace(how, max_ratio=0.2)
    large, small = (
        translate_texts(model, TEXTS, (CODEC, CODEC), replace(how, batch_tokens=tokens)) for tokens in (4096, 1)
    )
    for several, others in zip(large, small, strict=True):
        assert [one.text for one in several] == [other.text for other in others]
        for one, other in zip(several, others, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-5)
            assert one.weights is not None
            assert other.weights is not None
            assert one.weights.shape == other.weights.shape == (len(one.tokens), len(one.source_tokens))
            np.testing.assert_allclose(one.weights, other.weights, atol=1e-5)


def test_weights_are_those_of_the_winning_words() -> None:
    model = bahdanau()
    for [one] in translate_texts(model, TEXTS, (CODEC, CODEC), Search(4, max_ratio=0.2)):
        source = torch.tensor([[*CODEC.encode_text(one.source), EOS]])
        inputs = torch.tensor([[BOS, *CODEC.vocabulary.encode(one.tokens)]])
        with torch.no_grad():
            whole = model.eval()(source, torch.tensor([source.shape[1]]), inputs, need_weights=True)
        assert one.weights is not None
        assert whole.weights is not None
        np.testing.assert_allclose(one.weights, whole.weights[0, : len(one.tokens)], atol=1e-5)
        np.testing.assert_allclose(one.weights.sum(1), 1, atol=1e-5)


def test_sampling_depends_on_the_seed() -> None:
    def texts(seed: int) -> list[str]:
        return [several[0].text for several in copy(TEXTS, Search(temperature=1.0, seed=seed), surety=2.0)]

    before = torch.get_rng_state()
    assert texts(1) == texts(1)
    assert texts(1) != texts(2)
    assert torch.equal(torch.get_rng_state(), before)  # the generator is its own
    assert [several[0].text for several in copy(TEXTS, Search(temperature=1.0, top_k=1), surety=2.0)] == TEXTS


def test_unknown_words() -> None:
    [[kept]], [[replaced]] = (copy(["a Zürich b ?"], Search(2, replace_unknown=wish)) for wish in (False, True))
    assert (kept.text, kept.tokens) == ("a <unk> b <unk>", ["a", "<unk>", "b", "<unk>"])
    assert (replaced.text, replaced.tokens) == ("a Zürich b?", ["a", "Zürich", "b", "?"])
    assert copy(["a b"], Search(2, replace_unknown=True))[0][0].text == "a b"


def test_unknown_pieces() -> None:
    codec = SubwordCodec.train(LINES * 3, size=24)
    text = "abc 中 de"
    model = Copier(len(codec))
    [[kept]], [[replaced]] = (
        translate_texts(model, [text], (codec, codec), Search(2, replace_unknown=wish)) for wish in (False, True)
    )
    assert "中" not in kept.text
    assert replaced.text == text
    assert replaced.weights is not None
    assert replaced.weights.shape == (len(replaced.tokens), len(replaced.source_tokens))


@pytest.mark.parametrize("beams", [1, 3])
def test_the_longest_there_can_be(beams: int) -> None:
    class Endless(Copier):
        def step(self, tokens, state):  # type: ignore[no-untyped-def]
            found = super().step(tokens, state)
            found.logits[:, EOS] = -100.0
            return found

    how = Search(beams, max_ratio=1.5)
    found = translate_texts(Endless(len(CODEC)), ["a b c", "a"], (CODEC, CODEC), how)
    assert [len(several[0].tokens) for several in found] == [16, 13]  # 1.5 · 4 + 10 and 1.5 · 2 + 10
    assert not found[0][0].finished
    assert found[0][0].weights is not None
    assert found[0][0].weights.shape == (16, 4)


def test_the_shortest_there_may_be() -> None:
    assert len(copy(["a"], Search(3))[0][0].tokens) == 1
    assert len(copy(["a"], Search(3, min_steps=4))[0][0].tokens) >= 3  # <eos> is a step


def test_a_model_without_attention_has_no_weights() -> None:
    model = Cho(ChoConfig(len(CODEC), len(CODEC), embed_dim=8, hidden_dim=8, maxout_dim=8))
    found = translate_texts(model, TEXTS, (CODEC, CODEC), Search(2, replace_unknown=True))
    assert all(several[0].weights is None for several in found)


def test_the_model_is_left_as_it_was() -> None:
    model = bahdanau().train()
    one, other = (translate_texts(model, TEXTS, (CODEC, CODEC), Search(2, max_ratio=0.2)) for _ in range(2))
    assert model.training
    assert one == other  # without dropout
    model.eval()
    assert translate_texts(model, TEXTS, (CODEC, CODEC), Search(2, max_ratio=0.2)) == one
    assert not model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    with pytest.raises(ConfigError):
        translate_texts(model.train(), TEXTS, (CODEC, CODEC), Search(2, length_penalty=-1.0))
    assert model.training


def test_consensus_chooses_among_all_beams() -> None:
    """Not only among the `nbest` that are asked for, and with scores of its own."""
    model = bahdanau()
    beams = translate_texts(model, TEXTS, (CODEC, CODEC), Search(5, nbest=5))
    found = translate_texts(model, TEXTS, (CODEC, CODEC), Search(5, nbest=2, consensus=1.0))
    for text, several, best in zip(TEXTS, beams, found, strict=True):
        hypotheses = [Hypothesis(CODEC.encode_text(one.text), one.log_prob, one.score) for one in several]
        wanted = consensus(hypotheses)[:2]
        assert [one.log_prob for one in best] == [one.log_prob for one in wanted], text
        assert [one.score for one in best] == pytest.approx([one.score for one in wanted])
        assert best[0].weights is not None
        assert len(best[0].weights) == len(best[0].tokens)
    assert any(several[0].text != best[0].text for several, best in zip(beams, found, strict=True))
    with pytest.raises(ConfigError, match="consensus: got temperature"):
        copy(["a"], Search(5, consensus=1.0, temperature=1.0))


def test_a_signature_has_all_that_changes_what_is_found() -> None:
    assert search_signature(Search(1)) == "search:greedy"
    assert search_signature(Search(1, no_repeat=3)) == "search:beams=1,length_penalty=1,no_repeat=3"
    assert search_signature(Search(5, min_steps=2)) == "search:beams=5,length_penalty=1,min_steps=2"
    assert search_signature(Search(40, length_penalty=0.5, consensus=0.0)).endswith("=0.5,consensus=0")
    assert search_signature(Search(5, batch_tokens=9)) == search_signature(Search(5))  # how it is computed is no part
