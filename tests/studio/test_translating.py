from typing import Any

import numpy as np
import pytest

import regard
from regard.base import ConfigError
from regard.studio import translating
from regard.studio.translating import Wanted, forced, prefix_of, translate

SENTENCE = "I lost my keys."


@pytest.fixture(scope="module")
def model() -> Any:
    return regard.load("tatoeba-en-fr", device="cpu")


def events_of(model: Any, prefix: tuple[int, ...] = (), text: str = SENTENCE, **settings: Any) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    translate(model, Wanted(text, model.task.settings(**settings), prefix), events.append)
    return events


@pytest.mark.parametrize("beams", [1, 3])
def test_the_stream_ends_with_what_translate_gives(model: Any, beams: int) -> None:
    events = events_of(model, beams=beams, nbest=beams)
    done, expected = events[-1], model.predictions([SENTENCE], beam=beams, nbest=beams)[0]
    assert [each["kind"] for each in events[1:-1]] == ["token" if beams == 1 else "beam"] * (len(events) - 2)
    assert events[0]["source_tokens"] == expected[0].source_tokens
    assert [each["text"] for each in done["others"]] == [each.text for each in expected]
    assert [each["score"] for each in done["others"]] == pytest.approx([each.score for each in expected], abs=1e-5)
    weights = np.array(done["prediction"]["explanations"][0]["weights"]["values"])
    np.testing.assert_allclose(weights, expected[0].weights, atol=1e-5)
    assert done["prediction"]["explanations"][0]["layer"] == expected[0].weights_from != ""


def test_the_tree_of_the_beams_leads_to_the_winner(model: Any) -> None:
    events = events_of(model, beams=3, nbest=3)
    prefixes = {prefix["node"]: prefix for event in events[1:-1] for prefix in event["prefixes"]}
    winner, node = events[-1]["prediction"], 0
    for token in winner["ids"]:
        [node] = [each["node"] for each in prefixes.values() if each["parent"] == node and each["id"] == token]
    assert prefixes[node]["log_prob"] > winner["log_prob"] - 1e-4  # which has the end of the sentence too
    for prefix in prefixes.values():
        assert prefix["parent"] == 0 or prefixes[prefix["parent"]]["log_prob"] >= prefix["log_prob"]


def test_a_beginning_is_kept_and_gone_on_from(model: Any) -> None:
    free = events_of(model, beams=1)[-1]["prediction"]
    same = events_of(model, tuple(free["ids"][:3]), beams=1)[-1]
    assert same["prediction"]["ids"] == free["ids"]
    assert same["prediction"]["log_prob"] == pytest.approx(free["log_prob"], abs=1e-4)
    np.testing.assert_allclose(
        same["prediction"]["explanations"][0]["weights"]["values"],
        free["explanations"][0]["weights"]["values"],
        atol=1e-5,
    )
    other = prefix_of({"word": "Elle"}, model, 50)
    changed = events_of(model, other, beams=2)[-1]
    assert changed["prediction"]["text"].startswith("Elle ")
    assert changed["prefix"] == len(other)
    assert len(changed["alternatives"]) > len(other)


def test_alternatives_have_the_probabilities_of_the_model(model: Any) -> None:
    done = events_of(model, beams=1)[-1]
    for place, token in enumerate(done["prediction"]["ids"]):
        likely = done["alternatives"][place]
        assert likely[0]["id"] == token  # a greedy search takes the likeliest
        assert [each["log_prob"] for each in likely] == sorted((each["log_prob"] for each in likely), reverse=True)
    total = sum(likely[0]["log_prob"] for likely in done["alternatives"])
    assert total == pytest.approx(done["prediction"]["log_prob"], abs=1e-4)


def test_a_known_translation_has_layers(model: Any) -> None:
    ids = model.task.codecs[1].encode_text("J'ai perdu mes clés.")
    layers = model.layers(forced(model, SENTENCE, ids))
    expected = model.layers(model.translate(SENTENCE))
    np.testing.assert_allclose(layers[0].weights, expected[0].weights, atol=1e-5)


def test_blank_text_and_wrong_beginnings(model: Any) -> None:
    assert events_of(model, text=" ")[-1]["prediction"] is None
    for wrong in ([1], [-1], ["a"], [8000], [2.5], "x", {"a": 1}):
        with pytest.raises(ConfigError, match="the beginning of a translation"):
            prefix_of({"prefix": wrong}, model, 50)
    with pytest.raises(ConfigError, match="got 4 tokens; expected at most 3"):
        prefix_of({"prefix": [9, 9, 9, 9]}, model, 3)
    with pytest.raises(ConfigError, match="the word of a request"):
        prefix_of({"word": "x" * 101}, model, 3)


def test_samples_are_streamed_too(model: Any) -> None:
    events = events_of(model, beams=1, temperature=0.5, seed=3)
    [expected] = model.predictions([SENTENCE], beam=1, temperature=0.5, seed=3)
    assert events[-1]["prediction"]["text"] == expected[0].text
    assert len(events[-1]["alternatives"][0]) == translating.ALTERNATIVES
