"""The rule, and that a setting changes how a search runs and not what it finds."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from copying import Copier

from regard.attention import intervene, switch_off, trace
from regard.base import ConfigError
from regard.data import BOS, EOS, PAD, WordCodec
from regard.decode.beam import Rules
from regard.decode.fixed_path import PathRules
from regard.models import Bahdanau, BahdanauConfig, ConvS2S, ConvS2SConfig, Transformer, TransformerConfig
from regard.models.packed_transformer import PackedTransformer
from regard.tasks import Prediction, Search, translate_texts
from regard.tasks.fast_search import FastSearch, fast_search, packed, recording_seconds, rules_of

LINES = ["a b c d e", "f g h i j", "a c e g i", "b d f h j"]
CODEC = WordCodec.train(LINES)
TEXTS = ["a b c", "", "j", "e e d d c", "h i", "a b c d e f g h i j"]
CODECS = CODEC, CODEC


def model(kind: str = "transformer") -> Any:
    torch.manual_seed(1)
    words = (len(CODEC), len(CODEC))
    sizes: dict[str, Any] = {"dim": 16, "hidden_dim": 24, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 2}
    made = {
        "transformer": lambda: Transformer(TransformerConfig(*words, **sizes)),
        "bahdanau": lambda: Bahdanau(BahdanauConfig(*words, 8, 8, 8, 8, published_start=False)),
        "convs2s": lambda: ConvS2S(
            ConvS2SConfig(*words, embed_dim=8, dim=8, encoder_layers=2, decoder_layers=2, output_dim=8)
        ),
    }[kind]()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return made


def translate(made: Any, **how: Any) -> list[list[Prediction]]:
    return translate_texts(made, TEXTS, CODECS, Search(**how))


SEARCHES: list[dict[str, Any]] = [
    {"beams": 1},
    {"beams": 4, "nbest": 3},
    {"beams": 3, "coverage_penalty": 0.2, "no_repeat": 2, "min_steps": 3},
    {"beams": 5, "nbest": 2, "consensus": 0.5},
    {"beams": 2, "batch_tokens": 8},
]


@pytest.mark.parametrize("kind", ["transformer", "bahdanau", "convs2s"])
@pytest.mark.parametrize(
    "hows", [SEARCHES[2:4], pytest.param(SEARCHES, marks=pytest.mark.slow)], ids=["two searches", "all"]
)
def test_both_ways_find_the_same(kind: str, hows: list[dict[str, Any]]) -> None:
    made = model(kind)
    for how in hows:
        for ours, theirs in zip(translate(made, impl="fixed", **how), translate(made, **how), strict=True):
            assert [one.tokens for one in ours] == [one.tokens for one in theirs]
            for one, other in zip(ours, theirs, strict=True):
                assert one.score == pytest.approx(other.score, abs=1e-5)
                assert one.log_prob == pytest.approx(other.log_prob, abs=1e-5)
                if other.weights is not None:
                    assert np.allclose(one.weights, other.weights, atol=1e-5)


def test_packed_weights_find_the_same() -> None:
    made = model()
    for how in [*SEARCHES, {"temperature": 1.0, "seed": 3}]:
        for ours, theirs in zip(
            translate(made, impl="packed", **how), translate(made, impl="plain", **how), strict=True
        ):
            assert [one.tokens for one in ours] == [one.tokens for one in theirs]
            for one, other in zip(ours, theirs, strict=True):
                assert one.score == pytest.approx(other.score, abs=1e-5)
                assert np.allclose(one.weights, other.weights, atol=1e-5) if other.weights is not None else True


def test_when_weights_are_packed() -> None:
    made = model()
    assert isinstance(packed(made, Search()), PackedTransformer)
    assert isinstance(packed(made, Search(beams=99, temperature=1.0)), PackedTransformer)  # samples are no beams
    for how in (Search(impl="plain"), Search(beams=17)):
        assert packed(made, how) is made
    others = [model("bahdanau"), model("convs2s"), Copier(9)]
    assert [packed(other, Search()) for other in others] == others
    with trace(made):
        assert packed(made, Search()) is made
    with torch.autocast("cpu", torch.bfloat16):
        assert packed(made, Search()) is made
    handle = made.encoder[0].register_forward_hook(lambda *args: None)
    assert packed(made, Search()) is made
    handle.remove()
    for wrong, how, reason in (
        (made, Search(impl="packed", beams=17), "17 beams"),
        (others[0], Search(impl="packed"), "Bahdanau, which has no"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=f"packed weights cannot run here: got {reason}"):
            packed(wrong, how)
    with pytest.raises(ConfigError, match="expected model, as impl is packed"):
        Search(impl="packed", precision="bfloat16")


def test_samples_repeat_and_do_not_depend_on_the_batch() -> None:
    made = model()
    drawn = [translate(made, impl="fixed", temperature=1.0, seed=seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]


def test_bfloat16_by_a_setting() -> None:
    made = model()
    exact, half = translate(made, beams=1), translate(made, beams=1, precision="bfloat16", impl="fixed")
    assert {parameter.dtype for parameter in made.parameters()} == {torch.float32}
    for [one], [other] in zip(half, exact, strict=True):
        assert one.log_prob != other.log_prob or not one.tokens
        assert one.weights is None or one.weights.dtype == np.float32
    with pytest.raises(ConfigError, match="precision"):
        Search(precision="bfloat16", impl="plain")


def test_the_rule() -> None:
    made = model()
    assert fast_search(made, Search(), count=99) is None  # unless it is asked for
    assert isinstance(fast_search(made, Search(impl="fixed"), count=1), FastSearch)
    assert fast_search(made, Search(impl="plain"), count=99) is None
    assert fast_search(Copier(9), Search(), count=99) is None
    assert recording_seconds(made) == 0
    with pytest.raises(ConfigError, match="Copier, which has no fixed_state"):
        translate_texts(Copier(len(CODEC)), TEXTS, CODECS, Search(impl="fixed"))


def test_the_rule_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many sentences, or a model that has recorded steps; no samples, and nothing that cannot keep its shapes."""
    made, kept = model(), {}
    monkeypatch.setattr("regard.tasks.fast_search.device_of", lambda model: torch.device("cuda"))
    monkeypatch.setattr("regard.tasks.fast_search._kept", lambda model, dtype: kept.setdefault(dtype, "the search"))
    assert fast_search(made, Search(), count=16) == "the search"
    assert fast_search(made, Search(), count=15) is None
    assert fast_search(made, Search(impl="plain"), count=99) is None
    assert fast_search(made, Search(temperature=1.0), count=99) is None
    assert fast_search(Copier(9), Search(), count=99) is None
    with trace(made):
        assert fast_search(made, Search(), count=99) is None
    monkeypatch.setattr("regard.tasks.fast_search._KEPT", {made: {}})
    assert fast_search(made, Search(), count=1) == "the search"


def test_what_has_no_fixed_shapes_is_searched_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    made = model()
    fast = FastSearch(made)
    monkeypatch.setattr("regard.tasks.search.fast_search", lambda model, how, count: fast)
    expected = translate(made, impl="plain", beams=2)
    asked: list[int] = []
    monkeypatch.setattr(type(fast.model), "fixed_state", lambda self, state, *, steps: asked.append(steps))
    assert [[one.tokens for one in each] for each in translate(made, beams=2)] == [
        [one.tokens for one in each] for each in expected
    ]
    assert asked == [16]
    assert translate(made, beams=2) == translate(made, beams=2)
    assert asked == [16]  # once


def test_buffers_are_let_go_of_if_they_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    made = model()
    fast = FastSearch(made)
    monkeypatch.setattr("regard.tasks.search.fast_search", lambda model, how, count: fast)
    held = iter(range(0, 10**12, 2**29))
    monkeypatch.setattr(FastSearch, "_allocated", lambda self: next(held))
    translate(made, impl="fixed", beams=2, batch_tokens=10**6)
    assert fast._searches
    for _ in range(2):
        translate(made, impl="fixed", beams=2, batch_tokens=10**6)
    assert not fast._searches


def test_whoever_watches_the_model_is_told_to_take_the_plain_search() -> None:
    made, how = model(), Search(impl="fixed")
    with trace(made), pytest.raises(ConfigError, match="a trace or an intervention"):
        fast_search(made, how, count=9)
    with intervene(made, "decoder.0.cross", switch_off), pytest.raises(ConfigError, match="a trace or an intervention"):
        fast_search(made, how, count=9)
    handle = made.decoder[0].register_forward_hook(lambda *_: None)
    with pytest.raises(ConfigError, match="a hook"):
        fast_search(made, how, count=9)
    handle.remove()
    assert fast_search(made, how, count=9) is not None


def test_rules_by_settings() -> None:
    barred = (PAD, BOS)
    assert rules_of(Search(beams=1, min_steps=2), barred) == PathRules(EOS, 2, frozenset(barred))
    assert rules_of(Search(temperature=0.5, top_k=3), barred) == PathRules(EOS, 0, frozenset(barred), 0.5, 3, 1.0)
    beam = Rules(EOS, 4, 2, 0, 1.0, 0.0, 0, frozenset(barred))
    assert rules_of(Search(beams=4, nbest=2), barred) == beam
    assert rules_of(Search(beams=4, nbest=2, consensus=1.0), barred) == replace(beam, nbest=4)


def test_a_model_without_so_many_positions() -> None:
    """Room is made for as many steps as there are, and one more is an error that says what to do."""
    made = model("convs2s")
    fast = FastSearch(made.eval())
    with torch.no_grad():
        state = fast.model.init_state(fast.model.encode(torch.tensor([[5, EOS]]), torch.tensor([2])))
        limit = made.config.max_positions
        assert len(fast.find(state, PathRules(EOS), torch.tensor([limit]))) == 1
        with pytest.raises(ConfigError, match="no fixed shapes with these settings"):
            fast.find(state, PathRules(EOS), torch.tensor([limit + 1]))


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["transformer", "bahdanau", "convs2s"])
def test_recorded_on_a_gpu(kind: str) -> None:
    made = model(kind).cuda()
    for how in SEARCHES:
        expected = translate(made, impl="plain", **how)
        for _ in range(2):
            found = translate(made, impl="fixed", **how)
            assert [[one.tokens for one in each] for each in found] == [[o.tokens for o in each] for each in expected]
    assert recording_seconds(made) > 0
    for parameter in made.parameters():
        parameter.data.mul_(1.1)  # recorded steps see the new weights
    ours, theirs = (translate(made, impl=impl, beams=1) for impl in ("fixed", "plain"))
    assert [one.tokens for [one] in ours] == [one.tokens for [one] in theirs]
